"""Does the predicted class survive shifts of a few pixels?"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ..._checked import Positive, checked
from ...errors import InputError
from .._batches import Fitting, Images, as_tensor, batches, measuring, require_finite
from .._estimate import Estimate, estimate
from ._metric import define

define(
    "shift_consistency",
    "1 if argmax Φ(s x) = argmax Φ(s' x) for two random shifts s, s', else 0",
    "",
    "higher",
    "share of images whose predicted class is the same after two random shifts",
)


@checked
def shift_consistency(
    model: nn.Module,
    data: Images,
    *,
    shift: Positive = 4,
    border: Literal["reflect", "circular"] = "reflect",
    seed: int = 0,
    batch_size: Positive = 128,
    max_images: Positive | None = None,
) -> Estimate:
    """Agreement of the predicted class between two random shifts of each image by up to ``shift`` pixels.

    The image is extended by reflection, or periodically, and two windows are cut out. Nothing is interpolated, so there
    is no floor.

    Args:
        model: any classifier.
        data: as for :func:`invariance_error`.
        shift: the maximum shift in pixels.
        border: how the image is extended.
        seed: the seed for drawing the shifts, two per batch.
        batch_size: images per batch, for data given as one tensor.
        max_images: the maximum number of images to use.

    >>> mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> shift_consistency(mean, torch.rand(8, 3, 8, 8), border="circular").mean
    1.0
    """
    generator = torch.Generator().manual_seed(seed)
    values: list[Tensor] = []
    with measuring(model) as device:

        def run(x: Tensor) -> Tensor:
            if 2 * shift > min(x.shape[-2:]):
                raise InputError(
                    "shift_consistency",
                    expected="a shift of at most half the image size",
                    got=f"{shift} for images of {x.shape[-2]} x {x.shape[-1]}",
                )
            wide = pad(x, (shift,) * 4, mode=border)
            classes = []
            for a, b in corners:
                window = wide[..., a : a + x.shape[-2], b : b + x.shape[-1]]
                out = require_finite(as_tensor(model(window), caller="shift_consistency"), caller="shift_consistency")
                classes.append(out.argmax(1, keepdim=True))
            return (classes[0] == classes[1]).double().flatten(1).mean(1)

        fit = Fitting("shift_consistency", device)
        for images, *_ in batches(data, caller="shift_consistency", batch_size=batch_size, max_images=max_images):
            # Drawn here, not in run, so that a batch cut into pieces keeps its shifts.
            corners = torch.randint(2 * shift + 1, (2, 2), generator=generator).tolist()
            values += fit(run, images)
    return estimate("shift_consistency", values, of=f"shifts up to {shift}")
