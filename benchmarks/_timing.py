"""Timing on shared cores, as :mod:`intertwine.testing` does it, and where the figures go."""

from __future__ import annotations

import json
import platform
from functools import partial
from pathlib import Path

import torch

from intertwine import nn
from intertwine.testing import Comparison as Comparison
from intertwine.testing import compare as compare
from intertwine.testing import cpu_seconds as cpu_seconds
from intertwine.testing import evaluation as evaluation
from intertwine.testing import training_step as training_step


def rules_over_plain(name: str, layer: nn.Layer, x: torch.Tensor) -> dict[str, object]:
    """Time a layer with cost rules over the same without, forward only and as a training step: ratio and quartiles.

    Prints each ratio under this name.
    """

    def run(*, rules: bool, gradients: bool) -> None:
        with nn.cost_rules(enabled=rules), torch.set_grad_enabled(gradients):
            y = layer(x)
        if gradients:
            y.backward(torch.ones_like(y))

    result: dict[str, object] = {}
    for what, gradients in (("forward", False), ("training step", True)):
        call = partial(run, gradients=gradients)
        timing = compare(partial(call, rules=False), partial(call, rules=True), repeats=9)
        print(f"{name}, {what}: {timing.ratio:.2f} ({timing.spread[0]:.2f}-{timing.spread[1]:.2f})", flush=True)
        result[f"{name}, {what}"] = [timing.ratio, *timing.spread]
    return result


def write_result(name: str, result: dict[str, object]) -> None:
    """Write a benchmark's figures with what they were taken on."""
    facts = {"python": platform.python_version(), "torch": torch.__version__, "threads": torch.get_num_threads()}
    path = Path(__file__).parent / "results" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps({**facts, **result}, indent=2) + "\n")
    temporary.replace(path)
    print(f"written to {path.parent.name}/{path.name}")
