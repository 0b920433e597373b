"""The cost of an untrusted program, computed from shapes before anything is allocated.

A file of a few hundred bytes can ask for a tensor of terabytes. Before a program sees images of a new shape, it runs on
fake tensors without data. A step whose result is too large, or a program that takes too much work, is refused.
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

MAX_WORK = 10**13
"""The maximum number of multiplications, or numbers written, per image; the largest image networks need about 10^12."""

MAX_PIECES = 10**5
"""The maximum number of pieces that one step may split a tensor into."""

_TRUST = "If you trust the author of the file, --trust runs it anyway."
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


class Budget:
    """The cost of one program.

    Args:
        caller: the file, for error messages.
    """

    def __init__(self, caller: str) -> None:
        self.caller = caller
        self._accepted: set[tuple[tuple[int, ...], torch.dtype, torch.device]] = set()

    def require(self, program: fx.GraphModule, x: Tensor) -> None:
        """Refuse a program that would take too much memory or time for these images."""
        key = shape, _, _ = tuple(x.shape), x.dtype, x.device
        if key in self._accepted:
            return
        work = self._work(program, *key) // max(shape[0] if shape else 1, 1)
        if work > MAX_WORK:
            raise SizeLimitError(
                self.caller, expected=f"at most {MAX_WORK:.0e} operations per image", got=f"{work:.1e}", fix=_TRUST
            )
        self._accepted.add(key)

    def _work(self, program: fx.GraphModule, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> int:
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.utils.flop_counter import FlopCounterMode

        counter, watch = FlopCounterMode(display=False), _Watch(self.caller)
        try:
            # Hooks and transforms on the network must not see the fake tensors.
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
                expected="a program that accepts these images, and whose sizes follow from their shape",
                got=f"shape {shape}: {reason.splitlines()[-1] if reason else type(error).__name__}",
                fix="Check the size and the channels of the images, or export the network with a dynamic batch.",
            ) from None
        return watch.work + int(counter.get_total_flops()) // 2


class _DryRun(fx.Interpreter):
    """Runs a program with fake weights too: the real ones are neither read nor written."""

    def __init__(self, program: fx.GraphModule, mode: Any) -> None:
        super().__init__(program)
        self.mode = mode

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        attribute = self.fetch_attr(target)
        return self.mode.from_tensor(attribute) if isinstance(attribute, Tensor) else attribute


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
    """Checks the size of every result, and adds up the work."""

    def __init__(self, caller: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.caller, self.limit, self.work = caller, memory_limit(), 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = func.__name__.partition(".")[0]
        if (pieces := _pieces(name, args)) > MAX_PIECES:
            raise SizeLimitError(
                self.caller, expected=f"at most {MAX_PIECES} pieces of a tensor", got=f"{pieces}", fix=_TRUST
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
                fix=f"{_TRUST} (INTERTWINE_MEMORY_LIMIT changes the limit.)",
            )
        self.work += value.numel() * _each(name, args)


def _pieces(name: str, args: Sequence[Any]) -> int:
    """The number of pieces that a step splits its first argument into; 1 for most steps."""
    if name not in ("unbind", "split", "unsafe_split", "unbind_copy", "split_copy") or not isinstance(args[0], Tensor):
        return 1
    axis = (args[1] if len(args) > 1 else 0) if "unbind" in name else (args[2] if len(args) > 2 else 0)
    length = args[0].shape[axis] if args[0].dim() else 1
    return int(length if "unbind" in name else -(-length // max(int(args[1]), 1)))


def _each(name: str, args: Sequence[Any]) -> int:
    """A rough cost per number of the result, for operations that torch's counter does not know."""
    first = args[0] if args and isinstance(args[0], Tensor) else None
    if "pool" in name and "adaptive" not in name and len(args) > 1 and isinstance(args[1], list | tuple):
        return max(int(prod(args[1])), 1)
    if first is not None and first.dim() and ("linalg" in name or name in ("cdist", "_cdist_forward", "cholesky")):
        return 20 * max(first.shape[-1], 1)
    return 1
