"""Layers made of layers: sequences, branches, blocks, and wrappers around plain modules."""

from ._branches import Concat as Concat
from ._branches import Residual as Residual
from ._convnext import ConvNeXtBlock as ConvNeXtBlock
from ._identity import Identity as Identity
from ._mask import Mask as Mask
from ._plain import Plain as Plain
from ._sequential import Sequential as Sequential
