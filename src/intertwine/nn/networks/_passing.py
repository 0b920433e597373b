"""How a layer made of layers passes companions on: positions, edges, masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from .._layer import Companion, Layer

Value = TypeVar("Value")


def joint_companions(layers: Iterable[Layer]) -> tuple[Companion, ...]:
    """Each companion that some layer takes, once per name, in the order of first use."""
    return tuple({companion.name: companion for layer in layers for companion in layer.companions}.values())


def passed_on(part: Layer, values: Mapping[str, Value]) -> list[Value]:
    """Of the companions of the whole, by name, those that ``part`` takes, in its order."""
    return [values[companion.name] for companion in part.companions]
