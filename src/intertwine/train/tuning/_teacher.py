"""The loss of a symmetric network against its teacher: the original network, as it is or averaged over the group."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...measure import Symmetrized
from ...measure.surgery import GroupAverage

OutputLoss = Callable[[Tensor, Tensor], Tensor]
"""A loss of the outputs of the network and of its teacher, a mean over the batch."""

Teacher = Literal["average", "original"]
"""The original network, averaged over the group or as it is."""


def teacher_of(twin: Symmetrized, name: Teacher) -> nn.Module:
    """A copy of the original network in evaluation mode, which can move to another device."""
    original = copy.deepcopy(twin.original)
    return (GroupAverage(original, twin.matching.symmetry) if name == "average" else original).eval()


@dataclass
class TeacherLoss:
    """The loss for :func:`fit`, from a batch of images, or of images and labels.

    Args:
        teacher: the network to follow, in evaluation mode.
        loss: compares outputs with those of the teacher.
        label_weight: the share of the cross entropy with the labels.
    """

    teacher: nn.Module
    loss: OutputLoss
    label_weight: float

    def __call__(self, model: nn.Module, batch: Any) -> Tensor:
        """The loss of one batch. The teacher sees the same images."""
        images, labels = batch if isinstance(batch, tuple | list) and len(batch) > 1 else (_first(batch), None)
        out = _full(model(images))
        value = torch.zeros((), device=images.device)
        if self.label_weight < 1:
            with torch.no_grad():
                target = self.teacher.to(images.device)(images)
            value = value + (1 - self.label_weight) * self.loss(out, _full(target))
        if self.label_weight > 0:
            require_classes(out, labels)
            value = value + self.label_weight * nn.functional.cross_entropy(out, labels)
        return value


def _full(out: Tensor) -> Tensor:
    """Outputs of mixed precision in float32, because the loss is a difference of similar numbers."""
    return out.float() if out.dtype in (torch.bfloat16, torch.float16) else out


def _first(batch: Any) -> Any:
    return batch[0] if isinstance(batch, tuple | list) else batch


def require_classes(out: Tensor, labels: Tensor | None) -> None:
    """Raise an error unless there is one label per image, and one output per label."""
    if labels is None:
        raise InputError(
            "tune", expected="images and labels, for label_weight > 0", got="images only", fix="Give (images, labels)."
        )
    if out.dim() != 2 or labels.dim() != 1 or labels.is_floating_point():
        got = f"outputs of shape {tuple(out.shape)}, and labels of shape {tuple(labels.shape)} and type {labels.dtype}"
        raise InputError("tune", expected="class scores and one label per image, for label_weight > 0", got=got)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= out.shape[1]:
        raise InputError(
            "tune",
            expected=f"labels from 0 to {out.shape[1] - 1}, one per output of the network",
            got=f"labels from {low} to {high}",
            fix="Check the number of classes of the network.",
        )
