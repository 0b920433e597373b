"""Windows of neighbor offsets along one axis."""

from __future__ import annotations

from dataclasses import dataclass

from .._checked import checked
from ..errors import InputError


@checked
@dataclass(frozen=True)
class Window:
    """The offsets low, …, high of neighbors.

    >>> Window.of(5), Window.of(4), Window.causal(3)
    (Window(low=-2, high=2), Window(low=-1, high=2), Window(low=-2, high=0))
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high or not self.low <= 0 <= self.high:
            raise InputError("Window", expected="low ≤ 0 ≤ high", got=f"{self.low} to {self.high}")

    @staticmethod
    def of(size: int) -> Window:
        """A window of this size around 0. An even size has one more offset after 0 than before."""
        if size < 1:
            raise InputError("Window", expected="a size of at least 1", got=str(size))
        return Window(-((size - 1) // 2), size // 2)

    @staticmethod
    def causal(size: int) -> Window:
        """A window of this size that ends at 0."""
        if size < 1:
            raise InputError("Window", expected="a size of at least 1", got=str(size))
        return Window(1 - size, 0)

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.high - self.low + 1

    @property
    def offsets(self) -> range:
        """All offsets."""
        return range(self.low, self.high + 1)
