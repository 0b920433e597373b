"""From free weights to filters: the blocks between summands, and the expansion that assembles them."""

from ._expansion import FilterExpansion as FilterExpansion
