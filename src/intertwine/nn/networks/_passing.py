"""How a layer made of layers passes companions on: positions, edges, masks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from ...errors import InputError
from .._layer import Companion, Layer

Value = TypeVar("Value")


def joint_companions(layers: Iterable[Layer]) -> tuple[Companion, ...]:
    """Each companion that some layer takes, once per name, in the order of first use."""
    return tuple({companion.name: companion for layer in layers for companion in layer.companions}.values())


def passed_on(whole: Layer, part: Layer, values: Sequence[Value]) -> list[Value]:
    """Of the companions of ``whole``, those that ``part`` takes, in its order."""
    if len(values) != len(whole.companions):
        names = ["x", *(companion.name for companion in whole.companions)]
        raise InputError(
            type(whole).__name__,
            expected=f"the arguments {', '.join(names)}" if whole.companions else "one argument, x",
            got=f"{1 + len(values)}",
        )
    by_name = {companion.name: value for companion, value in zip(whole.companions, values, strict=True)}
    return [by_name[companion.name] for companion in part.companions]
