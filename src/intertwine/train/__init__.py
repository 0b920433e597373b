"""Training: one loop for any model and any data, crash-safe, in one process or several.

:func:`fit` trains, :class:`TrainConfig` says how, :func:`deterministic_loader` supplies the batches, and
:class:`RunRecord` documents the run. Lightning Fabric, TensorBoard, rich and yaml are imported when they are used.

The files at the top define configurations, seeds and batches. The sub-packages build on them, in this order; each one
imports only those before it.

    loading  batches as pure functions of the seed
    records  the files of a run: record, metrics, checkpoints
    loop     the training loop, and what it computes with
"""

from ._config import TrainConfig as TrainConfig
from ._content import content_hash as content_hash
from ._seeding import derive_seed as derive_seed
from ._seeding import seed_all as seed_all
from .loading import Augmented as Augmented
from .loading import DeterministicLoader as DeterministicLoader
from .loading import Loader as Loader
from .loading import SeededDataset as SeededDataset
from .loading import deterministic_loader as deterministic_loader
from .loop import Ema as Ema
from .loop import FitResult as FitResult
from .loop import Runtime as Runtime
from .loop import fit as fit
from .loop import lr_factor as lr_factor
from .records import WALL_CLOCK as WALL_CLOCK
from .records import CheckpointWarning as CheckpointWarning
from .records import Logger as Logger
from .records import RecordWarning as RecordWarning
from .records import RunRecord as RunRecord
from .records import load_weights as load_weights
from .records import locked as locked
from .records import read_metrics as read_metrics
from .records import read_records as read_records
