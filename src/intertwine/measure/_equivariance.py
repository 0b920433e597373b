"""Networks whose output is again an image: does it move with the input?"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .._checked import Positive, checked
from ..errors import InputError
from ._batches import Fitting, Images, as_tensor, batches, measuring, require_finite
from ._estimate import Estimate, estimate
from ._invariance import relative_difference
from ._metrics import define
from ._symmetry import Symmetry
from ._transformation import Transformation, name_of, rank_of, transformations

define(
    "equivariance_error",
    "‖τΦ(x) − Φ(τx)‖ / (½‖τΦ(x)‖ + ½‖Φ(τx)‖), mean over τ ≠ 1",
    "",
    "lower",
    "relative difference between the transformed output and the output of the transformed input",
)


@checked
def equivariance_error(
    model: nn.Module,
    data: Images,
    symmetry: str | Symmetry | Transformation = "hflip",
    *,
    output: Transformation | None = None,
    batch_size: Positive = 128,
    most: int | None = None,
) -> Estimate:
    """‖τ'Φ(x) − Φ(τx)‖ relative to the mean of both norms, for networks from images to images.

    The output ``(n, c', h', w')`` is moved by the same maps as the input, as scalar fields, unless ``output`` says
    otherwise. Where a transformation resamples, the ``floor`` is ‖τ⁻¹τΦ(x) − Φ(x)‖ in the same measure, what moving the
    output alone costs.

    Args:
        model: any network from images to images.
        data: as for :func:`invariance_error`.
        symmetry: as for :func:`invariance_error`.
        output: how the output is to move, for a single transformation; None for the way of the input.
        batch_size: for data that come as one tensor.
        most: how many images to look at, at most.

    >>> blur = nn.AvgPool2d(3, 1, 1)
    >>> equivariance_error(blur, torch.rand(4, 3, 8, 8, dtype=torch.float64), "d4").mean < 1e-12
    True
    """
    maps = transformations(symmetry)
    moves = maps if output is None else [output] * len(maps)
    values: list[Tensor] = []
    floors: list[Tensor] = []
    with measuring(model) as device:

        def run(x: Tensor) -> tuple[Tensor, Tensor | None]:
            base = _like_input(model(x), x)
            errors, losses = [], []
            for t, move in zip(maps, moves, strict=True):
                errors.append(relative_difference(move(base), _like_input(model(t(x)), x)))
                if not move.exact and move.inverse is not None:
                    losses.append(relative_difference(move.inverse(move(base)), base))
            return torch.stack(errors).mean(0), torch.stack(losses).mean(0) if losses else None

        fit = Fitting("equivariance_error", device)
        for images, *_ in batches(
            data, who="equivariance_error", batch_size=batch_size, most=most, rank=rank_of(symmetry)
        ):
            for found, floor in fit(run, images):
                values.append(found)
                if floor is not None:
                    floors.append(floor)
    return estimate("equivariance_error", values, floor=floors or None, of=name_of(symmetry))


def _like_input(out: object, x: Tensor) -> Tensor:
    found = as_tensor(out, who="equivariance_error")
    if found.ndim != x.ndim:
        raise InputError(
            "equivariance_error",
            expected="a network whose output is images (n, c, h, w)"
            if x.ndim == 4
            else f"a network whose output has {x.ndim} axes, like its input",
            got=f"shape {tuple(found.shape)}",
            fix="For scores of classes use invariance_error.",
        )
    return require_finite(found, who="equivariance_error")
