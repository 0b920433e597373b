"""Pooling, blurring and upsampling."""

from ._blur_pool import BlurPool2d as BlurPool2d
from ._blur_pool import BlurPool3d as BlurPool3d
from ._pool import GlobalPool as GlobalPool
from ._pool import GroupPool as GroupPool
from ._pool import NormPool as NormPool
from ._upsample import Upsample as Upsample
from ._window_pool import AvgPool1d as AvgPool1d
from ._window_pool import AvgPool2d as AvgPool2d
from ._window_pool import AvgPool3d as AvgPool3d
from ._window_pool import MaxPool1d as MaxPool1d
from ._window_pool import MaxPool2d as MaxPool2d
from ._window_pool import MaxPool3d as MaxPool3d
