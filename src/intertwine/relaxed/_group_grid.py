"""Sampled rotations, with or without reflections: their product, their coordinates, their draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .._checked import checked
from ..errors import InputError

Sampling = Literal["grid", "random", "train"]
"""``grid`` is the same at every call, ``random`` is drawn at every call, ``train`` is random in training only."""


def principal(angle: Tensor) -> Tensor:
    """The same angle in (−π, π]; what is π up to rounding stays π, so that equal turns get equal coordinates.

    >>> principal(torch.tensor([-math.pi, 0.0, 3 * math.pi, 4.0], dtype=torch.float64))
    tensor([ 3.1416,  0.0000,  3.1416, -2.2832], dtype=torch.float64)
    """
    turns = torch.ceil((angle.detach() - math.pi) / (2 * math.pi) - 1e-9)
    return angle - 2 * math.pi * turns


@checked
@dataclass(frozen=True)
class GroupSamples:
    """Elements (θ, m) of O(2), acting on (row, column) by [[cos θ, −sin θ], [sin θ, cos θ]] diag(1, m), m = ±1.

    The product is (θ1, m1)(θ2, m2) = (θ1 + m1 θ2, m1 m2). Without reflections m is 1.

    Attributes:
        angles: θ, float64.
        mirrors: m, float64; None when all are 1.
        factors: what the output of a layer at each element is multiplied with; None for 1.
        key: what tells them from others without reading a number from the device; None where nothing does.
    """

    angles: Tensor
    mirrors: Tensor | None = None
    factors: Tensor | None = None
    key: tuple[object, ...] | None = None

    def __len__(self) -> int:
        return len(self.angles)

    def values(self) -> tuple[object, ...]:
        """All angles and mirrors as numbers; what ``meta`` tensors hold, nobody knows."""
        if self.angles.is_meta:
            return ("unknown", object())
        mirrors = None if self.mirrors is None else tuple(self.mirrors.tolist())
        return tuple(self.angles.detach().tolist()), mirrors

    def turned_back(self, points: Tensor) -> Tensor:
        """g⁻¹ p for every element g and every point p: ``(elements, points, 2)``."""
        c, s = self.angles.cos()[:, None], self.angles.sin()[:, None]
        row, column = c * points[:, 0] + s * points[:, 1], c * points[:, 1] - s * points[:, 0]
        return torch.stack([row, column if self.mirrors is None else self.mirrors[:, None] * column], -1)

    def relative_to(self, frames: GroupSamples) -> GroupSamples:
        """f⁻¹ g for every f of ``frames`` and every g: tensors ``(frames, elements)``, the angle in (−π, π]."""
        angles = self.angles - frames.angles[:, None]
        if self.mirrors is None or frames.mirrors is None:
            return GroupSamples(principal(angles))
        mirrors = frames.mirrors[:, None]
        return GroupSamples(principal(mirrors * angles), mirrors * self.mirrors)

    def moved(self, turn: float, mirror: float = 1.0) -> GroupSamples:
        """q g for one element q = (turn, mirror) and every g."""
        return GroupSamples(turn + mirror * self.angles, None if self.mirrors is None else mirror * self.mirrors)

    def permutation(self, turn: float, mirror: float = 1.0) -> Tensor | None:
        """For each element g the place of q⁻¹ g among the elements; None when it is not there for all."""
        inverse = self.moved(-mirror * turn, mirror)
        apart = (principal(inverse.angles[:, None] - self.angles)).abs()
        same = torch.minimum(apart, 2 * math.pi - apart) < 1e-9
        if inverse.mirrors is not None and self.mirrors is not None:
            same &= inverse.mirrors[:, None] == self.mirrors
        return same.int().argmax(1) if bool((same.sum(1) == 1).all()) else None


def grid(
    samples: int, *, mirrored: bool = False, offset: float | Tensor = 0.0, device: torch.device | None = None
) -> GroupSamples:
    """Equally spaced angles, turned together by ``offset``; with reflections, half as many angles, twice."""
    count = samples // 2 if mirrored else samples
    angles = 2 * math.pi / count * torch.arange(count, dtype=torch.float64, device=device) + offset
    key = None if isinstance(offset, Tensor) else ("grid", samples, mirrored, offset)
    if not mirrored:
        return GroupSamples(angles, key=key)
    ones = torch.ones_like(angles)
    return GroupSamples(torch.cat([angles, angles]), torch.cat([ones, -ones]), key=key)


def draw(
    samples: int,
    *,
    mirrored: bool = False,
    generator: torch.Generator | None = None,
    device: torch.device | None = None,
) -> GroupSamples:
    """Equally spaced angles, all turned by one random offset; from torch's own generator if none is given."""
    count = samples // 2 if mirrored else samples
    offset = 2 * math.pi / count * uniform(generator, device)
    return grid(samples, mirrored=mirrored, offset=offset, device=device)


def uniform(generator: torch.Generator | None, device: torch.device | None) -> Tensor:
    """One number between 0 and 1 on a device, drawn where the generator is if one is given."""
    where = device if generator is None else generator.device
    return torch.rand((), dtype=torch.float64, generator=generator, device=where).to(device)


def check_samples(who: str, samples: object, *, mirrored: bool) -> int:
    """The number of samples, if it is one."""
    least = 2 if mirrored else 1
    if not isinstance(samples, int) or samples < least or samples % least:
        raise InputError(
            who,
            expected="an even number of group samples, 2 or more" if mirrored else "at least 1 group sample",
            got=repr(samples),
            fix="For example samples=8.",
        )
    return samples
