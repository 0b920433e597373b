"""Where images come from: tensors, files and archives, packed bits, a renderer."""

from ._factors import FactorGrid as FactorGrid
from ._source import ImageSource as ImageSource
from ._source import TensorImages as TensorImages
from ._sprites import DSPRITES as DSPRITES
from ._sprites import SpriteImages as SpriteImages
