"""The networks that are compared: free, local, invariant and relaxed, with the same number of weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from .. import nn as tnn
from .._checked import Floats, Positive, checked
from ..errors import InputError
from ..groups import FiniteGroup
from ..relaxed import relax
from ..spaces import FieldAction, Grid2d

Strictness: TypeAlias = Literal["invariant", "local", "relaxed", "free"]
STRICTNESS: tuple[Strictness, ...] = ("invariant", "local", "relaxed", "free")
"""From strict to free."""

_WIDTHS: tuple[int, ...] = (16, 24, 32)  # channels of the free network
_KERNEL = 3
_GRID = 2  # the head sees features on 2 x 2 places
_RANK = 2
_VOLUME_WIDTHS = (8, 12, 16)
_HIDDEN, _MAX_WEIGHTS = 64, 90_000  # units of a hidden layer; weights of the first one


class Standardize(nn.Module):
    """(x − mean) / std, per channel, with fixed numbers."""

    @checked
    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, x: Tensor) -> Tensor:
        """The standardized batch."""
        shape = (1, -1) + (1,) * (x.ndim - 2)
        return (x - self.mean.view(shape)) / self.std.view(shape)  # type: ignore[operator]


class OrbitPool(nn.Module):
    """The invariants of a field: the maximum over each orbit of the group on 2 x 2 places and orientations.

    A regular field has one value per orientation. Averaged over 2 x 2 places it has 4 |G| values, which the group
    permutes in 4 orbits. What stays is where features are relative to their orientation, which a mean over the plane
    would lose.

    Shapes: ``(batch, fields · |G|, height, width)`` to ``(batch, 4 · fields)``. Equivariance: invariant.

    Args:
        plane: the plane with its group.
        fields: the number of regular fields.

    >>> plane = Grid2d("D4")
    >>> x = torch.rand(2, 24, 6, 6)
    >>> moved = FieldAction(plane, plane.field("3*regular")).move(5, x)
    >>> torch.allclose(OrbitPool(plane, 3)(x), OrbitPool(plane, 3)(moved))
    True
    """

    @checked
    def __init__(self, plane: Grid2d, fields: Positive) -> None:
        super().__init__()
        group = plane.stabilizer
        if not isinstance(group, FiniteGroup):
            raise InputError("OrbitPool", expected="a finite group", got=str(plane))
        self.fields, self.order = fields, group.order
        self.register_buffer("orbits", _orbits(plane, group), persistent=False)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The invariants of a batch."""
        places = nn.functional.adaptive_avg_pool2d(x, _GRID).reshape(len(x), self.fields, -1)
        orbits: Tensor = self.orbits  # type: ignore[assignment]
        return places[:, :, orbits].amax(-1).flatten(1)


def _orbits(plane: Grid2d, group: FiniteGroup) -> Tensor:
    """The indices of the values of one regular field on 2 x 2 places, one row per orbit."""
    action = FieldAction(plane, plane.field(group.regular))
    numbered = torch.arange(float(group.order * _GRID**2)).view(1, group.order, _GRID, _GRID)
    moved = torch.stack([action.move(g, numbered).flatten() for g in range(group.order)], 1).long()
    return moved.sort(1).values.unique(dim=0)


class SymmetryCNN(nn.Module):
    """A small classifier of images that obeys a symmetry as strictly as asked.

    Three blocks of convolution, batch norm and ReLU, with pooling if the image is large enough, then a linear head.

    ============  ==================================  ==================================================================
    strictness    layers                              head
    ============  ==================================  ==================================================================
    free          plain convolutions                  sees where features are, on 2 x 2 places
    local         equivariant convolutions            sees where features are, and in which orientation
    invariant     equivariant convolutions            sees only what the group does not change, see
                                                      :class:`OrbitPool`
    relaxed       equivariant convolutions whose      like invariant
                  filters may differ by orientation,
                  by a learned amount
    ============  ==================================  ==================================================================

    All four have about as many weights: fewer fields where a field has more channels.

    Args:
        plane: the plane with its group.
        shape: channels, height and width of an image.
        classes: the number of classes.
        strictness: see above.

    Shapes: ``(batch, channels, height, width)`` to ``(batch, classes)``.

    >>> net = SymmetryCNN(Grid2d("C4"), (1, 8, 8), 10, "invariant").eval()
    >>> x = torch.rand(2, 1, 8, 8)
    >>> torch.allclose(net(x), net(x.rot90(1, (-2, -1))), atol=1e-5)
    True
    """

    @checked
    def __init__(
        self, plane: Grid2d, shape: tuple[int, int, int], classes: Positive, strictness: Strictness = "invariant"
    ) -> None:
        super().__init__()
        channels, height, width = shape
        pools = _pools(height, width)
        group = plane.stabilizer
        if not isinstance(group, FiniteGroup):
            raise InputError("SymmetryCNN", expected="a finite group", got=str(plane))
        if strictness == "free":
            self.features: nn.Module = _plain_features(channels, pools)
            widths, inside = _WIDTHS, _WIDTHS[-1]
        else:
            widths = _matched_widths(group.order, channels, classes, strictness)
            features = _typed_features(plane, group, channels, widths, pools)
            if strictness == "relaxed":
                features = relax(features, torch.zeros(1, *shape), "orientation", rank=_RANK)
            self.features, inside = features, widths[-1] * group.order
        sees = strictness in ("free", "local")
        if sees:
            self.readout: nn.Module = nn.Sequential(nn.AdaptiveAvgPool2d(_GRID), nn.Flatten())
            self.head = nn.Linear(inside * _GRID**2, classes)
        else:
            self.readout = OrbitPool(plane, widths[-1])
            self.head = nn.Linear(widths[-1] * _GRID**2, classes)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The class scores of a batch of images."""
        return self.head(self.readout(self.features(x)))


def _pools(height: int, width: int) -> set[int]:
    """The blocks that are followed by pooling, which needs even sizes."""
    pools: set[int] = set()
    for block in (0, 1):
        if height % 2 == 0 and width % 2 == 0 and min(height, width) >= 8:
            pools.add(block)
            height, width = height // 2, width // 2
    return pools


def _plain_features(channels: int, pools: set[int]) -> nn.Module:
    layers: list[nn.Module] = []
    before = channels
    for block, width in enumerate(_WIDTHS):
        layers += [
            nn.Conv2d(before, width, _KERNEL, padding=_KERNEL // 2, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        ]
        layers += [nn.AvgPool2d(2)] if block in pools else []
        before = width
    return nn.Sequential(*layers)


def _typed_features(
    plane: Grid2d, group: FiniteGroup, channels: int, widths: tuple[int, ...], pools: set[int]
) -> tnn.Sequential:
    field = plane.field(channels * group.trivial)
    layers: list[tnn.Layer] = []
    for block, width in enumerate(widths):
        after = plane.field(width * group.regular)
        layers += [tnn.Conv2d(field, after, _KERNEL, padding=_KERNEL // 2, bias=False), tnn.BatchNorm(after)]
        layers += [tnn.ReLU(after)]
        layers += [tnn.AvgPool2d(after, 2)] if block in pools else []
        field = after
    return tnn.Sequential(*layers)


def _weights(order: int, widths: tuple[int, ...], channels: int, classes: int, head: int) -> float:
    """The number of weights with regular fields of a group of this order and ``head`` inputs of the head per field."""
    pairs = channels * widths[0] + order * sum(a * b for a, b in pairwise(widths))
    return pairs * _KERNEL**2 + 2 * sum(widths) + head * widths[-1] * classes


def _matched_widths(order: int, channels: int, classes: int, strictness: Strictness) -> tuple[int, ...]:
    """Numbers of fields with as many weights as the free network."""
    goal = _weights(1, _WIDTHS, channels, classes, _GRID**2)
    banks = _RANK if strictness == "relaxed" else 1
    head = order * _GRID**2 if strictness == "local" else _GRID**2

    def scaled(r: float) -> tuple[int, ...]:
        return tuple(max(1, round(r * width)) for width in _WIDTHS)

    def miss(r: float) -> float:
        widths = scaled(r)
        convolutions = _weights(order, widths, channels, classes, 0)
        return abs(math.log((banks * convolutions + head * widths[-1] * classes) / goal))

    return scaled(min((k / 64 for k in range(8, 97)), key=miss))


@checked
def plain_network(shape: tuple[int, ...], classes: Positive) -> nn.Module:
    """The network for samples that are not images: convolutions for volumes, else two hidden layers.

    >>> plain_network((2, 9), 3)(torch.zeros(4, 2, 9)).shape
    torch.Size([4, 3])
    >>> plain_network((1, 6, 6, 6), 3)(torch.zeros(4, 1, 6, 6, 6)).shape
    torch.Size([4, 3])
    """
    return _volume_cnn(shape[0], classes) if len(shape) == 4 else _mlp(math.prod(shape), classes)


def _mlp(inputs: int, classes: int) -> nn.Module:
    hidden = max(4, min(_HIDDEN, _MAX_WEIGHTS // inputs))
    layers = [nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)]
    return nn.Sequential(nn.Flatten(), *layers)


def _volume_cnn(channels: int, classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    before = channels
    for width in _VOLUME_WIDTHS:
        layers += [nn.Conv3d(before, width, 3, padding=1, bias=False), nn.BatchNorm3d(width), nn.ReLU()]
        before = width
    layers.insert(3, nn.AvgPool3d(2, ceil_mode=True))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(_GRID), nn.Flatten(), nn.Linear(before * _GRID**3, classes))


Factory: TypeAlias = Callable[[], nn.Module]
