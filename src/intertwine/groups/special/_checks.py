"""Argument checks shared by the Lie groups and their special functions."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from ...errors import InputError


def require_whole(value: object, *, caller: str, name: str, minimum: int = 0) -> int:
    """Return the value if it is a whole number of at least ``minimum``; raise an error otherwise.

    >>> require_whole(3, caller="example", name="degree")
    3
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise InputError(caller, expected=f"{name} to be a whole number of {minimum} or more", got=repr(value))
    return value


def require_shape(x: object, *shape: int, caller: str, what: str, fix: str) -> Tensor:
    """Convert a tensor to float64; raise an error unless its last axes have these sizes.

    >>> require_shape(torch.zeros(5, 3), 3, caller="example", what="vectors", fix="").dtype
    torch.float64
    """
    return _shaped(x, shape, caller=caller, what=what, fix=fix).to(torch.float64)


def require_floats(x: object, *shape: int, caller: str, what: str, fix: str) -> Tensor:
    """Return a floating-point tensor unchanged, and integers in torch's default dtype; raise an error for other shapes.

    >>> require_floats(torch.zeros(5, 3, dtype=torch.int64), 3, caller="example", what="vectors", fix="").dtype
    torch.float32
    """
    x = _shaped(x, shape, caller=caller, what=what, fix=fix)
    if x.is_complex():
        raise InputError(caller, expected=f"real {what}", got=str(x.dtype), fix="Take the real part first.")
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


def _shaped(x: object, shape: tuple[int, ...], *, caller: str, what: str, fix: str) -> Tensor:
    if not isinstance(x, Tensor) or tuple(x.shape[-len(shape) :]) != shape:
        raise InputError(
            caller,
            expected=f"{what}: a tensor of shape ({', '.join(map(str, ('...', *shape)))})",
            got=f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else repr(x),
            fix=fix,
        )
    return x


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context in which products keep the dtype of their factors, even under autocast."""
    known = torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if known else nullcontext()


def require_vectors(x: object, dim: int, *, caller: str) -> Tensor:
    """Convert vectors of this dimension to float64; raise an error for other shapes."""
    return require_shape(x, dim, caller=caller, what="vectors", fix="The last axis holds the coordinates.")
