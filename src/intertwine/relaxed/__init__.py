"""Layers between strictly equivariant and unconstrained, with one dial.

The files at the top define relaxed layers and their distance from strict. The sub-packages come in this order, and each
imports only those before it.

    low_rank   low-rank locally connected layers and their baselines
    soft       continuous filters that depend on position; partial group convolutions
    loosened   relaxed versions of any strict convolution, and ``relax``
"""

from ._kernel_shares import TRANSLATION as TRANSLATION
from ._kernel_shares import LocalKernels as LocalKernels
from ._kernel_shares import kernel_shares as kernel_shares
from ._orientations import Orientations as Orientations
from ._relaxed_layer import RelaxationTable as RelaxationTable
from ._relaxed_layer import RelaxedLayer as RelaxedLayer
from ._relaxed_layer import relaxation_penalty as relaxation_penalty
from ._relaxed_layer import relaxation_table as relaxation_table
from ._relaxed_layer import relaxed_layers as relaxed_layers
from ._relaxed_layer import to_equivariant_ as to_equivariant_
from .loosened._modulated_conv import ModulatedConv as ModulatedConv
from .loosened._orientation_conv import OrientationConv as OrientationConv
from .loosened._position_conv import LowRankConv as LowRankConv
from .loosened._relax import RelaxedRow as RelaxedRow
from .loosened._relax import RelaxReport as RelaxReport
from .loosened._relax import relax as relax
from .loosened._residual_conv import ResidualConv as ResidualConv
from .low_rank._combining_network import CombiningNetwork as CombiningNetwork
from .low_rank._coord import CoordConv2d as CoordConv2d
from .low_rank._local import LocallyConnected2d as LocallyConnected2d
from .low_rank._low_rank import LowRankLocalConv2d as LowRankLocalConv2d
from .low_rank._low_rank import to_locally_connected as to_locally_connected
from .low_rank._low_rank_cost import RankCost as RankCost
from .low_rank._low_rank_cost import combining_maps as combining_maps
from .low_rank._low_rank_cost import flops_against_rank as flops_against_rank
from .low_rank._low_rank_cost import wide_conv_width as wide_conv_width
from .low_rank._low_rank_input import InputLowRankLocalConv2d as InputLowRankLocalConv2d
from .low_rank._spatial_bias import SpatialBias2d as SpatialBias2d
from .soft._kernel_net import KERNEL_NETS as KERNEL_NETS
from .soft._kernel_penalty import kernel_norms as kernel_norms
from .soft._partial import PartialGroupConv2d as PartialGroupConv2d
from .soft._partial import extent_penalty as extent_penalty
from .soft._soft_conv import SoftConv2d as SoftConv2d
from .soft._soft_group_conv import SoftGroupConv2d as SoftGroupConv2d
