"""Equivariant layers. They take and return plain tensors; each layer has the field types of its input and output.

The files at the top define layers and claims, the geometry of windows, and export. The sub-packages come in this order,
and each imports only those before it. The first three lie below the top: they make filters and import no layers.

    basis      constant tables; invariant and intertwining maps
    filters    filters from free weights
    pointwise  the fast path for 1 x 1 maps
    linear     convolutions and linear layers
    clouds     fields on scattered points
    sets       sets and graphs of any size
    nonlinear  nonlinearities and tensor products
    norms      normalization and dropout
    resizing   pooling, blurring, upsampling
    types      layers that change the field type
    networks   layers made of layers
    twins      typed networks from symmetrized plain ones
"""

from .._cost_rules import cost_rules as cost_rules
from ._export import to_plain as to_plain
from ._layer import LAYERS as LAYERS
from ._layer import Approximate as Approximate
from ._layer import Claim as Claim
from ._layer import Companion as Companion
from ._layer import Exact as Exact
from ._layer import Layer as Layer
from ._layer import Relaxed as Relaxed
from ._layer import Strict as Strict
from ._layer import combined_claim as combined_claim
from ._layer import register_layer as register_layer
from ._traced import TracedLayer as TracedLayer
from ._window import Window as Window
from .clouds import PointConv as PointConv
from .clouds import bessel_basis as bessel_basis
from .clouds import gaussian_basis as gaussian_basis
from .clouds import radius_graph as radius_graph
from .clouds import smooth_cutoff as smooth_cutoff
from .filters import FilterExpansion as FilterExpansion
from .linear import Conv1d as Conv1d
from .linear import Conv2d as Conv2d
from .linear import Conv3d as Conv3d
from .linear import ConvTranspose2d as ConvTranspose2d
from .linear import ConvTranspose3d as ConvTranspose3d
from .linear import CosetLinear as CosetLinear
from .linear import DepthwiseConv2d as DepthwiseConv2d
from .linear import Linear as Linear
from .linear import SphereConv as SphereConv
from .networks import Concat as Concat
from .networks import ConvNeXtBlock as ConvNeXtBlock
from .networks import Identity as Identity
from .networks import Mask as Mask
from .networks import Plain as Plain
from .networks import Residual as Residual
from .networks import Sequential as Sequential
from .nonlinear import ELU as ELU
from .nonlinear import Bilinear as Bilinear
from .nonlinear import DepthwiseBilinear as DepthwiseBilinear
from .nonlinear import FourierNonlinearity as FourierNonlinearity
from .nonlinear import Gated as Gated
from .nonlinear import NormNonlinearity as NormNonlinearity
from .nonlinear import Pointwise as Pointwise
from .nonlinear import ReLU as ReLU
from .nonlinear import TensorProduct as TensorProduct
from .nonlinear import TensorSquare as TensorSquare
from .nonlinear import band_limited_quotient as band_limited_quotient
from .nonlinear import band_limited_regular as band_limited_regular
from .norms import BatchNorm as BatchNorm
from .norms import Dropout as Dropout
from .norms import GroupNorm as GroupNorm
from .norms import InstanceNorm as InstanceNorm
from .norms import LayerNorm as LayerNorm
from .resizing import AvgPool1d as AvgPool1d
from .resizing import AvgPool2d as AvgPool2d
from .resizing import AvgPool3d as AvgPool3d
from .resizing import BlurPool2d as BlurPool2d
from .resizing import BlurPool3d as BlurPool3d
from .resizing import GlobalPool as GlobalPool
from .resizing import GroupPool as GroupPool
from .resizing import MaxPool1d as MaxPool1d
from .resizing import MaxPool2d as MaxPool2d
from .resizing import MaxPool3d as MaxPool3d
from .resizing import NormPool as NormPool
from .resizing import Upsample as Upsample
from .sets import TupleLinear as TupleLinear
from .twins import typed as typed
from .types import FromIrreps as FromIrreps
from .types import Restrict as Restrict
from .types import ToIrreps as ToIrreps
