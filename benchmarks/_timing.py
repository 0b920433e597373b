"""Timing on shared cores: CPU seconds, the two sides interleaved, the median of the ratios of pairs."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Comparison:
    """Seconds of both sides and the ratio second / first, each a median over pairs of runs."""

    first: float
    second: float
    ratio: float
    spread: tuple[float, float]


def cpu_seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def compare(first: Callable[[], object], second: Callable[[], object], *, repeats: int) -> Comparison:
    """Run both in turn; the first pair warms up and does not count. The spread is the quartiles of the ratio."""
    pairs = [(cpu_seconds(first), cpu_seconds(second)) for _ in range(repeats + 1)][1:]
    ratios = sorted(b / a for a, b in pairs)
    quartiles = (ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4])
    seconds = [statistics.median(side) for side in zip(*pairs, strict=True)]
    return Comparison(seconds[0], seconds[1], statistics.median(ratios), quartiles)


def training_step(layer: torch.nn.Module, x: torch.Tensor, g: torch.Tensor) -> Callable[[], None]:
    """One call of the layer and its gradients, for the output's gradient g."""

    def run() -> None:
        layer.zero_grad(set_to_none=True)
        x.grad = None
        layer(x).backward(g)

    return run


def evaluation(layer: torch.nn.Module, x: torch.Tensor) -> Callable[[], None]:
    """One call of the layer in evaluation mode, without gradients."""
    layer.eval()

    def run() -> None:
        with torch.no_grad():
            layer(x)

    return run


def write_result(name: str, result: dict[str, object]) -> None:
    """Write a benchmark's figures with what they were taken on."""
    facts = {"python": platform.python_version(), "torch": torch.__version__, "threads": torch.get_num_threads()}
    path = Path(__file__).parent / "results" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps({**facts, **result}, indent=2) + "\n")
    temporary.replace(path)
    print(f"written to {path.parent.name}/{path.name}")
