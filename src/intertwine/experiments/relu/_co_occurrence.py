"""Features that come in mirrored pairs need no mirrored filters: ours, after example C.2 of Bökman & Kahl (2023)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ...measure import invariance_error

_SIZE = 16


@checked
@dataclass(frozen=True)
class CoOccurrence:
    """A network that is invariant on its data and yet not layerwise equivariant.

    Attributes:
        network: one filter, ReLU, the maximum over the image: it finds the pattern, and ignores the pattern's mirror
            image.
        images: ``(n, 1, 16, 16)``, each with the pattern at one place and its mirror image at another.
        alone: the same images without the mirror image of the pattern.
        error: the invariance error on ``images``: 0.
        error_alone: the invariance error on ``alone``: 2, as the network sees the pattern in an image or in its mirror
            image, but not in both.
        merged: the share of the network's output on ``images`` that is left if its filter is replaced by the mean of
            the filter and its mirror image, as a group-convolutional network with one channel needs: 0.
    """

    network: nn.Module
    images: Tensor
    alone: Tensor
    error: float
    error_alone: float
    merged: float


@checked
def co_occurring_features(images: Positive = 64, *, seed: int = 0) -> CoOccurrence:
    """A pattern and its mirror image always appear together, like the left and the right eye in a face.

    Finding one of the two is then enough, and mirroring an image changes nothing: the mirror image of the other one
    takes its place. So a network can be invariant on its data without filters that come in mirrored pairs, and
    averaging it with its mirror image is harmful.

    >>> example = co_occurring_features(8)
    >>> example.error, round(example.error_alone, 6), example.merged
    (0.0, 2.0, 0.0)
    """
    generator = torch.Generator().manual_seed(seed)
    pattern = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    together = torch.zeros(images, 1, _SIZE, _SIZE)
    alone = torch.zeros_like(together)
    for one, both in zip(alone, together, strict=True):
        top, bottom = torch.randint(_SIZE // 2 - 3, (2,), generator=generator).tolist()
        left, right = torch.randint(_SIZE - 3, (2,), generator=generator).tolist()
        for image in (one, both):
            image[0, top : top + 3, left : left + 3] = pattern
        both[0, _SIZE // 2 + bottom : _SIZE // 2 + bottom + 3, right : right + 3] = pattern.flip(1)
    # It fires where the image agrees with the pattern in all pixels, and stays at 0 where any is missing.
    kernel, bias = pattern - 0.5 * (pattern == 0), 1 - float(pattern.sum())
    network, merged = _finder(kernel, bias), _finder((kernel + kernel.flip(1)) / 2, bias)
    with torch.no_grad():
        left_over = float((merged(together) / network(together)).mean())
    return CoOccurrence(
        network,
        together,
        alone,
        invariance_error(network, together, "hflip").mean,
        invariance_error(network, alone, "hflip").mean,
        left_over,
    )


def _finder(kernel: Tensor, bias: float) -> nn.Sequential:
    conv = nn.Conv2d(1, 1, 3)
    with torch.no_grad():
        conv.weight.copy_(kernel[None, None])
        nn.init.constant_(conv.bias, bias)  # type: ignore[arg-type]
    return nn.Sequential(conv, nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten())
