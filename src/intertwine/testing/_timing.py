"""Timing on shared cores: CPU seconds, the two sides interleaved, the median of the ratios of pairs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor
from torch import nn as torch_nn

from .._checked import Positive, checked
from ..nn import Layer, to_plain
from ._conformance import example_input

_SHORTEST = 2e-3  # CPU seconds: what is shorter is run several times, or the clock would be measured


@checked
@dataclass(frozen=True)
class Comparison:
    """Seconds of both sides and the ratio second / first, each a median over pairs of runs.

    Attributes:
        first: CPU seconds.
        second: CPU seconds.
        ratio: second / first.
        spread: quartiles of the ratio.
    """

    first: float
    second: float
    ratio: float
    spread: tuple[float, float]


@checked
def cpu_seconds(run: Callable[[], object]) -> float:
    """CPU seconds of one run, of all threads together."""
    start = time.process_time()
    run()
    return time.process_time() - start


@checked
def compare(first: Callable[[], object], second: Callable[[], object], *, repeats: Positive) -> Comparison:
    """Run both in turn; the first pair warms up and does not count. The spread is the quartiles of the ratio."""
    pairs = [(cpu_seconds(first), cpu_seconds(second)) for _ in range(repeats + 1)][1:]
    ratios = sorted(b / a for a, b in pairs)
    quartiles = (ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4])
    seconds = [statistics.median(side) for side in zip(*pairs, strict=True)]
    return Comparison(seconds[0], seconds[1], statistics.median(ratios), quartiles)


@checked
def training_step(layer: torch_nn.Module, x: Tensor, g: Tensor) -> Callable[[], None]:
    """One call of the layer and its gradients, for the output's gradient g."""

    def run() -> None:
        layer.zero_grad(set_to_none=True)
        x.grad = None
        layer(x).backward(g)

    return run


@checked
def evaluation(layer: torch_nn.Module, x: Tensor) -> Callable[[], None]:
    """One call of the layer in evaluation mode, without gradients."""
    layer.eval()

    def run() -> None:
        with torch.no_grad():
            layer(x)

    return run


@checked
def compare_with_plain(
    layer: Layer, *, training: bool = False, repeats: Positive = 15, batch: Positive = 8, size: Positive = 24
) -> Comparison:
    """What a layer costs over the plain torch modules that :func:`intertwine.nn.to_plain` makes of it.

    Args:
        layer: any layer.
        training: a call and its gradients, both sides in training mode; otherwise a call in evaluation mode.
        repeats: pairs of runs.
        batch: fields at a time.
        size: sides of an image, or the next that the layer accepts; half of it in 3-space. Other spaces have their own.

    >>> from intertwine.nn import ReLU
    >>> found = compare_with_plain(next(ReLU.examples()), repeats=3, size=9)
    >>> found.first > 0 and found.spread[0] <= found.ratio <= found.spread[1]
    True
    """
    dimension = getattr(layer.in_type.space, "dimension", 2)
    x = example_input(layer, least=size if dimension == 2 else size // 2 + 2)[:1]
    x = torch.randn(batch, *x.shape[1:])
    plain = to_plain(layer)
    if training:
        x.requires_grad_()
        layer.train(), plain.train()
        with torch.no_grad():
            g = torch.randn_like(layer(x))
        sides = training_step(plain, x, g), training_step(layer, x, g)
    else:
        sides = evaluation(plain, x), evaluation(layer, x)
    for side in sides:
        side()
    calls = max(1, ceil(_SHORTEST / max(cpu_seconds(sides[0]), 1e-7)))

    def several(run: Callable[[], object]) -> Callable[[], None]:
        def runs() -> None:
            for _ in range(calls):
                run()

        return runs

    found = compare(several(sides[0]), several(sides[1]), repeats=repeats)
    return Comparison(found.first / calls, found.second / calls, found.ratio, found.spread)
