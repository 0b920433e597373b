"""The planes of ready-made networks, and widths that match a plain network in weights or in cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import nn

from ..errors import InputError
from ..groups import FiniteGroup
from ..nn import Sequential, to_plain
from ..spaces import FieldType, Grid2d, Space, parse_space

Match = Literal["weights", "cost"]
GroupName: TypeAlias = str | FiniteGroup | Grid2d | None
Build: TypeAlias = Callable[[Grid2d, float], Sequential]

_SIZE = 64  # of the images for which costs are compared; their ratio hardly depends on it
_CLOSE = 0.01  # a relative difference that is good enough


def plane_of(caller: str, group: GroupName) -> Grid2d:
    """The plane with this finite group; None is the group of one element."""
    if group is None:
        return Grid2d("C1")
    if isinstance(group, FiniteGroup):
        return Grid2d(group)
    space = parse_space(group) if isinstance(group, str) else group
    if not isinstance(space, Grid2d) or not isinstance(space.stabilizer, FiniteGroup) or space.lattice != "square":
        raise InputError(
            caller,
            expected="a finite group of the plane on the square lattice, such as hflip, C4, D4 or C8",
            got=str(space),
            fix="C8 or C16 stand in for all rotations, D8 or D16 for all rotations and reflections.",
        )
    return space


def regular(space: Space, fields: float) -> FieldType:
    """Regular fields, about this many and at least one."""
    return space.field(max(1, round(fields)) * _finite(space).regular)


def scalars(space: Space, count: int) -> FieldType:
    """Trivial fields: the channels of an image, or class scores."""
    return space.field(count * _finite(space).trivial)


def _finite(space: Space) -> FiniteGroup:
    group: FiniteGroup = space.stabilizer  # type: ignore[assignment]  # plane_of accepts no other
    return group


def matched(
    caller: str, build: Build, plane: Grid2d, plain_width: float, *, channels: int, width: float | None, match: Match
) -> Sequential:
    """The network of the given width, or of the one at which it has the weights, or the cost, of the plain one.

    Args:
        caller: the name of the network, for messages.
        build: builds the network for a plane and a width.
        plane: the plane with the group.
        plain_width: the width of the plain network.
        channels: the channels of the image.
        width: the number of regular fields after the stem, if given.
        match: what to match otherwise.
    """
    if width is not None and not 0 < width < math.inf:
        raise InputError(caller, expected="a finite width above 0", got=str(width))
    order = _finite(plane).order
    if width is None:
        width = plain_width if order == 1 else _matching_width(build, plane, plain_width, channels, match)
    return build(plane, width)


def _matching_width(build: Build, plane: Grid2d, plain_width: float, channels: int, match: Match) -> float:
    def amount(space: Grid2d, width: float) -> int:
        with torch.device("meta"):  # without memory, and without random numbers
            network = build(space, width)
        return count_weights(network) if match == "weights" else multiply_adds(network, channels)

    target, order = amount(Grid2d("C1"), plain_width), _finite(plane).order
    # A convolution of f regular fields has f² |H| weights, and f² |H|² multiplications per position and tap.
    width = plain_width / (order if match == "cost" else math.sqrt(order))
    differences: dict[float, float] = {}
    for _ in range(6):
        ratio = amount(plane, width) / target
        differences[width] = abs(math.log(ratio))
        if differences[width] < _CLOSE:
            break
        width /= math.sqrt(ratio)  # nearly all of both grows with the square of the width
    return min(differences, key=differences.__getitem__)


def count_weights(network: nn.Module) -> int:
    """The number of trained parameters."""
    return sum(p.numel() for p in network.parameters())


def multiply_adds(network: nn.Module, channels: int, size: int = _SIZE) -> int:
    """The multiplications and additions for one image: those of the plain network with all filters written out."""
    from torch.utils.flop_counter import FlopCounterMode  # imported here because it is slow to import

    plain = to_plain(network).to("meta")
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        plain(torch.empty(1, channels, size, size, device="meta"))
    return int(counter.get_total_flops()) // 2
