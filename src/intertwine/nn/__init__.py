"""Equivariant layers. They take and return plain tensors; each layer has the field types of its input and output.

The files at the top define layers and claims, the geometry of windows, and export. The sub-packages come in this order,
and each imports only those before it. The first three lie below the top: they make filters and import no layers.

    basis      constant tables; invariant and intertwining maps
    filters    filters from free weights
    pointwise  the fast path for 1 x 1 maps
    linear     convolutions and linear layers
    clouds     fields on scattered points
    sets       sets and graphs of any size
    scales     fields of position and scale
    nonlinear  nonlinearities and tensor products
    norms      normalization and dropout
    resizing   pooling, blurring, upsampling
    types      layers that change the field type
    networks   layers made of layers
    twins      typed networks from symmetrized plain ones
"""

from .._importing import no_collection as _no_collection

with _no_collection():
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
    from .clouds._cloud_pool import CloudPool as CloudPool
    from .clouds._point_conv import PointConv as PointConv
    from .clouds._radial import bessel_basis as bessel_basis
    from .clouds._radial import gaussian_basis as gaussian_basis
    from .clouds._radial import smooth_cutoff as smooth_cutoff
    from .clouds._radius_graph import radius_graph as radius_graph
    from .filters._expansion import FilterExpansion as FilterExpansion
    from .linear._conv1d import Conv1d as Conv1d
    from .linear._conv2d import Conv2d as Conv2d
    from .linear._conv3d import Conv3d as Conv3d
    from .linear._conv_transpose import ConvTranspose2d as ConvTranspose2d
    from .linear._conv_transpose import ConvTranspose3d as ConvTranspose3d
    from .linear._coset_linear import CosetLinear as CosetLinear
    from .linear._depthwise import DepthwiseConv2d as DepthwiseConv2d
    from .linear._linear import Linear as Linear
    from .linear._sphere_conv import SphereConv as SphereConv
    from .networks._branches import Concat as Concat
    from .networks._branches import Residual as Residual
    from .networks._convnext import ConvNeXtBlock as ConvNeXtBlock
    from .networks._identity import Identity as Identity
    from .networks._mask import Mask as Mask
    from .networks._plain import Plain as Plain
    from .networks._same_size import SameSize as SameSize
    from .networks._sequential import Sequential as Sequential
    from .nonlinear._bilinear import Bilinear as Bilinear
    from .nonlinear._bilinear import DepthwiseBilinear as DepthwiseBilinear
    from .nonlinear._bilinear import FullBilinear as FullBilinear
    from .nonlinear._fourier import FourierNonlinearity as FourierNonlinearity
    from .nonlinear._fourier import band_limited_quotient as band_limited_quotient
    from .nonlinear._fourier import band_limited_regular as band_limited_regular
    from .nonlinear._gated import Gated as Gated
    from .nonlinear._nonlinearity import ELU as ELU
    from .nonlinear._nonlinearity import NormNonlinearity as NormNonlinearity
    from .nonlinear._nonlinearity import Pointwise as Pointwise
    from .nonlinear._nonlinearity import ReLU as ReLU
    from .nonlinear._orientation_pool import OrientationPool as OrientationPool
    from .nonlinear._tensor_product import TensorProduct as TensorProduct
    from .nonlinear._tensor_product import TensorSquare as TensorSquare
    from .norms._dropout import Dropout as Dropout
    from .norms._layer_norm import GroupNorm as GroupNorm
    from .norms._layer_norm import InstanceNorm as InstanceNorm
    from .norms._layer_norm import LayerNorm as LayerNorm
    from .norms._norm import BatchNorm as BatchNorm
    from .resizing._adaptive_pool import AdaptiveAvgPool as AdaptiveAvgPool
    from .resizing._adaptive_pool import AdaptiveMaxPool as AdaptiveMaxPool
    from .resizing._blur_pool import BlurPool2d as BlurPool2d
    from .resizing._blur_pool import BlurPool3d as BlurPool3d
    from .resizing._fit_stride import FitStride as FitStride
    from .resizing._global_pool import GlobalPool as GlobalPool
    from .resizing._max_blur_pool import MaxBlurPool as MaxBlurPool
    from .resizing._norm_max_pool import NormMaxPool as NormMaxPool
    from .resizing._pool import GroupPool as GroupPool
    from .resizing._pool import NormPool as NormPool
    from .resizing._upsample import Upsample as Upsample
    from .resizing._window_pool import AvgPool1d as AvgPool1d
    from .resizing._window_pool import AvgPool2d as AvgPool2d
    from .resizing._window_pool import AvgPool3d as AvgPool3d
    from .resizing._window_pool import MaxPool1d as MaxPool1d
    from .resizing._window_pool import MaxPool2d as MaxPool2d
    from .resizing._window_pool import MaxPool3d as MaxPool3d
    from .scales._scale_conv import ScaleConv2d as ScaleConv2d
    from .scales._scale_conv import ScaleLift2d as ScaleLift2d
    from .scales._scale_pool import ScalePool as ScalePool
    from .sets._tuple_linear import TupleLinear as TupleLinear
    from .twins._typed import typed as typed
    from .types._irreps import FromIrreps as FromIrreps
    from .types._irreps import ToIrreps as ToIrreps
    from .types._restrict import Restrict as Restrict
