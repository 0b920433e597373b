"""Average networks over a group: merging, repair, barriers, and exactly equivariant networks."""

from ._barrier import Barrier as Barrier
from ._barrier import GcnnBarrier as GcnnBarrier
from ._barrier import accuracy as accuracy
from ._barrier import barrier as barrier
from ._barrier import filter_pairs as filter_pairs
from ._barrier import gcnn_barrier as gcnn_barrier
from ._barrier import variance_collapse as variance_collapse
from ._group_average import GroupAverage as GroupAverage
from ._merge import merge as merge
from ._repair import repair as repair
from ._stride import StrideReport as StrideReport
from ._stride import stride_artifacts as stride_artifacts
from ._symmetrize import Symmetrized as Symmetrized
from ._symmetrize import symmetrize as symmetrize
from ._tied import tie as tie
from ._untie import untie as untie
