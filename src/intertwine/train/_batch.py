"""Functions of batches, which are nested tuples, lists and dictionaries of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor


def map_tensors(batch: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Apply ``function`` to every tensor of a nested structure; everything else is passed through."""
    if isinstance(batch, Tensor):
        return function(batch)
    if isinstance(batch, Mapping):
        return {key: map_tensors(value, function) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_tensors(value, function) for value in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(map_tensors(value, function) for value in batch)
    return batch


def named_tensors(batch: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor with its path, such as ``("0", images), ("1.label", labels)``."""
    if isinstance(batch, Tensor):
        yield name or "batch", batch
    elif isinstance(batch, (Mapping, tuple, list)):
        items = batch.items() if isinstance(batch, Mapping) else enumerate(batch)
        for key, value in items:
            yield from named_tensors(value, f"{name}.{key}" if name else str(key))


def batch_size(batch: Any) -> int:
    """The length of the first tensor that has one; 1 if there is none."""
    return next((len(tensor) for _, tensor in named_tensors(batch) if tensor.dim()), 1)
