"""Networks averaged over a group: merging, repair, barriers, and exactly equivariant twins."""

from ._barrier import Barrier as Barrier
from ._barrier import GcnnBarrier as GcnnBarrier
from ._barrier import accuracy as accuracy
from ._barrier import barrier as barrier
from ._barrier import filter_pairs as filter_pairs
from ._barrier import gcnn_barrier as gcnn_barrier
from ._barrier import interpolation_curve as interpolation_curve
from ._barrier import kernel_residuals as kernel_residuals
from ._barrier import moved_and_matched as moved_and_matched
from ._barrier import variance_collapse as variance_collapse
from ._merge import merge as merge
from ._merge import reset_batch_norms as reset_batch_norms
from ._orbit_average import OrbitAverage as OrbitAverage
from ._repair import repair as repair
from ._repair import repair_closed_form as repair_closed_form
from ._stride import Artifact as Artifact
from ._stride import StrideReport as StrideReport
from ._stride import stride_artifacts as stride_artifacts
from ._symmetrize import Symmetrized as Symmetrized
from ._symmetrize import field_types as field_types
from ._symmetrize import symmetrize as symmetrize
from ._tied import tie as tie
from ._tune import tune as tune
