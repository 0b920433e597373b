"""The data for testing a layer: random fields, and the group elements that must commute with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..nn import Layer


def everywhere(f: Tensor) -> Tensor:
    return f


def unmoved(companions: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return companions


def moving(layer: Layer, g: Any) -> Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]:
    """How an element moves all companions of a layer."""

    def moved(values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(part.move(value, g) for part, value in zip(layer.companions, values, strict=True))

    return moved


@dataclass(frozen=True)
class Move:
    """A group element, as it acts on the input and on the output of a layer.

    Attributes:
        subgroup: ``translation``, or the name of its group.
        where: selects the part of the output where both sides must agree.
    """

    name: str
    subgroup: str
    on_input: Callable[[Tensor], Tensor]
    on_output: Callable[[Tensor], Tensor]
    where: Callable[[Tensor], Tensor] = everywhere
    on_companions: Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]] = unmoved


@dataclass(frozen=True)
class Trial:
    """Fields and moves for one layer.

    Attributes:
        sizes: the spatial sizes of the inputs.
        inputs: a random field.
        companions: the other inputs.
        smooth_companions: the other inputs for ``smooth``; None for the same.
        exact: the elements that must commute up to rounding.
        smooth: a field for the inexact elements, on which the bound of the layer's claim holds.
        inexact: the other elements.
        where: selects the part of the output that counts for the inexact elements.
    """

    sizes: tuple[int, ...]
    inputs: Tensor
    exact: Iterable[Move]
    smooth: Tensor | None = None
    inexact: Iterable[Move] = field(default=())
    where: Callable[[Tensor], Tensor] = everywhere
    companions: tuple[Tensor, ...] = ()
    smooth_companions: tuple[Tensor, ...] | None = None
