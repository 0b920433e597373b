"""Does the output of a network, an image or a vector, move with its input?"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ...errors import InputError
from .._batches import Fitting, Images, as_tensor, batches, measuring, require_finite
from .._estimate import Estimate, estimate
from .._symmetry import Output, SymmetryLike, parse_symmetry
from .._transformation import Transformation, name_of, output_transformation, rank_of, transformations
from ._invariance import relative_difference
from ._metric import define

_WHO = "equivariance_error"

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
    symmetry: SymmetryLike | Transformation = "hflip",
    *,
    output: Output | Transformation | None = None,
    batch_size: Positive = 128,
    max_images: Positive | None = None,
) -> Estimate:
    """‖τ'Φ(x) − Φ(τx)‖ relative to the mean of both norms, for networks whose output moves with the input.

    Outputs with spatial axes ``(n, c', h', w')`` move as scalar fields unless ``output`` gives their type. If an
    element resamples the output, the ``floor`` is the relative error ‖τ⁻¹τΦ(x) − Φ(x)‖ of moving the output alone.

    Args:
        model: any network.
        data: as for :func:`invariance_error`.
        symmetry: as for :func:`invariance_error`.
        output: the type of the output: a field type such as ``Grid2d("D4").field("irrep1")`` for flow or wind, or the
            name of a representation such as ``"irrep1"``, which also works for vectors ``(n, k)``. For a single
            transformation: the transformation of the output.
        batch_size: images per batch, for data given as one tensor.
        max_images: the maximum number of images to use.

    >>> blur = nn.AvgPool2d(3, 1, 1)
    >>> images = torch.rand(4, 3, 8, 8, dtype=torch.float64)
    >>> equivariance_error(blur, images, "D4").mean < 1e-12
    True
    >>> class Slope(nn.Module):
    ...     def forward(self, x):  # to the right and upward
    ...         return torch.cat([x.roll(-1, -1) - x.roll(1, -1), x.roll(1, -2) - x.roll(-1, -2)], 1)
    >>> equivariance_error(Slope(), images[:, :1], "D4", output="irrep1").mean < 1e-12
    True
    >>> equivariance_error(Slope(), images[:, :1], "D4").mean > 0.5  # slopes are not scalars
    True
    """
    moved_by = _moves(symmetry, output)
    maps = transformations(symmetry)
    values: list[Tensor] = []
    floors: list[Tensor] = []
    with measuring(model) as device:

        def run(x: Tensor) -> tuple[Tensor, Tensor | None]:
            base = _finite(model(x))
            errors, losses = [], []
            for t, move in zip(maps, moved_by(base, len(maps)), strict=True):
                errors.append(relative_difference(move(base), _finite(model(t(x)))))
                if not move.exact and move.inverse is not None:
                    losses.append(relative_difference(move.inverse(move(base)), base))
            return torch.stack(errors).mean(0), torch.stack(losses).mean(0) if losses else None

        fit = Fitting(_WHO, device)
        for images, *_ in batches(
            data, caller=_WHO, batch_size=batch_size, max_images=max_images, rank=rank_of(symmetry)
        ):
            for error, floor in fit(run, images):
                values.append(error)
                if floor is not None:
                    floors.append(floor)
    return estimate(_WHO, values, floor=floors or None, of=name_of(symmetry))


def _moves(
    symmetry: SymmetryLike | Transformation, output: Output | Transformation | None
) -> Callable[[Tensor, int], list[Transformation]]:
    """A function that maps an output and the number of elements to how each element moves the output."""
    if isinstance(output, Transformation):
        return lambda base, count: [output] * count
    if isinstance(symmetry, Transformation):
        if output is not None:
            raise InputError(_WHO, expected="output= as a Transformation, like the symmetry", got=f"{output!r}, a type")
        return lambda base, count: [symmetry] * count
    parsed = parse_symmetry(symmetry, output=output)
    return lambda base, count: [output_transformation(parsed, g, base, caller=_WHO) for g in range(1, parsed.order)]


def _finite(out: object) -> Tensor:
    return require_finite(as_tensor(out, caller=_WHO), caller=_WHO)
