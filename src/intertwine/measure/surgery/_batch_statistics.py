"""Batch statistics in networks that use them, even if a batch does not fit into memory at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from .._batches import Fitting

BatchNorm = nn.modules.batchnorm._BatchNorm


@dataclass(frozen=True)
class Spread:
    """The mean and spread of channels over samples, in float64; those of two sets of samples can be combined.

    Attributes:
        count: the number of samples.
        mean: the mean of each channel.
        squares: the sum of squared deviations from the mean.

    >>> x = torch.randn(7, 3, 2, 2, dtype=torch.float64)
    >>> both = Spread.of(x[:2], 1).with_more(Spread.of(x[2:], 1))
    >>> torch.allclose(both.variance, x.var((0, 2, 3)))
    True
    """

    count: int
    mean: Tensor
    squares: Tensor

    @staticmethod
    def of(y: Tensor, axis: int) -> Spread:
        """The spread of the channels along ``axis``; all other positions are samples."""
        count = y.numel() // y.shape[axis]
        maps = y.unsqueeze(-1).flatten(axis + 1)  # (..., channels, positions)
        rest = list(range(axis))
        # Positions are summed in the precision of the network, which is several times faster, and the rest in float64.
        precision = torch.promote_types(y.dtype, torch.float32)

        def mean_of(values: Tensor) -> Tensor:
            return values.sum(-1, dtype=precision).sum(rest, dtype=torch.float64) / count

        # Deviations from the mean rather than squares of values: E[y²] − E[y]² would cancel in float32. They also show
        # how far the mean was off.
        mean = mean_of(maps).to(y.dtype)
        gaps = maps - mean[:, None]
        off = mean_of(gaps)
        norms = torch.linalg.vector_norm(gaps, dim=-1, dtype=precision).double()
        squares = (norms**2).sum(rest) - count * off**2
        if precision != torch.float64 and not bool(squares.isfinite().all()):
            return Spread.of(y.double(), axis)  # squares of very large numbers leave the range of float32
        return Spread(count, mean.double() + off, squares.clamp_min(0))

    def with_more(self, other: Spread) -> Spread:
        """The spread of both sets of samples together."""
        count = self.count + other.count
        gap = other.mean - self.mean
        squares = self.squares + other.squares + gap**2 * (self.count * other.count / count)
        return Spread(count, self.mean + gap * (other.count / count), squares)

    @property
    def biased(self) -> Tensor:
        """The variance by which a batch norm divides."""
        return self.squares / self.count

    @property
    def variance(self) -> Tensor:
        """The unbiased variance; 0 for one sample."""
        return self.squares / max(self.count - 1, 1)


@dataclass
class Running:
    """The mean over batches of the batch means and the unbiased batch variances of each channel."""

    mean: Tensor
    variance: Tensor
    batches: int = 0

    @staticmethod
    def gather(seen: dict[str, Running], batch: Sequence[tuple[str, Spread]]) -> None:
        """Add the statistics of one batch, by name."""
        for name, spread in batch:
            running = seen.setdefault(name, Running(torch.zeros_like(spread.mean), torch.zeros_like(spread.mean)))
            running.batches += 1
            running.mean += (spread.mean - running.mean) / running.batches
            running.variance += (spread.variance - running.variance) / running.batches


class Look(Protocol):
    """Called where statistics are needed, in the same order in every run; returns those of the complete batch."""

    def __call__(self, name: str, y: Tensor, axis: int, *, used: bool) -> Spread: ...


class _Reached(Exception):  # noqa: N818  # not an error: it leaves the network at the place that is being observed
    pass


def of_batch(run: Callable[[Tensor, Look], object], x: Tensor, fit: Fitting) -> list[tuple[str, Spread]]:
    """The statistics of one batch, in the order in which they were computed.

    ``run(images, look)`` runs the network. If the batch does not fit into memory, its statistics are combined from
    pieces. Where the network continues with these statistics (``used``), every piece needs those of the complete batch,
    so each pass over the pieces gets only as far as the first unknown place. The result is that of the complete batch
    up to rounding, and takes as many passes as there are such places.
    """
    known: list[tuple[str, Spread]] = []
    while True:
        pieces = fit(lambda piece: _seen(run, piece, known, waits=len(piece) < len(x)), x)
        new = pieces[0][0]
        for more, _ in pieces[1:]:
            new = [(name, spread.with_more(other)) for (name, spread), (_, other) in zip(new, more, strict=True)]
        known.extend(new)
        if not any(stopped for _, stopped in pieces):
            return known


def _seen(
    run: Callable[[Tensor, Look], object], piece: Tensor, known: Sequence[tuple[str, Spread]], *, waits: bool
) -> tuple[list[tuple[str, Spread]], bool]:
    """The statistics that one run adds to the known ones, and whether it stopped to wait for the other pieces."""
    new: list[tuple[str, Spread]] = []
    calls = 0

    def look(name: str, y: Tensor, axis: int, *, used: bool) -> Spread:
        nonlocal calls
        calls += 1
        if calls <= len(known):
            return known[calls - 1][1]
        new.append((name, Spread.of(y, axis)))
        if used and waits:
            raise _Reached
        return new[-1][1]

    try:
        run(piece, look)
    except _Reached:
        return new, True
    return new, False


@contextmanager
def normalizing_by_batch(norms: Sequence[tuple[str, BatchNorm]], look: Look) -> Iterator[None]:
    """Within the block, batch norms use the batch statistics that ``look`` returns, as in training."""

    def use(name: str) -> Callable[[nn.Module, Any], None]:
        def hook(module: nn.Module, args: Any) -> None:
            spread = look(name, args[0], 1, used=True)
            module.running_mean.copy_(spread.mean)  # type: ignore[operator]
            module.running_var.copy_(spread.biased)  # type: ignore[operator]

        return hook

    with ExitStack() as stack:
        for name, norm in norms:
            stack.callback(norm.train, norm.training)
            norm.eval()
            stack.callback(norm.register_forward_pre_hook(use(name)).remove)
        yield
