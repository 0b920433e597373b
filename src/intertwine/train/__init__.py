"""Training: a crash-safe loop for any model and any data, in one process or several.

:func:`fit` trains, :class:`TrainConfig` says how, :func:`deterministic_loader` supplies the batches, and
:class:`RunRecord` documents the run. :func:`tune` trains a symmetrized network on. Lightning Fabric, TensorBoard, rich
and yaml are imported when they are used.

The files at the top define configurations, seeds and batches. The sub-packages come in this order, and each
imports only those before it.

    loading  batches as pure functions of the seed
    records  the files of a run: record, metrics, checkpoints
    loop     the training loop, and what it computes with
    tuning   symmetrized networks trained on, without leaving the symmetry
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_face
from ._config import TrainConfig as TrainConfig
from ._content import content_hash as content_hash
from ._precision import has_bfloat16 as has_bfloat16
from ._seeding import derive_seed as derive_seed
from ._seeding import seed_all as seed_all
from .loading._datasets import Augmented as Augmented
from .loading._datasets import SeededDataset as SeededDataset
from .loading._loader import DeterministicLoader as DeterministicLoader
from .loading._loader import Loader as Loader
from .loading._loader import deterministic_loader as deterministic_loader
from .loop._ema import Ema as Ema
from .loop._engine import FitResult as FitResult
from .loop._engine import fit as fit
from .loop._runtime import Runtime as Runtime
from .loop._schedule import lr_factor as lr_factor
from .records._checkpoint import CheckpointWarning as CheckpointWarning
from .records._checkpoint import load_weights as load_weights
from .records._logging import WALL_CLOCK as WALL_CLOCK
from .records._logging import Logger as Logger
from .records._logging import read_metrics as read_metrics
from .records._record import RecordWarning as RecordWarning
from .records._record import RunRecord as RunRecord
from .records._record import read_records as read_records
from .records._storage import locked as locked

if TYPE_CHECKING:  # lets type checkers and editors see what __getattr__ provides
    from .tuning._tune import tune as tune

# Only tuning needs measurements; training does not.
__getattr__, __dir__ = lazy_face(__name__, {"tuning._tune": ["tune"]})
