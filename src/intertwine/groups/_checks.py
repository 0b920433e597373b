"""Checks of arguments that the Lie groups and their special functions share."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError


def require_whole(value: object, *, who: str, name: str, least: int = 0) -> int:
    """The value as a whole number, at least ``least``.

    >>> require_whole(3, who="example", name="degree")
    3
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(
            who,
            expected=f"{name} a whole number, {least} or more",
            got=repr(value),
            fix=f"For example {name} = {least + 2}.",
        )
    return value


def require_shape(x: object, *shape: int, who: str, what: str, fix: str) -> Tensor:
    """The tensor in float64, if its last dimensions are these.

    >>> require_shape(torch.zeros(5, 3), 3, who="example", what="vectors", fix="").dtype
    torch.float64
    """
    if not isinstance(x, Tensor) or tuple(x.shape[-len(shape) :]) != shape:
        raise InputError(
            who,
            expected=f"{what}: a tensor of shape ({', '.join(map(str, ('...', *shape)))})",
            got=f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else repr(x),
            fix=fix,
        )
    return x.to(torch.float64)


def require_vectors(x: object, dim: int, *, who: str) -> Tensor:
    """Vectors of this dimension in float64."""
    return require_shape(x, dim, who=who, what="vectors", fix="The last dimension holds the coordinates.")
