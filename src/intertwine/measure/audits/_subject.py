"""The network and the images of an audit, and which of the images each part of the audit uses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..._checked import Positive
from ...errors import InputError, IntertwineError
from .._batches import Fitting, as_tensor, measuring
from ..graph._channel_graph import ChannelGraph, channel_graph
from ..matching._match import Correlations
from ._outputs import Outputs

if TYPE_CHECKING:
    from ._shards import Shards

DETAIL_IMAGES = 384
"""How many images the layers, shifts and channels are measured on by default."""


@dataclass(frozen=True, eq=False)
class Subject:
    """The network and the data of an audit.

    Attributes:
        model: any network from images to scores, or to images.
        images: ``(n, c, h, w)``, normalized for the network.
        labels: ``(n,)``, if there are any.
        dense: whether the output is images.
        classes: the number of class scores; None if the output is not a list of scores.
        batch_size: images per batch.
        detail_images: the maximum number of images for everything but the output of the whole network.
        shards: where the images are, if they are split across machines.
        details: the rows of the images for details, if this is a shard of other images.
    """

    model: nn.Module
    images: Tensor
    labels: Tensor | None
    dense: bool
    classes: int | None = None
    batch_size: Positive = 64
    detail_images: Positive = DETAIL_IMAGES
    shards: Shards | None = None
    details: Tensor | None = None

    @staticmethod
    def of(
        model: nn.Module,
        images: Tensor,
        labels: Tensor | None = None,
        *,
        batch_size: Positive = 64,
        detail_images: Positive = DETAIL_IMAGES,
    ) -> Subject:
        """Run one image to find out what kind of output the network has."""
        with measuring(model) as device:
            try:
                out = Fitting("audit", device)(lambda x: as_tensor(model(x), caller="audit"), images[:1])[0]
            except (RuntimeError, ValueError, TypeError) as error:
                if isinstance(error, IntertwineError):
                    raise
                raise InputError(
                    "audit",
                    expected="images that the network accepts",
                    got=f"{' x '.join(map(str, images.shape[1:]))}, which fails with: {str(error).splitlines()[0]}",
                    fix="Check the channels and size of the images, and the arguments of the network.",
                ) from error
        dense = out.ndim == images.ndim > 2 and max(out.shape[2:]) > 1
        classes = out.shape[1] if out.ndim == 2 else None
        if labels is not None and classes is not None:
            _require_classes(labels, classes)
        return Subject(model, images, labels, dense, classes, batch_size, detail_images)

    def first(self, number: int) -> Subject:
        """The same with fewer images."""
        labels = None if self.labels is None else self.labels[:number]
        return replace(self, images=self.images[:number], labels=labels)

    @property
    def graph(self) -> ChannelGraph:
        """The channel graph. Tracing a network takes seconds, so all steps and symmetries share one."""
        if isinstance(self._traced, IntertwineError):
            raise self._traced
        return self._traced

    @cached_property
    def _traced(self) -> ChannelGraph | IntertwineError:
        try:
            return channel_graph(self.model, tuple(self.images.shape[1:]))
        except IntertwineError as error:  # kept, so that the next step does not try again
            return error

    def part(self, start: int, stop: int) -> Subject:
        """Some of the images, with those of the details that are among them."""
        rows = self.detail_rows
        return replace(
            self,
            images=self.images[start:stop].clone(),  # a view would be sent with all images
            labels=None if self.labels is None else self.labels[start:stop].clone(),
            details=rows[(start <= rows) & (rows < stop)] - start,
            shards=None,
        )

    @cached_property
    def outputs(self) -> Outputs:
        """The class scores so far, shared by all symmetries."""
        return Outputs(self.model, self.images)

    @cached_property
    def correlations(self) -> dict[str, Correlations]:
        """The correlations of channels, by symmetry, from the first step that needs them to the last."""
        return {}

    @property
    def is_plane(self) -> bool:
        """Whether the input is images rather than signals, volumes, sets or vectors."""
        return self.images.ndim == 4

    @property
    def classifies(self) -> bool:
        """Whether there are class scores, and labels to compare them with."""
        return self.labels is not None and self.classes is not None

    @cached_property
    def detail_rows(self) -> Tensor:
        """The rows of the images for details: all of them if there are few, else a random choice."""
        if self.details is not None:
            return self.details
        n = len(self.images)
        return torch.arange(n) if n <= self.detail_images else self._shuffled[: self.detail_images].sort().values

    @cached_property
    def detail(self) -> Tensor:
        """The images for details."""
        return self.images if len(self.detail_rows) == len(self.images) else self.images[self.detail_rows]

    @cached_property
    def halves(self) -> tuple[Tensor, Tensor]:
        """Rows of two sets of images that do not overlap: one to match channels and fit statistics, one to score."""
        order = self._shuffled[: len(self.detail_rows)]
        middle = (len(order) + 1) // 2
        return order[:middle].sort().values, order[middle:].sort().values

    @cached_property
    def _shuffled(self) -> Tensor:
        # Random, because data is often sorted by class.
        return torch.randperm(len(self.images), generator=torch.Generator().manual_seed(0))


def _require_classes(labels: Tensor, classes: int) -> None:
    """Raise an error if a label is not the index of a class score: its accuracy would be 0 without a word."""
    whole = not labels.is_floating_point() and not labels.is_complex()
    if whole and int(labels.min()) >= 0 and int(labels.max()) < classes:
        return
    got = f"labels from {int(labels.min())} to {int(labels.max())}" if whole else f"labels of {labels.dtype}"
    raise InputError(
        "audit",
        expected=f"labels from 0 to {classes - 1}, one per score of the network",
        got=got,
        fix="Check the number of classes and their order, or audit without labels "
        "(--no-labels; in Python, give the images alone).",
    )
