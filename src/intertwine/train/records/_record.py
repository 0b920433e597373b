"""The record of a run: its configuration, environment and result, in one JSON file that is written atomically."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from ... import __version__
from ..._checked import checked
from ..._files import replace_file
from ..._untrusted import MAX_JSON_BYTES, read_bounded
from ..._warn import warn_caller
from ...errors import InputError, StorageError
from .._content import content_hash
from .._precision import has_bfloat16
from .._validated import ValidatedModel

RECORD_FILE = "record.json"

Status = Literal["running", "finished", "interrupted", "failed"]


class RecordWarning(UserWarning):
    """A damaged record was left out."""


class RunRecord(ValidatedModel):
    """The configuration, environment and result of a run.

    Args:
        config: the configuration, as JSON values.
        config_hash: its SHA-256; two runs with the same hash compute the same.
        seed: the seed of the run.
        status: ``running``, ``finished``, ``interrupted`` or ``failed``.
        metrics: the last value of every metric; None if it was not finite.
        duration: the seconds of training, over all parts of an interrupted run.
        cpu_seconds: its CPU seconds, if they were measured.
        started: the time of the first start, ISO 8601, UTC.
        error: the error message, if the run failed.
        code: the version of this package, and its commit if it runs from a checkout.
        environment: Python, torch, platform, threads.
        schema_version: incremented when the meaning of a field changes.

    >>> import tempfile
    >>> record = RunRecord.start({"lr": 0.1}, seed=0).ended("finished", metrics={"accuracy": 0.9}, duration=1.5)
    >>> folder = Path(tempfile.mkdtemp())
    >>> record.write(folder / "record.json")
    >>> RunRecord.read(folder / "record.json") == record
    True
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    config: dict[str, Any]
    config_hash: str
    seed: int
    status: Status
    metrics: dict[str, float | int | str | None] = Field(default_factory=dict)
    duration: float = 0.0
    cpu_seconds: float | None = None
    started: str
    error: str | None = None
    code: dict[str, str | None]
    environment: dict[str, Any]

    @classmethod
    def start(cls, config: Mapping[str, Any], *, seed: int, config_hash: str | None = None) -> RunRecord:
        """The record of a run that starts now on this machine; ``config_hash`` defaults to the hash of ``config``."""
        return cls(
            config=dict(config),
            config_hash=content_hash(dict(config)) if config_hash is None else config_hash,
            seed=seed,
            status="running",
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            code=code_version(),
            environment=environment(),
        )

    def ended(
        self,
        status: Status,
        *,
        metrics: Mapping[str, float | int | str | None],
        duration: float,
        cpu_seconds: float | None = None,
        error: str | None = None,
    ) -> RunRecord:
        """A copy of this record with the result of the run."""
        result = {
            "status": status,
            "metrics": dict(metrics),
            "duration": duration,
            "cpu_seconds": cpu_seconds,
            "error": error,
        }
        return self.model_copy(update=result)

    def write(self, path: str | Path) -> None:
        """Write the record to a file, atomically."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (self.model_dump_json(indent=2) + "\n").encode())

    @classmethod
    def read(cls, path: str | Path) -> RunRecord:
        """Read a record; a damaged one is an error."""
        try:
            return cls.model_validate_json(read_bounded(path, max_bytes=MAX_JSON_BYTES))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise StorageError(
                "RunRecord",
                expected=f"a record of schema 1 in {path}",
                got=f"{where + ': ' if where else ''}{first['msg']}",
                fix="Remove the file, and repeat the run.",
            ) from None
        except InputError as error:
            raise StorageError(
                "RunRecord", expected=error.expected, got=f"{error.got}, {path}", fix=error.fix
            ) from None
        except OSError as error:
            raise StorageError(
                "RunRecord",
                expected=f"a readable file {path}",
                got=error.strerror or str(error),
                fix="Check the path and its permissions.",
            ) from error


@checked
def read_records(folder: str | Path) -> list[RunRecord]:
    """All records below a folder, sorted by path. Damaged ones are reported in a warning and left out.

    Args:
        folder: searched for ``record.json`` files at any depth; it may be missing.

    >>> read_records("no/such/folder")
    []
    """
    records = []
    for path in sorted(Path(folder).rglob(RECORD_FILE)):
        try:
            records.append(RunRecord.read(path))
        except StorageError as error:
            warn_caller(f"{path}: left out: {error.got}", RecordWarning)
    return records


@lru_cache(maxsize=1)
def _commit() -> str | None:
    """The commit of the checkout this package runs from, with ``-dirty`` if files differ; None if it is installed."""
    here = str(Path(__file__).parent)
    commands = (
        # A virtual environment inside another project's checkout is not a checkout of this package.
        ["git", "-C", here, "ls-files", "--error-unmatch", "__init__.py"],
        ["git", "-C", here, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
    )
    try:
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def code_version() -> dict[str, str | None]:
    """The version of this package, and the commit if it runs from a checkout."""
    return {"version": __version__, "commit": _commit()}


def environment() -> dict[str, Any]:
    """The software and hardware of the run."""
    import torch

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
        "cuda": torch.version.cuda,
        "bfloat16": has_bfloat16(),  # decides what precision="auto" means
    }
