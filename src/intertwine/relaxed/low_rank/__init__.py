"""Low-rank locally connected layers and their baselines (Elsayed et al. 2020)."""

from ._combining_network import CombiningNetwork as CombiningNetwork
from ._coord import CoordConv2d as CoordConv2d
from ._local import LocallyConnected2d as LocallyConnected2d
from ._low_rank import LowRankLocalConv2d as LowRankLocalConv2d
from ._low_rank import to_locally_connected as to_locally_connected
from ._low_rank_cost import RankCost as RankCost
from ._low_rank_cost import combining_maps as combining_maps
from ._low_rank_cost import flops_against_rank as flops_against_rank
from ._low_rank_cost import wide_conv_width as wide_conv_width
from ._low_rank_input import InputLowRankLocalConv2d as InputLowRankLocalConv2d
from ._spatial_bias import SpatialBias2d as SpatialBias2d
