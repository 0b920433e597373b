"""The training loop: steps, rows of metrics, validation and checkpoints.

Everything is a function of the number of finished steps, so a checkpoint between two steps is enough to continue as if
nothing had happened.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError, NonFiniteError
from .._batch import named_tensors
from .._config import TrainConfig
from .._content import flat, plain
from .._seeding import derive_seed, seed_all
from ..loading._loader import Loader
from ..records._checkpoint import Checkpoint, CheckpointFolder
from ..records._logging import Logger, MetricsLog, finite
from ._ema import Ema
from ._interrupt import Interrupts
from ._optimizer import make_optimizer, optimizer_state, restore_optimizer
from ._progress import Progress
from ._runtime import Runtime
from ._schedule import lr_factor
from ._window import Window

Loss = Callable[[nn.Module, Any], "Tensor | tuple[Tensor, Mapping[str, float | Tensor]]"]
"""``loss(model, batch)``: a scalar to minimize, the mean over the batch, optionally with numbers to log."""

Metric = Callable[[nn.Module, Any], "float | Tensor"]
"""``metric(model, batch)``: the mean over the batch."""


class Training:
    """The state of a run, and its loop. Use :func:`fit`."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        train_loader: Loader,
        config: TrainConfig,
        runtime: Runtime,
        *,
        folder: Path,
        val_loader: Loader | None,
        metrics: Mapping[str, Metric],
        extra_penalty: Callable[[nn.Module], Tensor] | None,
        param_groups: Iterable[Mapping[str, Any]] | None,
        loggers: Sequence[Logger],
        about: Mapping[str, Any],
        data: str,
    ) -> None:
        self.model, self.loss, self.config, self.runtime, self.folder = model, loss, config, runtime, folder
        self.train_loader, self.val_loader, self.metrics = train_loader, val_loader, metrics
        self.extra_penalty, self.loggers, self.about, self.data = extra_penalty, loggers, about, data

        self.steps_per_epoch = math.ceil(len(train_loader) / config.accumulate)
        ends = [config.max_steps, config.epochs and config.epochs * self.steps_per_epoch]
        self.total = min(end for end in ends if end)

        model.to(runtime.device, torch.float64 if config.precision == "64" else None)
        self.plain_optimizer = make_optimizer(model, config, param_groups)
        self.base_rates = [group["lr"] for group in self.plain_optimizer.param_groups]
        self.factor: float | None = None
        self.ema = Ema(model, config.ema) if config.ema is not None else None
        self.checkpoints = CheckpointFolder(folder / "checkpoints", keep=config.keep)
        self.log = MetricsLog(folder)
        self.log_length = 0

        self.step = 0
        self.saved: tuple[int, Path] | None = None
        self.window = Window()
        self.latest: dict[str, float | None] = {}
        self.seconds_before, self.clock = 0.0, time.monotonic()
        self.cpu_before, self.cpu_clock = 0.0, time.process_time()

    # --- continue after an interruption ------------------------------------------------------------------------------

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state of a checkpoint, after checking that it belongs to this run."""
        state = checkpoint.state
        self._same_run(state)
        weights = {**checkpoint.tensors["model"], **state["extra"]}
        try:
            self.model.load_state_dict(weights)
        except RuntimeError as error:
            raise InputError(
                "fit",
                expected=f"the model of the checkpoint in {self.folder}",
                got=f"another one ({' '.join(str(error).split())})",
                fix="Build the same model, or use another folder.",
            ) from None
        restore_optimizer(self.plain_optimizer, checkpoint.tensors["optimizer"], state["optimizer"])
        if self.ema is not None:
            self.ema.restore(checkpoint.tensors["ema"])
        self.runtime.restore(state["runtime"])
        self.window.restore(state["window"], self.runtime.rank)
        self.latest = dict(state["latest"])
        self.seconds_before, self.cpu_before = state["seconds"], state.get("cpu_seconds", 0.0)
        self.log_length = state["log_length"]
        self.step = checkpoint.step

    def _same_run(self, state: Mapping[str, Any]) -> None:
        then = {**state["config"], **flat("about", state["about"]), "batches in an epoch": state["batches"]}
        now = {**self.config.what(), **flat("about", plain(self.about)), "batches in an epoch": len(self.train_loader)}
        if "data" in state:  # checkpoints of version 0.1 have none
            then, now = {**then, "data": state["data"]}, {**now, "data": self.data}
        differing = [name for name in sorted({*then, *now}) if then.get(name) != now.get(name)]
        if differing:
            raise InputError(
                "fit",
                expected=f"the configuration of the run in {self.folder}",
                got="; ".join(f"{name} = {now.get(name)!r}, there {then.get(name)!r}" for name in differing),
                fix="Change it back, or use another folder.",
            )

    def prepare(self) -> None:
        """Give all processes the same weights, compile the model and hand it to the runtime."""
        compute = self.model
        self.runtime.share([*self.model.parameters(), *self.model.buffers()])
        if self.ema is not None:
            self.runtime.share(self.ema.state.values())
        if self.config.compile:
            backend = self.config.compile if isinstance(self.config.compile, str) else "inductor"
            compute = torch.compile(self.model, backend=backend)  # type: ignore[assignment]
        # Validation exchanges no gradients, so it bypasses the wrapper of a distributed run.
        self.evaluated = compute if self.runtime.world == 1 else self.model
        self.module, self.optimizer = self.runtime.setup(compute, self.plain_optimizer)
        if not self.model.training:  # otherwise keep the mode of parts that the user put into evaluation mode
            self.model.train()

    @property
    def seconds(self) -> float:
        """The seconds of training so far, over all parts of the run."""
        return self.seconds_before + time.monotonic() - self.clock

    @property
    def cpu_seconds(self) -> float:
        """The CPU seconds of this process in training so far, over all parts of the run."""
        return self.cpu_before + time.process_time() - self.cpu_clock

    @property
    def epoch(self) -> int:
        """The epoch of the last finished step, counted from 0."""
        return max(0, self.step - 1) // self.steps_per_epoch

    # --- the loop ----------------------------------------------------------------------------------------------------

    def run(self, interrupts: Interrupts, progress: Progress) -> None:
        """Train until the end, or until a signal arrives."""
        config = self.config
        while self.step < self.total:
            epoch, done = divmod(self.step, self.steps_per_epoch)
            position = done * config.accumulate
            for group in _grouped(self.train_loader.batches(epoch, position), config.accumulate):
                shown = self._take_step(epoch, position, group)
                self.step += 1
                position += len(group)
                at_end = self.step == self.total
                if at_end or self.step % config.log_every == 0:
                    self._write_train_row()
                if self.val_loader is not None and self._validation_is_due(at_end):
                    self._validate(self.val_loader)
                progress.update(self.step, epoch, shown)
                if at_end or (config.checkpoint_every and self.step % config.checkpoint_every == 0):
                    self.window.settle(self.runtime)
                    self.save()
                if at_end:
                    return
                if interrupts.caught and self.runtime.rank == 0:  # the other processes notice that process 0 is gone
                    self._stop(interrupts)

    def _take_step(self, epoch: int, position: int, group: Sequence[Any]) -> float:
        config, runtime = self.config, self.runtime
        seed_all(derive_seed(config.seed, "step", self.step, runtime.rank), device=runtime.device)
        self._set_rates()
        self.optimizer.zero_grad()
        shares = [self.train_loader.share(position + number, batch) for number, batch in enumerate(group)]
        samples = max(1, sum(total for _, total in shares))
        shown = 0.0
        for number, (batch, (here, _)) in enumerate(zip(group, shares, strict=True)):
            batch = runtime.to_device(batch)
            with runtime.accumulating(self.module, number < len(group) - 1):
                with runtime.autocast():
                    value, numbers = _scalar(self.loss(self.module, batch))
                    if self.extra_penalty is not None:
                        penalty = self.extra_penalty(self.model)
                        value, numbers = value + penalty, {**numbers, "penalty": penalty}
                shown = value.item()
                if not math.isfinite(shown):
                    raise self._not_finite(shown, epoch, position + number, batch)
                # Each process averages over its part of the batch, and the runtime averages over processes. This
                # factor turns that into the average over all samples, even if the parts differ in size.
                weight = here * runtime.world / samples
                runtime.backward(value if weight == 1 else value * weight, self.module)
            self.window.add({"loss": shown, **{name: _number(value) for name, value in numbers.items()}}, here)
        if config.clip_norm is not None:
            runtime.clip(self.module, self.optimizer, config.clip_norm)
        self.optimizer.step()
        if self.ema is not None:
            self.ema.update()
        return shown

    def _set_rates(self) -> None:
        factor = lr_factor(self.config, self.step, self.total)
        if factor != self.factor:
            self.factor = factor
            for group, rate in zip(self.plain_optimizer.param_groups, self.base_rates, strict=True):
                group["lr"] = rate * factor

    def _not_finite(self, value: float, epoch: int, position: int, batch: Any) -> NonFiniteError:
        from safetensors.torch import save

        path = self.folder / f"nonfinite-step-{self.step + 1:08d}-rank-{self.runtime.rank}.safetensors"
        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in named_tensors(batch)}
        facts = {"step": self.step + 1, "epoch": epoch, "position": position, "loss": value}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(save(tensors, {key: str(fact) for key, fact in facts.items()}))
            where = f"The batch is in {path}."
        except (OSError, KeyError, ValueError) as error:  # a dtype that safetensors does not support, a full disk
            where = f"The batch could not be saved ({error})."
        return NonFiniteError(
            "fit",
            expected="a finite loss",
            got=f"{value} at step {self.step + 1} (epoch {epoch}, batch {position})",
            fix=f"{where} A lower lr, warm-up or clip_norm often helps.",
        )

    # --- files -------------------------------------------------------------------------------------------------------

    def _write(self, split: str, numbers: Mapping[str, float]) -> None:
        if self.runtime.rank:
            return
        self.latest |= {name: finite(value) for name, value in numbers.items()}
        row = {"step": self.step, "epoch": self.epoch, "split": split, **numbers, "seconds": round(self.seconds, 3)}
        self.log.write(row)
        for logger in self.loggers:
            logger.write(row)

    def _write_train_row(self) -> None:
        self.window.settle(self.runtime)
        self._write("train", {**self.window.means(), "lr": self.plain_optimizer.param_groups[0]["lr"]})
        self.window.clear()

    def _validation_is_due(self, at_end: bool) -> bool:
        return at_end or (self.step % self.steps_per_epoch == 0 and (self.epoch + 1) % self.config.validate_every == 0)

    def _validate(self, loader: Loader) -> None:
        seed_all(derive_seed(self.config.seed, "validation", self.step), device=self.runtime.device)
        self.runtime.share(self.model.buffers())
        training = [module for module in self.model.modules() if module.training]
        window = Window()
        self.model.eval()
        try:
            if self.ema is not None:
                with self.ema.applied():
                    self._evaluate(loader, window)
            else:
                self._evaluate(loader, window)
        finally:
            for module in training:
                module.training = True
        window.settle(self.runtime)
        self._write("val", window.means())

    @torch.no_grad()
    def _evaluate(self, loader: Loader, window: Window) -> None:
        for position, batch in enumerate(loader.batches(0)):
            here, _ = loader.share(position, batch)
            batch = self.runtime.to_device(batch)
            with self.runtime.autocast():
                value, numbers = _scalar(self.loss(self.evaluated, batch))
                numbers = {"loss": value, **numbers}
                numbers |= {name: metric(self.evaluated, batch) for name, metric in self.metrics.items()}
            window.add({f"val_{name}": _number(value) for name, value in numbers.items()}, here)

    def save(self) -> Path | None:
        """Write a checkpoint, in process 0 alone: the other processes are not involved."""
        if self.runtime.rank:
            return None
        tensors, extra = _split(self.model.state_dict())
        self._refuse_broken(tensors)
        optimizer_tensors, optimizer_numbers = optimizer_state(self.plain_optimizer)
        files = {"model": tensors, "optimizer": optimizer_tensors}
        if self.ema is not None:
            files["ema"] = self.ema.state
        epoch, done = divmod(self.step, self.steps_per_epoch)
        state = {
            "config": self.config.what(),
            "config_hash": self.config.hash,
            "about": plain(self.about),
            "epoch": epoch,
            "position": done * self.config.accumulate,
            "batches": len(self.train_loader),
            "data": self.data,
            "lr_factor": self.factor,
            "optimizer": optimizer_numbers,
            "extra": extra,
            "runtime": self.runtime.state(),
            "window": self.window.state(),
            "latest": self.latest,
            "log_length": self.log.sync(),
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
        }
        self.saved = self.step, self.checkpoints.save(Checkpoint(self.step, files, state))
        return self.saved[1]

    def _refuse_broken(self, tensors: Mapping[str, Tensor]) -> None:
        # A run cannot continue from a checkpoint with NaN in its weights.
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                raise NonFiniteError(
                    "fit",
                    expected="finite weights",
                    got=f"{name} with NaN or infinity, at step {self.step}",
                    fix="The last checkpoint is intact. A lower lr, warm-up or clip_norm often helps.",
                )

    def _stop(self, interrupts: Interrupts) -> None:
        path = self.saved[1] if self.saved and self.saved[0] == self.step else self.save()
        after_the_key = "\n" if sys.stderr.isatty() else ""  # a terminal shows ^C
        print(
            f"{after_the_key}fit: stopped by {interrupts.caught.name if interrupts.caught else 'a signal'} at step "
            f"{self.step} of {self.total}; saved {path}. Run the same command again to continue.",
            file=sys.stderr,
            flush=True,
        )
        raise interrupts.error()


def _grouped(batches: Iterable[Any], size: int) -> Iterator[Sequence[Any]]:
    """Lists of ``size`` consecutive batches; the last one may be shorter."""
    group: list[Any] = []
    for batch in batches:
        group.append(batch)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _scalar(value: Any) -> tuple[Tensor, dict[str, Any]]:
    loss, numbers = value if isinstance(value, tuple) and len(value) == 2 else (value, {})
    if not isinstance(loss, Tensor) or loss.dim():
        got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
        raise InputError(
            "fit",
            expected="a loss that returns a scalar tensor, alone or with a dictionary of numbers",
            got=got,
            fix="Average over the batch.",
        )
    return loss, dict(numbers)


def _number(value: float | Tensor) -> float:
    return value.item() if isinstance(value, Tensor) else float(value)


def _split(state: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a state dict, and the rest, which modules may add and which must be JSON values."""
    tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    rest = {name: value for name, value in state.items() if not isinstance(value, Tensor)}
    return tensors, plain(rest)
