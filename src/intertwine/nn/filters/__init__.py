"""Filters from free weights: blocks between pairs of summands, and the expansion that assembles them."""

from ._expansion import FilterExpansion as FilterExpansion
