"""Computing tables on the CPU, and switching autocast off, whatever device a layer is on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, wraps
from types import FunctionType
from typing import Any, ParamSpec, Self, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")


def on_cpu(compute: Callable[P, R]) -> Callable[P, R]:
    """Decorator: run a function with the CPU as the default device, whatever default device is set."""

    @wraps(compute)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        # A default device is a torch function mode. Checking for modes first is cheap; get_default_device is not.
        if not torch._C._len_torch_function_stack() or torch.get_default_device().type == "cpu":
            return compute(*args, **kwargs)
        with torch.device("cpu"):
            return compute(*args, **kwargs)

    return run


class OnCPU:
    """Base class of mathematical objects: all their methods and properties compute on the CPU.

    Their tables are read entry by entry and cached. Without this class, a group created or first used under
    ``torch.device("meta")`` or ``torch.set_default_device("cuda")`` would hold tables on two devices.

    They never change, so a deep copy of a layer shares them with the original.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, member in list(vars(cls).items()):
            if name in _COMPUTING or not name.startswith("__"):
                moved = _moved(member)
                if moved is not member:
                    setattr(cls, name, moved)
                    if isinstance(moved, cached_property):
                        moved.__set_name__(cls, name)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


_COMPUTING = ("__init__", "__post_init__", "__call__")


def _moved(member: Any) -> Any:
    """The class member, wrapped to run on the CPU."""
    if isinstance(member, FunctionType):
        return on_cpu(member)
    if isinstance(member, classmethod | staticmethod):
        return type(member)(on_cpu(member.__func__))
    if isinstance(member, cached_property):
        return cached_property(on_cpu(member.func))
    if isinstance(member, property) and member.fget is not None:
        return property(on_cpu(member.fget), member.fset, member.fdel, member.__doc__)
    return member


def autocast_rounds(x: Tensor) -> bool:
    """Whether autocast is on for the device of x. Some devices, such as ``meta``, don't support it."""
    device = x.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def rounded_as_autocast(x: Tensor) -> Tensor:
    """x in the dtype that autocast computes products in: for layers that copy x several times before they multiply.

    Autocast leaves float64 alone.
    """
    return x.to(torch.get_autocast_dtype(x.device.type)) if autocast_rounds(x) and x.dtype != torch.float64 else x


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """A context in which autocast does not round products of tensors on the device of x."""
    return torch.autocast(x.device.type, enabled=False) if autocast_rounds(x) else nullcontext()
