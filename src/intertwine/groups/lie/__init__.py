"""Lie groups: rotations and reflections of the plane and of space, and motions of Euclidean space."""

from ._compact import CompactLieGroup as CompactLieGroup
from ._euclidean import SE2 as SE2
from ._euclidean import SE3 as SE3
from ._euclidean import Translations as Translations
from ._lie_group import LieGroup as LieGroup
from ._planar import O2 as O2
from ._planar import SO2 as SO2
from ._representation import LieRepresentation as LieRepresentation
from ._representation import degree_of as degree_of
from ._spatial import O3 as O3
from ._spatial import SO3 as SO3
