"""The files of a run: its record, its metrics and its checkpoints."""

from ._checkpoint import CheckpointWarning as CheckpointWarning
from ._checkpoint import load_weights as load_weights
from ._logging import WALL_CLOCK as WALL_CLOCK
from ._logging import Logger as Logger
from ._logging import read_metrics as read_metrics
from ._record import RecordWarning as RecordWarning
from ._record import RunRecord as RunRecord
from ._record import read_records as read_records
from ._storage import locked as locked
