"""Modules with constants that keep full precision through changes of dtype and device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor
from torch import nn as torch_nn


class TableModule(torch_nn.Module):
    """A module with constants that follow from the types and are therefore never saved.

    Each constant is a non-persistent buffer that follows ``.to()``. Its value always comes from the float64 original: a
    layer made in single precision is exact to 1e-15 after ``.double()``, and complete after ``to_empty()``.
    """

    def __init__(self) -> None:
        super().__init__()
        self._originals: dict[str, Tensor] = {}

    def register_table(self, name: str, value: Tensor) -> None:
        """Add a constant: integers as they are, floating point numbers in the default precision."""
        self._originals[name] = value
        here = value.to(torch.get_default_dtype()) if value.is_floating_point() else value
        self.register_buffer(name, here.to(torch.get_default_device()), persistent=False)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, value in self._originals.items():
            now = self.get_buffer(name)
            if now.device.type != "meta":
                self._buffers[name] = value.to(device=now.device, dtype=now.dtype)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"
