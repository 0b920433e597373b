"""``fit``: train a model in a way that can stop and continue at any moment."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ..._checked import checked
from ...errors import InputError, IntertwineError, LostWorkerError
from .._batch import batch_size as size_of
from .._config import TrainConfig
from .._content import plain
from .._seeding import deterministic_algorithms
from ..loading._data_digest import data_digest
from ..loading._loader import DeterministicLoader
from ..loading._replayed import as_loader
from ..records._logging import Logger, TensorBoardLog, read_metrics
from ..records._record import RunRecord
from ..records._storage import locked, storage_errors
from ._interrupt import Interrupts
from ._progress import Progress
from ._record_keeper import RecordKeeper
from ._runtime import Runtime
from ._start_runtime import start_runtime
from ._training import Loss, Metric, Training


@checked
@dataclass(frozen=True)
class FitResult:
    """The result of :func:`fit`.

    Args:
        folder: the folder of the run.
        step: the number of finished steps.
        metrics: the last value of every number in ``metrics.jsonl``; None if it is not finite.
        record: the record of the run, also in ``record.json``.
        resumed_from: the step that this call continued from; None if it started from the beginning.
        ema: the moving average of the weights, for ``model.load_state_dict``, if there is one.
    """

    folder: Path
    step: int
    metrics: dict[str, float | None]
    record: RunRecord
    resumed_from: int | None
    ema: dict[str, Tensor] | None

    def rows(self) -> list[dict[str, Any]]:
        """All rows of ``metrics.jsonl``."""
        return read_metrics(self.folder)


@checked
def fit(
    model: nn.Module,
    loss: Loss,
    train_loader: Any,
    config: TrainConfig,
    *,
    folder: str | Path,
    val_loader: Any = None,
    metrics: Mapping[str, Metric] | None = None,
    extra_penalty: Callable[[nn.Module], Tensor] | None = None,
    param_groups: Iterable[Mapping[str, Any]] | None = None,
    loggers: Sequence[Logger] = (),
    about: Mapping[str, Any] | None = None,
    resume: bool = True,
    progress: bool | None = None,
) -> FitResult:
    """Train a model. The run uses one process or several, and can be killed at any moment and continued.

    It writes ``metrics.jsonl``, ``record.json``, ``checkpoints/`` and, optionally, ``tensorboard/`` to its folder.
    Calling it again with the same arguments continues from the newest intact checkpoint; on a CPU the result is the
    same bit for bit as without the interruption. A finished run is not repeated. Under torchrun (see
    docs/distributed.md) the processes split each batch, and process 0 writes the files.

    Ctrl-C and SIGTERM finish the step, save, and raise ``KeyboardInterrupt`` or ``SystemExit``.

    Args:
        model: any module; its weights are trained in place.
        loss: ``loss(model, batch)`` returns a scalar, the mean over the batch, or a pair of it and a dictionary of
            numbers to log.
        train_loader: a loader from :func:`deterministic_loader`, or any sized iterable of batches, such as a
            ``DataLoader``, which is read from its beginning if a run continues in the middle of an epoch.
        config: all other settings.
        folder: the folder of the run; each run needs its own.
        val_loader: batches for validation, after epochs and at the end.
        metrics: name → ``metric(model, batch)``, a mean over the batch; logged in validation as ``val_NAME``.
        extra_penalty: ``extra_penalty(model)`` is added to the loss of each step.
        param_groups: groups of weights with their own settings, in the format of torch's optimizers; the schedule
            multiplies the learning rate of each.
        loggers: additional receivers of the rows of metrics.
        about: JSON values that describe the model and the data; stored in the record and in checkpoints, and compared
            when a run continues.
        resume: False refuses a folder that has checkpoints.
        progress: False for no progress bar; otherwise there is one on a terminal.

    >>> import tempfile, torch
    >>> from intertwine.train import TrainConfig, deterministic_loader, seed_all
    >>> seed_all(0)
    >>> x = torch.linspace(-1, 1, 64).unsqueeze(1)
    >>> data = torch.utils.data.TensorDataset(x, 3 * x + 1)
    >>> config = TrainConfig(epochs=20, batch_size=16, optimizer="sgd", lr=0.05, schedule="cosine")
    >>> loader = deterministic_loader(data, config.batch_size, seed=config.seed)
    >>> def squared_error(model, batch):
    ...     x, y = batch
    ...     return (model(x) - y).square().mean()
    >>> result = fit(torch.nn.Linear(1, 1), squared_error, loader, config, folder=tempfile.mkdtemp())
    >>> result.step, result.metrics["loss"] < 0.1, result.record.status
    (80, True, 'finished')
    """
    folder = Path(folder)
    train = as_loader(train_loader, config.seed, "a train_loader")
    config = _with_batch_size_of(train_loader, config)
    val = as_loader(val_loader, config.seed, "a val_loader") if val_loader is not None else None
    if metrics and val is None:
        got = f"metrics {', '.join(metrics)} and no val_loader"
        raise InputError("fit", expected="a val_loader to compute the metrics on", got=got)
    about = plain(dict(about or {}))
    runtime = start_runtime(config)
    with ExitStack() as stack:
        stack.enter_context(deterministic_algorithms(config.deterministic))
        for loader in (train, val):
            if isinstance(loader, DeterministicLoader):
                stack.callback(loader.close)
        if runtime.rank == 0:
            stack.enter_context(locked(folder))
        training = Training(
            model,
            loss,
            train.shard(runtime.rank, runtime.world),
            config,
            runtime,
            folder=folder,
            val_loader=val.shard(runtime.rank, runtime.world) if val is not None else None,
            metrics=metrics or {},
            extra_penalty=extra_penalty,
            param_groups=param_groups,
            loggers=_loggers(config, folder, loggers, runtime),
            about=about,
            data=data_digest(train),
        )
        interrupts = stack.enter_context(Interrupts())
        keeper = RecordKeeper(training)
        try:
            resumed_from = _continue(training, resume)
            with ExitStack() as closing:
                _open_logs(training, closing)
                keeper.begin(resumed=resumed_from is not None)
                if training.step == training.total and runtime.rank == 0 and progress is not False:
                    text = f"fit: {folder} is already finished at step {training.step}, nothing to do"
                    print(text, file=sys.stderr)
                training.prepare()
                shown = progress if runtime.rank == 0 else False
                bar = closing.enter_context(Progress(training.total, training.step, shown))
                training.run(interrupts, bar)
            training.latest = runtime.broadcast(training.latest)
        except BaseException as error:
            ended_by = _lost(error, training, interrupts) or error
            keeper.failed(ended_by)
            if ended_by is error:
                raise
            raise ended_by from error
        record = keeper.finished()
        return FitResult(
            folder=folder,
            step=training.step,
            metrics=dict(training.latest),
            record=record,
            resumed_from=resumed_from,
            ema={name: value.clone() for name, value in training.ema.state.items()} if training.ema else None,
        )


def _with_batch_size_of(loader: Any, config: TrainConfig) -> TrainConfig:
    """The configuration with the batch size of the loader, so that the record is correct; a contradiction is an error.

    The batch size of a ``DataLoader`` may be that of its sampler, and that of a list is the size of its first batch.
    """
    size = getattr(loader, "batch_size", None) or getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
    is_list = size is None and isinstance(loader, Sequence)
    if is_list:
        size = size_of(loader[0])
    if not isinstance(size, int) or size == config.batch_size:
        return config
    if "batch_size" in config.model_fields_set and not is_list:
        raise InputError(
            "fit",
            expected=f"batches of {config.batch_size}, as TrainConfig.batch_size says",
            got=f"a train_loader with batches of {size}",
            fix="Make the loader with config.batch_size, or leave batch_size out of TrainConfig.",
        )
    return config.changed(batch_size=size)


def _loggers(config: TrainConfig, folder: Path, loggers: Sequence[Logger], runtime: Runtime) -> list[Logger]:
    if runtime.rank:
        return []
    return [*loggers, TensorBoardLog(folder)] if config.tensorboard else [*loggers]


def _continue(training: Training, resume: bool) -> int | None:
    """Restore the newest intact checkpoint, if there is one. Process 0 reads it and sends it, or its error, to all."""
    runtime, checkpoints = training.runtime, training.checkpoints
    checkpoint: Any = None
    if runtime.rank == 0:
        try:
            if not resume and checkpoints.steps():
                raise InputError(
                    "fit",
                    expected="a folder without checkpoints, since resume=False",
                    got=f"{training.folder} with one of step {checkpoints.steps()[-1]}",
                    fix="Remove the folder, or use another one.",
                )
            with storage_errors(checkpoints.path, expected="checkpoints that can be read", fix="Check the folder."):
                checkpoints.clean()
                checkpoint = checkpoints.latest(set_aside=True)
        except IntertwineError as error:
            if runtime.world == 1:
                raise
            checkpoint = error
    checkpoint = runtime.broadcast(checkpoint)
    if isinstance(checkpoint, IntertwineError):
        raise checkpoint
    if checkpoint is None:
        return None
    training.restore(checkpoint)
    return training.step


def _open_logs(training: Training, closing: ExitStack) -> None:
    if training.runtime.rank:
        return
    closing.callback(training.log.close)
    training.log.open(training.log_length)
    for logger in training.loggers:
        closing.callback(logger.close)
        logger.rewind(training.step)


def _lost(error: BaseException, training: Training, interrupts: Interrupts) -> BaseException | None:
    """The error that says that another process is gone, if that is what happened."""
    if not isinstance(error, RuntimeError) or not training.runtime.is_lost(error):
        return None
    if interrupts.caught == signal.SIGINT:  # Ctrl-C reached all processes, and process 0 stopped first
        return interrupts.error()
    runtime = training.runtime
    steps = training.checkpoints.steps()
    from_where = f"continue from step {steps[-1]}" if steps else "continue from the last checkpoint of process 0"
    reason = re.sub(r"^\[[^]]*\]\s*", "", str(error)).splitlines()[0].split(". ")[0]
    lost = LostWorkerError(
        "fit",
        expected=f"all {runtime.world} processes to answer within {training.config.timeout:g} s",
        got=f"a lost connection in process {runtime.rank} after step {training.step} ({reason})",
        fix=f"Run the same command again to {from_where}.",
    )
    print(lost, file=sys.stderr, flush=True)  # now, because torchrun may end this process before Python prints it
    return lost
