"""Images on the sphere."""

from __future__ import annotations

import torch
from torch import Tensor

from .._checked import checked
from ..errors import InputError
from ..groups import SO3
from ..spaces import SphereGrid, resample


@checked
def onto_sphere(images: Tensor, generator: torch.Generator, *, grid: SphereGrid, rotate: bool = False) -> Tensor:
    """Project images onto the northern hemisphere, and sample them on a grid; with ``rotate``, at a random rotation.

    The projection is stereographic, from the south pole: it keeps angles, so shapes are not distorted. The center of
    the image comes to the north pole and the middles of its sides to the equator. The southern hemisphere is 0.

    Args:
        images: one image ``(channels, height, width)`` or a batch, float.
        generator: draws the rotations, one per image, uniformly from SO(3).
        grid: the points of the sphere.
        rotate: whether to rotate the result.

    Returns:
        ``(..., channels, n_beta, n_alpha)``.

    >>> grid = SphereGrid("equiangular", 7)
    >>> onto_sphere(torch.ones(5, 1, 8, 8), torch.Generator(), grid=grid, rotate=True).shape
    torch.Size([5, 1, 16, 16])
    """
    if images.ndim not in (3, 4) or not images.is_floating_point():
        raise InputError(
            "onto_sphere",
            expected="an image (channels, height, width) of floating-point numbers, or a batch of them",
            got=f"{images.dtype} {tuple(images.shape)}",
        )
    batch = images if images.ndim == 4 else images[None]
    points = grid.points.to(batch)
    if rotate:
        # A rotated image has at x the value that was at g⁻¹x.
        g = SO3().sample(len(batch), generator).to(batch)
        points = torch.einsum("nji,abj->nabi", g, points)
    x, y, z = points.unbind(-1)
    north = z > 0
    scale = 1 / (1 + z.clamp_min(0))
    middle = torch.tensor([(n - 1) / 2 for n in batch.shape[-2:]], dtype=batch.dtype)
    index = middle * (1 + torch.stack([-y * scale, x * scale], -1))  # rows count from the top
    index = index.where(north[..., None], -2.0)
    out = resample(batch, index, border="zeros", interpolation="linear")
    return out if images.ndim == 4 else out[0]
