"""Where the numbers go: one line of JSON a log step, and TensorBoard for those who ask for it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

from ..._checked import checked
from ..._untrusted import parse_json
from ..._warn import warn_caller
from ...errors import MissingExtraError
from ._checkpoint import CheckpointWarning
from ._storage import storage_errors

METRICS_FILE = "metrics.jsonl"
WALL_CLOCK = ("seconds",)
"""Fields of a row that differ between two equal runs."""

Row = Mapping[str, Any]


class Logger(Protocol):
    """Receives the rows of ``metrics.jsonl``, in process 0 only. An exception it raises ends the run."""

    def rewind(self, step: int) -> None:
        """The run begins at, or has gone back to, this step: rows after it come again."""
        ...

    def write(self, row: Row) -> None:
        """One row: ``step``, ``epoch``, ``split`` (train or val), ``seconds`` and the numbers."""
        ...

    def close(self) -> None:
        """The run ends."""
        ...


class MetricsLog:
    """``metrics.jsonl``. A checkpoint remembers how long the file was; going back to it cuts off what came after."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / METRICS_FILE
        self._file: FileIO | None = None

    def open(self, length: int) -> None:
        """Continue after the first ``length`` bytes."""
        with self._errors():
            self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 - open for the whole run
            there = self._file.tell()
            if there < length:
                warn_caller(
                    f"{self.path}: {length - there} bytes of rows before the checkpoint are gone; going on without",
                    CheckpointWarning,
                )
            self._file.truncate(min(there, length))

    def write(self, row: Row) -> None:
        """Append one row, in one system call unless the disk is nearly full."""
        if self._file is None:
            return
        data = json.dumps({key: finite(value) for key, value in row.items()}).encode() + b"\n"
        with self._errors():
            while data:
                data = data[self._file.write(data) :]

    def sync(self) -> int:
        """Wait until the disk has all rows; returns the length of the file."""
        if self._file is None:
            return 0
        with self._errors():
            os.fsync(self._file.fileno())
            return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _errors(self) -> Any:
        fix = "The last checkpoint is intact. Make room and run the same command again."
        return storage_errors(self.path, expected="room to write a row of metrics", fix=fix)


class TensorBoardLog:
    """TensorBoard event files. After a resume, TensorBoard itself hides the rows that come again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "tensorboard"
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError(
                "fit",
                expected="TensorBoard, since TrainConfig.tensorboard is set",
                got=str(error),
                fix="Install the extra: pip install 'intertwine[train]'.",
            ) from error
        self._make = SummaryWriter

    def rewind(self, step: int) -> None:
        """Begin a file whose steps after ``step`` replace those of earlier files."""
        self._writer = self._make(str(self._folder), purge_step=step + 1)

    def write(self, row: Row) -> None:
        """One scalar for each number."""
        for name, value in row.items():
            if isinstance(value, (int, float)) and name not in ("step", "epoch"):
                self._writer.add_scalar(f"{row['split']}/{name}", value, row["step"])

    def close(self) -> None:
        """Write what is still held back."""
        if self._writer is not None:
            self._writer.close()


def finite(value: Any) -> Any:
    """The value, or None for a float that JSON cannot hold."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


@checked
def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """The rows of a run's ``metrics.jsonl``; a line cut off by a kill is left out.

    Args:
        folder: what was given to :func:`fit`.
    """
    path = Path(folder) / METRICS_FILE
    rows = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            rows.append(parse_json(line, caller=str(path)))
        except ValueError:
            continue
    return rows
