"""The outputs of a network on moved images, kept so that no image passes through the network twice."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..._digest import content_digest
from .._batches import as_tensor, require_finite

_ROOM = 2**26
"""How many numbers are kept in all: 256 megabytes in float32."""


class Outputs:
    """Class scores by motion and image.

    Two motions are the same if they map a random image to the same image: the mirror of ``hflip`` is also an element of
    ``D4``. Outputs with more axes than ``(n, scores)`` are too large, and are not kept.

    Args:
        model: the network.
        images: all images.
    """

    def __init__(self, model: nn.Module, images: Tensor) -> None:
        self.model = model
        self.count = len(images)
        generator = torch.Generator().manual_seed(0)
        self._probe = torch.rand(1, *images.shape[1:], generator=generator)
        self._kept: dict[str, tuple[Tensor, Tensor]] = {}

    def motion(self, move: Callable[[Tensor], Tensor]) -> str:
        """The key of a motion."""
        return content_digest(move(self._probe))

    def of(self, key: str, move: Callable[[Tensor], Tensor], x: Tensor, rows: Tensor) -> Tensor:
        """Φ(τx): the kept outputs of these rows if all are there, else from a pass through the network."""
        known = self.known(key, rows)
        return self.keep(key, rows, self.model(move(x))) if known is None else known.to(x.device)

    def known(self, key: str, rows: Tensor) -> Tensor | None:
        """The kept outputs of these rows; None if one of them is missing."""
        values, known = self._kept.get(key, (None, torch.zeros(self.count).bool()))
        return values[rows.cpu()] if values is not None and bool(known[rows.cpu()].all()) else None

    def keep(self, key: str, rows: Tensor, out: object) -> Tensor:
        """Keep the outputs of these rows, and return them."""
        scores = require_finite(as_tensor(out, caller="audit"), caller="audit")
        if scores.ndim == 2 and (key in self._kept or self._has_room(scores.shape[1])):
            values, known = self._kept.setdefault(
                key, (scores.new_empty(self.count, scores.shape[1], device="cpu"), torch.zeros(self.count).bool())
            )
            values[rows.cpu()], known[rows.cpu()] = scores.cpu(), True
        return scores

    def _has_room(self, scores: int) -> bool:
        return (len(self._kept) + 1) * self.count * scores <= _ROOM
