"""Checks on labels, shared by all readers."""

from __future__ import annotations

from torch import Tensor

from ...errors import InputError


def require_labels(caller: str, labels: Tensor, *, images: int, classes: int | None = None) -> Tensor:
    """Return labels as int64; raise an error unless there is one per image and all are valid classes."""
    if len(labels) != images:
        raise InputError(
            caller,
            expected=f"{images} labels, one per image",
            got=f"{len(labels)} labels",
        )
    labels = labels.long()
    if len(labels):
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or (classes is not None and high >= classes):
            bound = f"labels from 0 to {classes - 1}" if classes is not None else "labels from 0 on"
            position = int((labels < 0).nonzero()[0]) if low < 0 else int(labels.argmax())
            raise InputError(
                caller,
                expected=bound,
                got=f"label {int(labels[position])} at position {position} (out of range)",
                fix="Check that this is the right dataset, and that classes count from 0.",
            )
    return labels
