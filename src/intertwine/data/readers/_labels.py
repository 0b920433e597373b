"""Checks of labels, shared by all readers."""

from __future__ import annotations

from torch import Tensor

from ...errors import InputError


def require_labels(caller: str, labels: Tensor, *, images: int, classes: int | None = None) -> Tensor:
    """The labels as int64, one for each image, from 0 up to the number of classes."""
    if len(labels) != images:
        raise InputError(
            caller,
            expected=f"one label for each of {images} images",
            got=f"{len(labels)} labels",
            fix="Use the files that belong together.",
        )
    labels = labels.long()
    if len(labels):
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or (classes is not None and high >= classes):
            bound = f"labels from 0 to {classes - 1}" if classes is not None else "labels from 0 on"
            at = int((labels < 0).nonzero()[0]) if low < 0 else int(labels.argmax())
            raise InputError(
                caller,
                expected=bound,
                got=f"label {int(labels[at])} at position {at} (out of range)",
                fix="Check that this is the dataset meant, and that classes are counted from 0.",
            )
    return labels
