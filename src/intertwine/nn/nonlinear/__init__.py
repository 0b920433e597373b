"""Nonlinearities and tensor products."""

from ._bilinear import Bilinear as Bilinear
from ._bilinear import DepthwiseBilinear as DepthwiseBilinear
from ._fourier import FourierNonlinearity as FourierNonlinearity
from ._fourier import band_limited_quotient as band_limited_quotient
from ._fourier import band_limited_regular as band_limited_regular
from ._gated import Gated as Gated
from ._nonlinearity import ELU as ELU
from ._nonlinearity import NormNonlinearity as NormNonlinearity
from ._nonlinearity import Pointwise as Pointwise
from ._nonlinearity import ReLU as ReLU
from ._tensor_product import TensorProduct as TensorProduct
from ._tensor_product import TensorSquare as TensorSquare
