"""The Lie groups that fix the origin, in one place: SO(2), O(2), SO(3), O(3)."""

from ._planar import O2 as O2
from ._planar import SO2 as SO2
from ._spatial import O3 as O3
from ._spatial import SO3 as SO3
