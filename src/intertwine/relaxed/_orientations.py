"""Sampled orientations: elements of O(2), their coordinates, and random draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .._checked import checked
from ..errors import InputError
from ..groups import Cyclic, Dihedral, FiniteGroup

Sampling = Literal["grid", "random", "train"]
"""``grid`` is the same on every call, ``random`` is drawn on every call, ``train`` is random in training only."""

Angles = Literal["circle", "principal", "integer"]
"""How a kernel network sees an angle θ with the frequency ω.

``circle`` is the point ω (cos θ, sin θ): continuous on the circle for every ω, also a learned one. ``principal`` is
ω θ with θ in (−π, π]: the published sizes, and a jump at θ = ±π. ``integer`` rounds ω, with a straight-through
gradient, which makes the published formulas continuous.
"""


@checked
@dataclass(frozen=True)
class Orientations:
    """Elements of O(2) at which a field on the motions of the plane is sampled.

    Grid samples are the elements of C_n or D_n in order, so the samples of one field are the channels of a regular
    representation. Random samples are arbitrary.

    Attributes:
        elements: matrices ``(n, 2, 2)`` on (x, y), float64, as in :class:`intertwine.groups.O2`.
        factors: the factor for the output of a layer at each element; None for 1.
        key: identifies the samples without reading values from the device; None if there is no such key.

    >>> from intertwine.groups import Dihedral
    >>> samples = Orientations(Dihedral(4).standard.matrices)
    >>> len(samples), samples.mirrored
    (8, True)
    """

    elements: Tensor
    factors: Tensor | None = None
    key: tuple[object, ...] | None = None

    def __len__(self) -> int:
        return len(self.elements)

    @property
    def mirrored(self) -> bool:
        """Whether there are reflections among them; False for ``meta`` tensors, which have no values."""
        return not self.elements.is_meta and bool((torch.linalg.det(self.elements.detach()) < 0).any())

    def values(self) -> tuple[object, ...]:
        """All entries as Python numbers."""
        if self.elements.is_meta:
            return ("unknown", object())
        return tuple(self.elements.detach().flatten().tolist())

    def relative_to(self, frames: Orientations) -> Tensor:
        """f⁻¹ g for every f of ``frames`` and every g: ``(frames, elements, 2, 2)``."""
        return frames.elements.mT[:, None] @ self.elements[None]

    def moved(self, g: Tensor) -> Orientations:
        """g h for one element g and every h."""
        return Orientations(g.to(self.elements) @ self.elements, self.factors)

    def turned_back(self, points: Tensor) -> Tensor:
        """g⁻¹ p for every element g and every point p = (row, column): ``(elements, points, 2)``."""
        x, y = points[:, 1], -points[:, 0]
        turned = torch.stack([x, y], -1) @ self.elements  # p as a row: pᵀ g is (g⁻¹ p)ᵀ
        return torch.stack([-turned[..., 1], turned[..., 0]], -1)


def angle_and_mirror(elements: Tensor) -> tuple[Tensor, Tensor]:
    """θ in (−π, π] and m = ±1 with g = R(θ) F^m, where F exchanges left and right.

    An angle of −π up to rounding becomes π: equal rotations get equal coordinates.

    >>> from intertwine.groups import Dihedral
    >>> [part.tolist() for part in angle_and_mirror(Dihedral(2).standard.matrices)]
    [[0.0, 3.14159..., 0.0, 3.14159...], [1.0, 1.0, -1.0, -1.0]]
    """
    point, mirror = point_and_mirror(elements)
    angle = torch.atan2(point[..., 1], point[..., 0])
    return torch.where(angle.detach() < -math.pi + 1e-9, angle + 2 * math.pi, angle), mirror


def point_and_mirror(elements: Tensor) -> tuple[Tensor, Tensor]:
    """(cos θ, sin θ) and m = ±1 with g = R(θ) F^m, where F exchanges left and right."""
    mirror = torch.where(torch.linalg.det(elements.detach()) < 0, -1.0, 1.0).to(elements)
    # F is diag(-1, 1): the first column of g F is that of g times m.
    return mirror[..., None] * elements[..., 0], mirror


def from_angles(angles: Tensor, *, mirror: bool = False) -> Tensor:
    """R(θ), or R(θ) F, as matrices on (x, y), differentiable in θ."""
    c, s = angles.cos(), angles.sin()
    sign = -1.0 if mirror else 1.0
    return torch.stack([torch.stack([sign * c, -s], -1), torch.stack([sign * s, c], -1)], -2)


def sampled_group(samples: int, *, mirrored: bool) -> FiniteGroup:
    """The group whose elements are the grid samples."""
    return Dihedral(samples // 2) if mirrored else Cyclic(samples)


def grid(
    samples: int, *, mirrored: bool = False, offset: float | Tensor = 0.0, device: torch.device | None = None
) -> Orientations:
    """Equally spaced angles, all shifted by ``offset``; with reflections, half as many angles, each twice."""
    count = samples // 2 if mirrored else samples
    angles = 2 * math.pi / count * torch.arange(count, dtype=torch.float64, device=device) + offset
    key = None if isinstance(offset, Tensor) else ("grid", samples, mirrored, offset)
    turns = from_angles(angles)
    return Orientations(torch.cat([turns, from_angles(angles, mirror=True)]) if mirrored else turns, key=key)


def draw(
    samples: int,
    *,
    mirrored: bool = False,
    generator: torch.Generator | None = None,
    device: torch.device | None = None,
) -> Orientations:
    """Equally spaced angles, all shifted by one random offset; by default from torch's generator."""
    count = samples // 2 if mirrored else samples
    offset = 2 * math.pi / count * uniform(generator, device)
    return grid(samples, mirrored=mirrored, offset=offset, device=device)


def uniform(generator: torch.Generator | None, device: torch.device | None) -> Tensor:
    """A random number between 0 and 1 on ``device``, drawn on the device of the generator if there is one."""
    where = device if generator is None else generator.device
    return torch.rand((), dtype=torch.float64, generator=generator, device=where).to(device)


def check_samples(caller: str, samples: object, *, mirrored: bool) -> int:
    """The number of samples, checked."""
    step = 2 if mirrored else 1
    if not isinstance(samples, int) or samples < step or samples % step:
        raise InputError(
            caller,
            expected="an even number of group samples, 2 or more" if mirrored else "at least 1 group sample",
            got=repr(samples),
        )
    return samples
