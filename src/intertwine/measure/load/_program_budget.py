"""What a program of unknown origin may cost, worked out on shapes before anything is allocated.

A file of a few hundred bytes can ask for a tensor of terabytes. Before a program sees images of a new shape, it is run
on tensors without content; a step whose result is too large, or a program that takes too much work, is refused.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..._numerics import memory_limit
from ...errors import InputError, SizeLimitError

MOST_WORK = 10**13
"""Multiplications, or numbers written, for one image; the largest networks for images need some 10^12."""

MOST_PIECES = 10**5
"""Into which one step may split a tensor."""

_TRUST = "If you trust whoever made the file, --trust runs it all the same."
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


class Budget:
    """The costs of one program.

    Args:
        caller: the file, for messages.
    """

    def __init__(self, caller: str) -> None:
        self.caller = caller
        self._fine: set[tuple[tuple[int, ...], torch.dtype, torch.device]] = set()

    def require(self, program: fx.GraphModule, x: Tensor) -> None:
        """Refuse a program that would take too much memory or time for these images."""
        key = shape, _, _ = tuple(x.shape), x.dtype, x.device
        if key in self._fine:
            return
        work = self._work(program, *key) // max(shape[0] if shape else 1, 1)
        if work > MOST_WORK:
            raise SizeLimitError(
                self.caller, expected=f"at most {MOST_WORK:.0e} operations for an image", got=f"{work:.1e}", fix=_TRUST
            )
        self._fine.add(key)

    def _work(self, program: fx.GraphModule, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> int:
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.utils.flop_counter import FlopCounterMode

        counter, watch = FlopCounterMode(display=False), _Watch(self.caller)
        try:
            # Whoever watches the network, by hooks or by transforms, is not to see tensors without content.
            with (
                _without_hooks(program),
                torch._C.DisableTorchFunction(),
                torch._C._DisableFuncTorch(),
                torch.no_grad(),
                FakeTensorMode() as mode,
                counter,
                watch,
            ):
                _DryRun(program, mode).run(torch.empty(shape, dtype=dtype, device=device))
        except SizeLimitError:
            raise
        except Exception as error:
            reason = str(error).strip()
            raise InputError(
                self.caller,
                expected="a program that takes these images, and whose sizes follow from their shape",
                got=f"shape {shape}: {reason.splitlines()[-1] if reason else type(error).__name__}",
                fix="Check the size and the channels of the images, or export the network with a dynamic batch.",
            ) from None
        return watch.work + int(counter.get_total_flops()) // 2


class _DryRun(fx.Interpreter):
    """Runs a program with its weights, too, as tensors without content: none is read, and none is written to."""

    def __init__(self, program: fx.GraphModule, mode: Any) -> None:
        super().__init__(program)
        self.mode = mode

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        found = self.fetch_attr(target)
        return self.mode.from_tensor(found) if isinstance(found, Tensor) else found


@contextmanager
def _without_hooks(program: nn.Module) -> Iterator[None]:
    kept = [(module, name, getattr(module, name)) for module in program.modules() for name in _HOOKS]
    try:
        for module, name, _ in kept:
            setattr(module, name, OrderedDict())
        yield
    finally:
        for module, name, hooks in kept:
            setattr(module, name, hooks)


class _Watch(TorchDispatchMode):
    """Sees the shape of every result, and adds up the work."""

    def __init__(self, caller: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.caller, self.limit, self.work = caller, memory_limit(), 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = func.__name__.partition(".")[0]
        if (pieces := _pieces(name, args)) > MOST_PIECES:
            raise SizeLimitError(
                self.caller, expected=f"at most {MOST_PIECES} pieces of a tensor", got=f"{pieces}", fix=_TRUST
            )
        out = func(*args, **(kwargs or {}))
        for value in tree_leaves(out):
            if isinstance(value, Tensor):
                self._count(name, args, value)
        return out

    def _count(self, name: str, args: Sequence[Any], value: Tensor) -> None:
        if value.numel() * value.element_size() > self.limit:
            raise SizeLimitError(
                self.caller,
                expected=f"results of at most {self.limit} bytes",
                got=f"{name} with a result of shape {tuple(value.shape)}",
                fix=f"{_TRUST} (INTERTWINE_MEMORY_LIMIT moves the limit.)",
            )
        self.work += value.numel() * _each(name, args)


def _pieces(name: str, args: Sequence[Any]) -> int:
    """Into how many a step splits its first argument; 1 for most steps."""
    if name not in ("unbind", "split", "unsafe_split", "unbind_copy", "split_copy") or not isinstance(args[0], Tensor):
        return 1
    axis = (args[1] if len(args) > 1 else 0) if "unbind" in name else (args[2] if len(args) > 2 else 0)
    length = args[0].shape[axis] if args[0].dim() else 1
    return int(length if "unbind" in name else -(-length // max(int(args[1]), 1)))


def _each(name: str, args: Sequence[Any]) -> int:
    """Roughly, what one number of the result costs, where torch's own counter does not know it."""
    first = args[0] if args and isinstance(args[0], Tensor) else None
    if "pool" in name and "adaptive" not in name and len(args) > 1 and isinstance(args[1], list | tuple):
        return max(int(prod(args[1])), 1)
    if first is not None and first.dim() and ("linalg" in name or name in ("cdist", "_cdist_forward", "cholesky")):
        return 20 * max(first.shape[-1], 1)
    return 1
