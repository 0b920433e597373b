"""Training: one loop for any model and any data, crash-safe, on one process or on many.

:func:`fit` trains, :class:`TrainConfig` says how, :func:`deterministic_loader` feeds it; :class:`RunRecord` is what
remains. Lightning Fabric, TensorBoard, rich and yaml are imported when they are used.
"""

from ._checkpoint import CheckpointWarning as CheckpointWarning
from ._checkpoint import load_weights as load_weights
from ._config import TrainConfig as TrainConfig
from ._content import content_hash as content_hash
from ._ema import Ema as Ema
from ._engine import FitResult as FitResult
from ._engine import fit as fit
from ._loader import Augmented as Augmented
from ._loader import DeterministicLoader as DeterministicLoader
from ._loader import Loader as Loader
from ._loader import SeededDataset as SeededDataset
from ._loader import deterministic_loader as deterministic_loader
from ._logging import WALL_CLOCK as WALL_CLOCK
from ._logging import Logger as Logger
from ._logging import read_metrics as read_metrics
from ._record import RecordWarning as RecordWarning
from ._record import RunRecord as RunRecord
from ._record import read_records as read_records
from ._runtime import Runtime as Runtime
from ._schedule import lr_factor as lr_factor
from ._seeding import derive_seed as derive_seed
from ._seeding import seed_all as seed_all
from ._storage import locked as locked
