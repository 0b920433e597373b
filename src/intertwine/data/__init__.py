"""Datasets of images, by name or from class folders, archives and ``.npz`` files; augmentations that repeat by seed."""

from ._class_folder import SkippedImagesWarning as SkippedImagesWarning
from ._factors import FactorGrid as FactorGrid
from ._image_data import ImageData as ImageData
from ._image_data import Skipped as Skipped
from ._load import load as load
from ._locate import data_folder as data_folder
from ._normalization import Normalization as Normalization
from ._registry import Registered as Registered
from ._registry import describe as describe
from ._registry import names as names
from ._registry import register_dataset as register_dataset
from ._source import ImageSource as ImageSource
from ._source import TensorImages as TensorImages
from ._split import AugmentedSplit as AugmentedSplit
from ._split import Split as Split
from ._sprites import DSPRITES as DSPRITES
from ._sprites import SpriteImages as SpriteImages
from ._transforms import Transform as Transform
from ._transforms import compose as compose
from ._transforms import normalize as normalize
from ._transforms import random_crop as random_crop
from ._transforms import random_flip as random_flip
from ._transforms import random_rotation as random_rotation
from ._transforms import random_rotation90 as random_rotation90
from ._transforms import random_translation as random_translation
from ._transforms import sample_generator as sample_generator
