"""Timing on shared cores: CPU seconds, with both sides interleaved, and the median ratio over pairs of runs."""

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
from ._conformance import example_inputs

_MIN_SECONDS = 2e-3  # shorter runs are repeated within one measurement, since the clock is too coarse for them


@checked
@dataclass(frozen=True)
class Comparison:
    """CPU seconds of two sides and their ratio, each a median over pairs of runs.

    Attributes:
        first: CPU seconds of the first side.
        second: CPU seconds of the second side.
        ratio: second / first.
        spread: the quartiles of the ratio.
    """

    first: float
    second: float
    ratio: float
    spread: tuple[float, float]


@checked
def cpu_seconds(run: Callable[[], object]) -> float:
    """The CPU seconds of one run, over all threads.

    >>> cpu_seconds(lambda: sum(range(10))) >= 0
    True
    """
    start = time.process_time()
    run()
    return time.process_time() - start


@checked
def compare(first: Callable[[], object], second: Callable[[], object], *, repeats: Positive) -> Comparison:
    """Run both alternately and compare them. The first pair is a warmup and does not count.

    >>> result = compare(lambda: sum(range(10**4)), lambda: sum(range(10**4)), repeats=3)
    >>> result.ratio > 0
    True
    """
    pairs = [(cpu_seconds(first), cpu_seconds(second)) for _ in range(repeats + 1)][1:]
    ratios = sorted(b / a for a, b in pairs)
    quartiles = (ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4])
    seconds = [statistics.median(side) for side in zip(*pairs, strict=True)]
    return Comparison(seconds[0], seconds[1], statistics.median(ratios), quartiles)


@checked
def training_step(layer: torch_nn.Module, x: Tensor, g: Tensor, *companions: Tensor) -> Callable[[], None]:
    """A function that calls the layer and computes gradients, for the gradient g of the output."""

    def run() -> None:
        layer.zero_grad(set_to_none=True)
        x.grad = None
        layer(x, *companions).backward(g)

    return run


@checked
def evaluation(layer: torch_nn.Module, x: Tensor, *companions: Tensor) -> Callable[[], None]:
    """A function that calls the layer in evaluation mode, without gradients."""
    layer.eval()

    def run() -> None:
        with torch.no_grad():
            layer(x, *companions)

    return run


@checked
def compare_with_plain(
    layer: Layer, *, training: bool = False, repeats: Positive = 15, batch: Positive = 8, size: Positive = 24
) -> Comparison:
    """The cost of a layer relative to the plain torch modules from :func:`intertwine.nn.to_plain`.

    Args:
        layer: any layer.
        training: time a call with gradients in training mode; otherwise a call in evaluation mode.
        repeats: the number of pairs of runs.
        batch: the batch size.
        size: the height and width of images, or the next size that the layer accepts; about half of it in 3-space.
            Other spaces have fixed sizes.

    >>> from intertwine.nn import ReLU
    >>> result = compare_with_plain(next(ReLU.examples()), repeats=3, size=9)
    >>> result.first > 0 and result.spread[0] <= result.ratio <= result.spread[1]
    True
    """
    dimension = getattr(layer.in_type.space, "dimension", 2)
    (x, *_) = example_inputs(layer, min_size=size if dimension == 2 else size // 2 + 2)
    rows = 64 * batch if layer.companions else batch  # points are many and small
    x, noise = torch.randn(rows, *x.shape[1:]), torch.Generator().manual_seed(0)
    rest = [companion.draw(x, noise) for companion in layer.companions]
    plain = to_plain(layer)
    if training:
        x.requires_grad_()
        layer.train(), plain.train()
        with torch.no_grad():
            g = torch.randn_like(layer(x, *rest))
        sides = training_step(plain, x, g, *rest), training_step(layer, x, g, *rest)
    else:
        sides = evaluation(plain, x, *rest), evaluation(layer, x, *rest)
    for side in sides:
        side()
    calls = max(1, ceil(_MIN_SECONDS / max(cpu_seconds(sides[0]), 1e-7)))

    def several(run: Callable[[], object]) -> Callable[[], None]:
        def runs() -> None:
            for _ in range(calls):
                run()

        return runs

    result = compare(several(sides[0]), several(sides[1]), repeats=repeats)
    return Comparison(result.first / calls, result.second / calls, result.ratio, result.spread)
