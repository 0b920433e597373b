"""What a layer is tried with: random fields, and the elements of the group that must commute with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from torch import Tensor


def everywhere(f: Tensor) -> Tensor:
    return f


@dataclass(frozen=True)
class Move:
    """One element of the group, as it acts on the input of a layer and on its output.

    Attributes:
        subgroup: ``translation``, or the name of the group it is from.
        where: the part of an output where the two must agree.
    """

    name: str
    subgroup: str
    on_input: Callable[[Tensor], Tensor]
    on_output: Callable[[Tensor], Tensor]
    where: Callable[[Tensor], Tensor] = everywhere


@dataclass(frozen=True)
class Trial:
    """Fields and moves for one layer.

    Attributes:
        sizes: of the inputs in space.
        inputs: a random field.
        exact: the elements that must commute to rounding.
        smooth: a field for the others, on which the layer's own bound holds.
        inexact: the others.
        where: the part of an output that counts for the others.
    """

    sizes: tuple[int, ...]
    inputs: Tensor
    exact: Iterable[Move]
    smooth: Tensor | None = None
    inexact: Iterable[Move] = field(default=())
    where: Callable[[Tensor], Tensor] = everywhere
