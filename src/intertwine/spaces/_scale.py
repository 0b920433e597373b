"""The plane under translations and scalings: images, and functions of position and scale."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, log
from typing import NamedTuple

import torch
from torch import Tensor

from .._checked import Positive, checked
from .._digest import content_digest
from ..errors import InputError
from ..groups import Cyclic, Representation
from ._resample import resample
from ._space import Space


class Zoom(NamedTuple):
    """The element (t, s) of R² ⋊ R⁺, which maps x to s x + t.

    Attributes:
        translation: ``(2,)``, in samples along the rows and the columns of the array.
        factor: s, greater than 1 to enlarge.
    """

    translation: Tensor
    factor: float


class Zooms(Space):
    """What images and functions of position and scale have in common: the group R² ⋊ R⁺.

    R⁺ is not compact, so its representations do not come from :mod:`intertwine.groups`. Values never change under a
    scaling; fields carry trivial representations only, and the type says how many channels there are.
    """

    def __init__(self) -> None:
        self.stabilizer = self.compact_group = Cyclic(1)

    @checked
    def zoom(self, factor: float, translation: Sequence[float] | Tensor = (0.0, 0.0)) -> Zoom:
        """The map x ↦ factor·x + translation; the origin is the center of the array.

        >>> ScalePlane().zoom(2.0)
        Zoom(translation=tensor([0., 0.], dtype=torch.float64), factor=2.0)
        """
        t = torch.as_tensor(translation, dtype=torch.float64)
        if t.shape != (2,) or not (isfinite(factor) and factor > 0):
            raise InputError(
                f"{self.name}.zoom",
                expected="a factor above 0 and 2 coordinates",
                got=f"factor {factor} and {t.tolist()}",
            )
        return Zoom(t, float(factor))

    @checked
    def compose(self, a: Zoom, b: Zoom) -> Zoom:
        return Zoom(a.factor * b.translation + a.translation, a.factor * b.factor)

    @checked
    def inverse(self, g: Zoom) -> Zoom:
        return Zoom(-g.translation / g.factor, 1 / g.factor)

    @checked
    def as_stabilizer(self, g: Zoom) -> int:
        """The identity of C1: values do not change, whatever the factor."""
        return 0

    @checked
    def from_stabilizer(self, h: int) -> Zoom:
        return self.zoom(1.0)

    @checked
    def from_compact(self, g: int) -> Zoom:
        return self.zoom(1.0)

    def _require_field(self, rho: Representation, f: Tensor, axes: Sequence[int | str]) -> None:
        sizes = f.shape[f.ndim - len(axes) - 1 :] if f.ndim > len(axes) else ()
        expected = (rho.dim, *axes)
        if not sizes or any(isinstance(n, int) and n != size for n, size in zip(expected, sizes, strict=True)):
            raise InputError(
                f"transform of a field on {self.name}",
                expected=f"a tensor (..., {', '.join(map(str, expected))})",
                got=f"shape {tuple(f.shape)}",
            )


class ScalePlane(Zooms):
    """Images under translations and scalings: the plane R² = G/R⁺, G = R² ⋊ R⁺.

    A field is a tensor ``(..., channels, height, width)``. It moves as (π(t, s)f)(x) = f((x − t)/s), by cubic
    interpolation, with zeros outside the array.

    >>> images = ScalePlane().field("3*trivial")
    >>> images.transform(torch.rand(2, 3, 33, 33), ScalePlane().zoom(1.5)).shape
    torch.Size([2, 3, 33, 33])
    """

    how_to_make = "Make one with intertwine.spaces.ScalePlane()."

    def __init__(self) -> None:
        super().__init__()
        self.name = "ScalePlane()"
        self.digest = content_digest("scale plane")

    @checked
    def project(self, g: Zoom) -> Tensor:
        return g.translation

    @checked
    def section(self, x: Tensor) -> Zoom:
        return Zoom(x, 1.0)

    @checked
    def act(self, g: Zoom, x: Tensor) -> Tensor:
        return g.factor * x + g.translation

    @checked
    def transform(self, rho: Representation, f: Tensor, g: Zoom) -> Tensor:
        """(π(t, s)f)(x) = f((x − t)/s) for samples ``(..., channels, height, width)``."""
        self._require_field(rho, f, ("height", "width"))
        return resample(f, _sources(g, f.shape[-2:]), border="zeros")


class ScaleSpace(Zooms):
    """Functions of position and scale: the group R² ⋊ R⁺ itself, sampled at the scales base^k, k = 0 … count − 1.

    A field is a tensor ``(..., channels, scales, height, width)``. It moves as (π(t, s)F)(σ, x) = F(σ/s, (x − t)/s): a
    scaling moves it along the axis of scales, by a whole number of samples if s is a power of the base. What lies
    outside the sampled scales counts as zero, so values near both ends of the axis are lost.

    Args:
        base: the ratio of neighboring scales, greater than 1.
        count: the number of scales.

    >>> scales = ScaleSpace(base=2**0.5, count=4)
    >>> [round(s, 2) for s in scales.scales], scales.field("8*trivial").dim
    ([1.0, 1.41, 2.0, 2.83], 8)
    """

    how_to_make = "Make one with intertwine.spaces.ScaleSpace(base=2**0.5, count=4)."

    @checked
    def __init__(self, *, base: float = 2**0.5, count: Positive = 4) -> None:
        super().__init__()
        if not (isfinite(base) and base > 1):
            raise InputError("ScaleSpace", expected="a base above 1", got=str(base))
        self.base, self.count = float(base), count
        self.name = f"ScaleSpace(base={base:.4g}, count={count})"
        self.digest = content_digest("scale space", self.base, count)

    @property
    def scales(self) -> tuple[float, ...]:
        """The sampled scales, from 1 up."""
        return tuple(self.base**k for k in range(self.count))

    @checked
    def project(self, g: Zoom) -> Zoom:
        return g

    @checked
    def section(self, x: Zoom) -> Zoom:
        return x

    @checked
    def act(self, g: Zoom, x: Zoom) -> Zoom:
        return self.compose(g, x)

    @checked
    def transform(self, rho: Representation, f: Tensor, g: Zoom) -> Tensor:
        """(π(t, s)F)(σ, x) = F(σ/s, (x − t)/s) for samples ``(..., channels, scales, height, width)``."""
        self._require_field(rho, f, (self.count, "height", "width"))
        moved = resample(f, _sources(g, f.shape[-2:]), border="zeros")
        steps = torch.arange(self.count, dtype=torch.float64) - log(g.factor) / log(self.base)
        whole = steps.round()  # powers of the base should not be off by rounding
        steps = torch.where((steps - whole).abs() < 1e-9, whole, steps)
        return resample(moved.movedim(-3, -1), steps[:, None], border="zeros").movedim(-1, -3)


def _sources(g: Zoom, sizes: Sequence[int]) -> Tensor:
    """The position g⁻¹x of each sample x, as array indices ``(height, width, 2)``."""
    center = (torch.tensor(list(sizes), dtype=torch.float64) - 1) / 2
    index = torch.stack(torch.meshgrid(*[torch.arange(n, dtype=torch.float64) for n in sizes], indexing="ij"), -1)
    return (index - center - g.translation) / g.factor + center
