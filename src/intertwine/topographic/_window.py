"""Windows of neighbors along one axis."""

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
            raise InputError(
                "Window", expected="low ≤ 0 ≤ high", got=f"{self.low} to {self.high}", fix="It must hold 0 itself."
            )

    @staticmethod
    def of(size: int) -> Window:
        """So many neighbors about 0; an even number has one more after than before."""
        if size < 1:
            raise InputError("Window", expected="a size of at least 1", got=str(size), fix="1 is no neighbors at all.")
        return Window(-((size - 1) // 2), size // 2)

    @staticmethod
    def causal(size: int) -> Window:
        """So many neighbors, none of them after 0."""
        if size < 1:
            raise InputError("Window", expected="a size of at least 1", got=str(size), fix="1 is no neighbors at all.")
        return Window(1 - size, 0)

    @property
    def size(self) -> int:
        """How many there are."""
        return self.high - self.low + 1

    @property
    def offsets(self) -> range:
        """All of them."""
        return range(self.low, self.high + 1)
