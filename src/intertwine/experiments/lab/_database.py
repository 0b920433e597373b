"""The database that stores a study: an SQLite file, or PostgreSQL by URL."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..._checked import checked
from ...errors import InputError, MissingExtraError, StorageError

_HEARTBEAT_SECONDS = 5
RETRIES = 2
"""How often to repeat a trial whose worker was lost."""


@checked
def default_storage(results: Path) -> str:
    """The URL of the SQLite file next to the runs."""
    return f"sqlite:///{results}/sweeps.db"


def load_optuna() -> Any:
    """Import Optuna and silence its log; raise an error that names the extra if it is not installed."""
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError(
            "sweep", expected="Optuna", got="an installation without it", fix="pip install 'intertwine[sweep]'."
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # its warnings of failed trials have tracebacks
    return optuna


def open_storage(url: str) -> Any:
    """Optuna's storage with heartbeats: if a worker is lost, its trial is repeated."""
    optuna = load_optuna()
    address = re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", url)
    if address.startswith("postgresql"):
        try:
            import psycopg  # noqa: F401
        except ImportError as error:
            raise MissingExtraError(
                "sweep", expected="psycopg", got="an installation without it", fix="pip install 'intertwine[sweep-pg]'."
            ) from error
    # Close connections after use: sweeps ask rarely, and idle connections would pile up on a shared server.
    from sqlalchemy.pool import NullPool

    options: dict[str, Any] = {"poolclass": NullPool}
    if address.startswith("sqlite:///"):
        Path(address.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        options["connect_args"] = {"timeout": 60}
    with experimental_parts(optuna):
        return optuna.storages.RDBStorage(
            address,
            engine_kwargs=options,
            heartbeat_interval=_HEARTBEAT_SECONDS,
            grace_period=3 * _HEARTBEAT_SECONDS,
            heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=RETRIES),
        )


@contextmanager
def experimental_parts(optuna: Any) -> Iterator[None]:
    """Allow the parts that Optuna marks as experimental, heartbeats and the constant liar; our tests cover them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def without_password(url: str) -> str:
    """A database URL without its password."""
    return re.sub(r"(://[^:/@]+):[^@]*@", r"\1:***@", url)


class _NoDatabaseError(StorageError):
    """The database cannot be reached."""


def database_error_in(error: BaseException | None) -> BaseException | None:
    """The database error that caused this one, if any: Optuna often fails later, somewhere else."""
    from sqlalchemy.exc import SQLAlchemyError

    kinds = (_NoDatabaseError, SQLAlchemyError, load_optuna().exceptions.StorageInternalError)
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__ or error.__context__
    return error


def in_one_line(error: BaseException) -> str:
    """The message of the database, in one line."""
    if isinstance(error, StorageError):
        return error.got
    return " ".join(str(error).split())[:200]


def unreachable(url: str, error: Exception) -> Exception:
    """The error to raise if a study cannot be opened."""
    if isinstance(error, MissingExtraError | InputError):
        return error
    return _NoDatabaseError(
        "sweep",
        expected=f"a database at {without_password(url)}",
        got=in_one_line(error),
        fix="Check the URL: sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/NAME.",
    )
