"""Equivariant layers: plain tensors on the wire, field types on the layers."""

from ._conv2d import Conv2d as Conv2d
from ._coset_linear import CosetLinear as CosetLinear
from ._expansion import FilterExpansion as FilterExpansion
from ._export import to_plain as to_plain
from ._layer import LAYERS as LAYERS
from ._layer import Approximate as Approximate
from ._layer import Claim as Claim
from ._layer import Exact as Exact
from ._layer import Layer as Layer
from ._layer import register_layer as register_layer
from ._nonlinearity import ELU as ELU
from ._nonlinearity import NormNonlinearity as NormNonlinearity
from ._nonlinearity import Pointwise as Pointwise
from ._nonlinearity import ReLU as ReLU
from ._norm import BatchNorm as BatchNorm
from ._pool import AvgPool2d as AvgPool2d
from ._pool import GlobalPool as GlobalPool
from ._pool import GroupPool as GroupPool
from ._pool import MaxPool2d as MaxPool2d
from ._pool import NormPool as NormPool
from ._sequential import Sequential as Sequential
