"""Continuous filters that depend on position, and partial group convolutions (van der Ouderaa et al. 2022)."""

from ._kernel_net import KERNEL_NETS as KERNEL_NETS
from ._kernel_penalty import kernel_norms as kernel_norms
from ._partial import PartialGroupConv2d as PartialGroupConv2d
from ._partial import extent_penalty as extent_penalty
from ._soft_conv import SoftConv2d as SoftConv2d
from ._soft_group_conv import SoftGroupConv2d as SoftGroupConv2d
