"""Statistics of whole batches in networks that use them, also when a batch does not fit into memory at once."""

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
    """Mean and spread of channels over samples, in float64; two of them add up to that of all samples.

    Attributes:
        count: samples.
        mean: of each channel.
        squares: sum of squared deviations from the mean.

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
        """Of the channels along ``axis``; every other place is a sample."""
        others = [k for k in range(y.dim()) if k != axis]
        shape = [-1 if k == axis else 1 for k in range(y.dim())]
        mean = y.mean(others, dtype=torch.float64)
        squares = torch.linalg.vector_norm(y - mean.to(y.dtype).view(shape), dim=others, dtype=torch.float64) ** 2
        return Spread(y.numel() // y.shape[axis], mean, squares)

    def with_more(self, other: Spread) -> Spread:
        """Of both sets of samples together."""
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
    """Mean over batches of the batch means and of the unbiased batch variances of each channel."""

    mean: Tensor
    variance: Tensor
    batches: int = 0

    @staticmethod
    def gather(seen: dict[str, Running], batch: Sequence[tuple[str, Spread]]) -> None:
        """Take in what was seen of one batch, by name."""
        for name, spread in batch:
            running = seen.setdefault(name, Running(torch.zeros_like(spread.mean), torch.zeros_like(spread.mean)))
            running.batches += 1
            running.mean += (spread.mean - running.mean) / running.batches
            running.variance += (spread.variance - running.variance) / running.batches


class Look(Protocol):
    """Called where statistics are wanted, in the same order in every run; gives those of the whole batch."""

    def __call__(self, name: str, y: Tensor, axis: int, *, used: bool) -> Spread: ...


class _Reached(Exception):  # noqa: N818  # no error: the way out of a network at the place where it is looked at
    pass


def of_batch(run: Callable[[Tensor, Look], object], x: Tensor, fit: Fitting) -> list[tuple[str, Spread]]:
    """What was seen of one batch, in the order in which it was looked at.

    ``run(images, look)`` runs the network. If the batch fits, that is all. If it does not, the statistics of the whole
    batch are gathered from pieces. Where the network goes on with them (``used``), the pieces have to wait for each
    other: every pass over the pieces then gets one such place further, those before being known. The result is that of
    the whole batch up to rounding, for as many passes as there are places.
    """
    known: list[tuple[str, Spread]] = []
    while True:
        pieces = fit(lambda piece: _seen(run, piece, known, waits=len(piece) < len(x)), x)
        new = pieces[0][0]
        for more, _ in pieces[1:]:
            new = [(name, own.with_more(other)) for (name, own), (_, other) in zip(new, more, strict=True)]
        known.extend(new)
        if not any(stopped for _, stopped in pieces):
            return known


def _seen(
    run: Callable[[Tensor, Look], object], piece: Tensor, known: Sequence[tuple[str, Spread]], *, waits: bool
) -> tuple[list[tuple[str, Spread]], bool]:
    """What one run sees beyond what is known, and whether it had to stop at a place where the others are waited for."""
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
    """Batch norms use the statistics of the batch that ``look`` gives, as in training."""

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
