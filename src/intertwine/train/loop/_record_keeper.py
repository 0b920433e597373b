"""Keep the ``record.json`` of a run up to date, in process 0."""

from __future__ import annotations

from contextlib import suppress

from ...errors import IntertwineError, StorageError
from .._content import content_hash
from ..records._record import RECORD_FILE, RunRecord, Status
from ..records._storage import storage_errors
from ._training import Training


class RecordKeeper:
    """Writes the record when the run begins and ends. Before :meth:`begin`, the folder may belong to another run."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._path = training.folder / RECORD_FILE
        config = {"train": training.config.to_dict(), "about": dict(training.about), "data": training.data}
        digest = content_hash({"train": training.config.hash, "about": training.about})
        self._record = RunRecord.start(config, seed=training.config.seed, config_hash=digest)
        self._begun = self._finished_before = False

    def begin(self, *, resumed: bool) -> None:
        """Record that the run begins or continues; the time of its first start is kept."""
        self._begun = True
        if resumed and self._path.exists():
            with suppress(StorageError):  # a damaged record is simply rewritten
                before = RunRecord.read(self._path)
                self._record = self._record.model_copy(update={"started": before.started})
                if before.status == "finished" and self._training.step == self._training.total:
                    self._record, self._finished_before = before, True
                    return
        self._write(self._record)

    def finished(self) -> RunRecord:
        """Record that the run is finished."""
        if not self._finished_before:
            self._record = self._ended("finished", None)
            self._write(self._record)
        return self._record

    def failed(self, error: BaseException) -> None:
        """Record that the run ended with an error; failing to write the record must not hide that error."""
        if self._begun and not self._finished_before:
            stopped = isinstance(error, (KeyboardInterrupt, SystemExit))
            with suppress(IntertwineError):
                self._write(self._ended("interrupted" if stopped else "failed", error))

    def _ended(self, status: Status, error: BaseException | None) -> RunRecord:
        training = self._training
        message = None if error is None else f"{type(error).__name__}: {error}".removesuffix(": ")
        return self._record.ended(
            status,
            metrics=training.latest,
            duration=training.seconds,
            cpu_seconds=training.cpu_seconds,
            error=message,
        )

    def _write(self, record: RunRecord) -> None:
        if self._training.runtime.rank == 0:
            with storage_errors(self._path, expected="room to write the record", fix="Make room and run it again."):
                record.write(self._path)
