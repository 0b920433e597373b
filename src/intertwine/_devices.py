"""Where tables are computed, and whether autocast rounds products, on whatever device a layer lives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, wraps
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")


def on_cpu(compute: Callable[P, R]) -> Callable[P, R]:
    """Run a computation of tables on the CPU, also under ``torch.device(...)`` or another default device."""

    @wraps(compute)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        # A default device is a mode. Asking which one takes microseconds, and most of the time there is none.
        if not torch._C._len_torch_function_stack() or torch.get_default_device().type == "cpu":
            return compute(*args, **kwargs)
        with torch.device("cpu"):
            return compute(*args, **kwargs)

    return run


class OnCPU:
    """Base of mathematical values: all their methods and properties compute on the CPU.

    Their tables are read value by value and kept in caches. A group that is made, or first used, under
    ``torch.device("meta")`` or ``torch.set_default_device("cuda")`` would otherwise hold tables on two devices.
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


_COMPUTING = ("__init__", "__post_init__", "__call__")


def _moved(member: Any) -> Any:
    """The same member of a class, run on the CPU."""
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
    """Whether autocast is on for the device of x; some devices, such as ``meta``, have none."""
    device = x.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """A context in which products of tensors on the device of x are not rounded."""
    return torch.autocast(x.device.type, enabled=False) if autocast_rounds(x) else nullcontext()
