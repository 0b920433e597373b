"""Normalization and dropout."""

from ._dropout import Dropout as Dropout
from ._layer_norm import GroupNorm as GroupNorm
from ._layer_norm import InstanceNorm as InstanceNorm
from ._layer_norm import LayerNorm as LayerNorm
from ._norm import BatchNorm as BatchNorm
