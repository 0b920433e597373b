"""Image datasets, by name or from class folders, archives and ``.npz`` files, and augmentations reproducible by seed.

The sub-packages come in this order, and each imports only those before it. The files at the top come after ``sources``.

    image_data, split, locate, registry       datasets and their parts, where they are, and your own
    transforms, random_motion, normalization  augmentations and normalization
    sequences, digit_motions, onto_sphere     sequences of moving images; images on the sphere

    sources   where images come from: tensors, files and archives, packed bits, a renderer
    readers   file formats and folder layouts
    named     named datasets, one file each, imported when a name is first looked up
    catalog   looking up datasets by name or path
"""

from ._digit_motions import DigitMotion as DigitMotion
from ._image_data import ImageData as ImageData
from ._image_data import Skipped as Skipped
from ._locate import data_folder as data_folder
from ._normalization import Normalization as Normalization
from ._onto_sphere import onto_sphere as onto_sphere
from ._random_motion import RandomMotion as RandomMotion
from ._registry import Registered as Registered
from ._registry import register_dataset as register_dataset
from ._sequences import FactorSequences as FactorSequences
from ._sequences import TransformedSequences as TransformedSequences
from ._sequences import part_of_grid as part_of_grid
from ._split import AugmentedSplit as AugmentedSplit
from ._split import Split as Split
from ._transforms import Transform as Transform
from ._transforms import compose as compose
from ._transforms import normalize as normalize
from ._transforms import random_crop as random_crop
from ._transforms import random_flip as random_flip
from ._transforms import random_rotation as random_rotation
from ._transforms import random_rotation90 as random_rotation90
from ._transforms import random_translation as random_translation
from ._transforms import sample_generator as sample_generator
from .catalog._load import load as load
from .catalog._names import describe as describe
from .catalog._names import names as names
from .readers._class_folder import SkippedImagesWarning as SkippedImagesWarning
from .sources._factors import FactorGrid as FactorGrid
from .sources._source import ImageSource as ImageSource
from .sources._source import TensorImages as TensorImages
from .sources._sprites import DSPRITES as DSPRITES
from .sources._sprites import SpriteImages as SpriteImages
