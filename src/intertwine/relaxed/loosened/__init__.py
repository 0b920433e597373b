"""Relaxed versions of any strict convolution, and ``relax``, which relaxes a whole network."""

from ._modulated_conv import ModulatedConv as ModulatedConv
from ._orientation_conv import OrientationConv as OrientationConv
from ._position_conv import LowRankConv as LowRankConv
from ._relax import RelaxedRow as RelaxedRow
from ._relax import RelaxReport as RelaxReport
from ._relax import relax as relax
from ._residual_conv import ResidualConv as ResidualConv
