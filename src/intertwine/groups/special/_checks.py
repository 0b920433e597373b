"""Checks of arguments that the Lie groups and their special functions share."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from ...errors import InputError


def require_whole(value: object, *, caller: str, name: str, least: int = 0) -> int:
    """The value as a whole number, at least ``least``.

    >>> require_whole(3, caller="example", name="degree")
    3
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(
            caller,
            expected=f"{name} a whole number, {least} or more",
            got=repr(value),
            fix=f"For example {name} = {least + 2}.",
        )
    return value


def require_shape(x: object, *shape: int, caller: str, what: str, fix: str) -> Tensor:
    """The tensor in float64, if its last dimensions are these.

    >>> require_shape(torch.zeros(5, 3), 3, caller="example", what="vectors", fix="").dtype
    torch.float64
    """
    return _shaped(x, shape, caller=caller, what=what, fix=fix).to(torch.float64)


def require_floats(x: object, *shape: int, caller: str, what: str, fix: str) -> Tensor:
    """The tensor in its own dtype, if its last dimensions are these; whole numbers in torch's default dtype.

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
    """Products in the dtype of their factors, also where autocast would round them."""
    known = torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if known else nullcontext()


def require_vectors(x: object, dim: int, *, caller: str) -> Tensor:
    """Vectors of this dimension in float64."""
    return require_shape(x, dim, caller=caller, what="vectors", fix="The last dimension holds the coordinates.")
