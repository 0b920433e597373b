"""Trials of layers on the sphere."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..errors import InputError
from ..groups import SO3
from ..nn import Exact, Layer
from ..spaces import FieldType, SphereGrid, SpinTransform
from ._trial import Move, Trial

_BAND_LIMIT = 12


def sphere_trial(layer: Layer, noise: torch.Generator) -> Trial:
    """Random rotations of fields that the grid resolves; of smoother fields for a layer that is not exact."""
    if layer.companions:
        raise InputError(
            "assert_equivariant",
            expected="a layer on the sphere with one input",
            got=f"{type(layer).__name__}, which also takes {', '.join(part.name for part in layer.companions)}",
            fix="A second field would have to be band-limited; test the layer with both fields as one input.",
        )
    before = _grid(layer.fixed_sizes or SphereGrid("gauss-legendre", _BAND_LIMIT).shape)
    after = _grid(layer.output_sizes(before.shape)) if layer.keeps_space else None
    moves = [
        Move(
            f"random rotation {number}",
            "SO(3)",
            lambda f, g=g: layer.in_type.transform(f, g, grid=before),  # type: ignore[misc]
            # Means over the sphere are invariant.
            lambda f, g=g: f if after is None else layer.out_type.transform(f, g, grid=after),  # type: ignore[misc]
        )
        for number, g in enumerate(SO3().sample(3, noise))
    ]
    fields = _fields(layer.in_type, before, before.band_limit, noise)
    if isinstance(layer.claim, Exact):
        return Trial(before.shape, fields, moves)
    max_spin = max(SpinTransform(before, layer.in_type.rho).spins.spins)
    smooth = _fields(layer.in_type, before, max(max_spin, before.band_limit // 4), noise)
    return Trial(before.shape, fields, [], smooth, moves)


def _grid(sizes: Sequence[int]) -> SphereGrid:
    grid = SphereGrid.of_shape(*sizes)
    if grid is None:
        raise InputError(
            "assert_equivariant",
            expected="a layer between fields on grids of the sphere",
            got=f"sizes {tuple(sizes)}, which no grid has",
            fix="Use the sizes of Sphere().grid(kind, band_limit=L).",
        )
    return grid


def _fields(field: FieldType, grid: SphereGrid, band_limit: int, noise: torch.Generator) -> torch.Tensor:
    transform = SpinTransform(grid, field.rho, band_limit=band_limit)
    c = torch.randn(2, field.dim, transform.size, dtype=torch.float64, generator=noise)
    return transform.synthesis(c * transform.exists)
