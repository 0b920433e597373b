"""Where does a training step of each experiment spend its time?

Run as ``python benchmarks/experiment_steps.py [DIR [NAME ...]]``, where DIR has the data sets; without it, only the
experiment that makes its own data is measured. Trains one row of each experiment at scale ``small`` until two stretches
of steps are measured: the first for CPU seconds per step, and the shares of loading and of the optimizer; the second,
under torch's profiler, for the shares of kinds of operations. One thread.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from _timing import write_result
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.profiler import ProfilerActivity, profile

from intertwine.experiments import Job, experiment_named
from intertwine.train import DeterministicLoader

# The row of each experiment, and settings that it would otherwise choose with trials.
_ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "rotated-mnist": ("c4", {}),
    "lrlc": ("lrlc-l3", {"rank": 7}),
    "lrlc-mnist": ("lrlc-l3", {"rank": 4}),
    "soft": ("se2-4-lambda-0.1", {}),
    "tvae": ("half", {}),
    "tvae-mnist": ("half", {}),
    "relu-symmetry": ("cnn-inv", {}),
}
_KINDS = {
    "loading": (),
    "convolutions": ("conv",),
    "matrix products": ("mm", "matmul", "linear"),
    "normalization": ("norm",),
    "pooling": ("pool",),
    "copies": ("copy", "cat", "stack", "clone", "index", "gather", "im2col", "col2im"),
    "optimizer": ("adam", "sgd", "optimizer"),
}


class MeasuredError(Exception):
    """Raised to stop training once the measurement is complete."""


class Stopwatch:
    """A logger for ``fit``: starts the clock at the first row, the profiler at the second, and stops at the third."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys(("loading", "optimizer"), 0.0)
        self.marks: list[tuple[int, float, dict[str, float]]] = []
        self.profiler = profile(activities=[ProfilerActivity.CPU])

    def rewind(self, step: int) -> None:
        """Nothing to undo: nothing is resumed here."""

    def write(self, row: Mapping[str, Any]) -> None:
        """Note the clocks."""
        if row["split"] != "train":
            return
        self.marks.append((row["step"], time.process_time(), dict(self.spent)))
        if len(self.marks) == 2:
            self.profiler.start()
        elif len(self.marks) == 3:
            self.profiler.stop()
            raise MeasuredError

    def close(self) -> None:
        """Nothing to flush."""

    def loaded(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches, on the clock."""
        while True:
            start = time.process_time()
            batch = next(batches, None)
            self.spent["loading"] += time.process_time() - start
            if batch is None:
                return
            yield batch

    def result(self) -> dict[str, float]:
        """CPU milliseconds per step, and shares in percent."""
        (first, start, before), (last, end, after) = self.marks[:2]
        shares = {name: (after[name] - before[name]) / (end - start) for name in self.spent}
        operations = {event.key.lower(): event.self_cpu_time_total for event in self.profiler.key_averages()}
        total = sum(operations.values())
        for kind, words in _KINDS.items():
            if kind not in shares:
                names = [name for name in operations if any(word in name for word in words)]
                shares[kind] = sum(operations.pop(name) for name in names) / total
        return {"ms per step": 1e3 * (end - start) / (last - first), **{k: 100 * v for k, v in shares.items()}}


@dataclass(frozen=True)
class WatchedJob(Job):
    """A job whose training is on the clock."""

    stopwatch: Stopwatch = field(default_factory=Stopwatch)

    def loggers(self) -> tuple[Stopwatch, ...]:
        """The stopwatch alone."""
        return (self.stopwatch,)


def measured(name: str, data: Path | None) -> dict[str, float]:
    """Train the row of an experiment until it is measured."""
    row, overrides = _ROWS[name]
    experiment, stopwatch = experiment_named(name), Stopwatch()
    starts: list[float] = []
    batches = DeterministicLoader.batches
    hooks = [
        register_optimizer_step_pre_hook(lambda *_: starts.append(time.process_time())),
        register_optimizer_step_post_hook(lambda *_: _add(stopwatch, starts.pop())),
    ]
    DeterministicLoader.batches = lambda self, *args: stopwatch.loaded(batches(self, *args))  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder, suppress(MeasuredError):
            settings = experiment.settings(row, "small", overrides)
            experiment.run(WatchedJob(name, row, "small", 0, settings, data, Path(folder), stopwatch=stopwatch))
    finally:
        DeterministicLoader.batches = batches  # type: ignore[method-assign]
        for hook in hooks:
            hook.remove()
    return stopwatch.result()


def _add(stopwatch: Stopwatch, start: float) -> None:
    stopwatch.spent["optimizer"] += time.process_time() - start


def main() -> None:
    torch.set_num_threads(1)
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    names = sys.argv[2:] or (list(_ROWS) if data else ["tvae"])
    result: dict[str, object] = {}
    for name in names:
        result[name] = numbers = measured(name, data)
        print(f"{name}, {_ROWS[name][0]}: {numbers['ms per step']:.0f} CPU ms per step;", end=" ")
        print(", ".join(f"{kind} {share:.0f} %" for kind, share in numbers.items() if kind in _KINDS), flush=True)
    write_result("experiment_steps", result)


if __name__ == "__main__":
    main()
