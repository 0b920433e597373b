"""Does a module follow its input to another device? The ``meta`` device stands in for those that are not here.

Tensors on ``meta`` have a shape and a type but no numbers, and torch refuses to mix them with tensors on the CPU. So a
constant that stays behind when a module moves, or a result that depends on reading a number, shows at once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .._checked import checked
from ..errors import InputError

META = torch.device("meta")


@checked
def assert_follows_device(module: nn.Module, *inputs: Tensor) -> None:
    """Hold a module to the device of its input; an ``AssertionError`` says what stays behind.

    In training and evaluation, on ``meta``: outputs have the shapes and types that they have on the CPU, gradients
    reach the input and the weights, and neither pass makes a tensor on the CPU. After ``to_empty`` and loading, the
    module gives the same numbers as before. The module is not changed.

    Args:
        module: any module.
        inputs: what to call it with, on the CPU.

    >>> assert_follows_device(nn.Linear(3, 2), torch.zeros(1, 3))
    """
    _require_inputs(module, inputs)
    for training in (True, False):
        here = copy.deepcopy(module).train(training)
        there = copy.deepcopy(module).train(training).to(META)
        _require_no_memory(there)
        expected = [(t.shape, t.dtype) for t in _tensors(_call(here, inputs))]
        with _NoCPU(type(module).__name__):
            outputs = _tensors(_call(there, _on_meta(inputs)))
            _backward(outputs)
        got = [(t.shape, t.dtype) for t in outputs]
        if got != expected:
            raise AssertionError(f"{type(module).__name__} on meta: expected {expected}, got {got}")
    _require_whole(copy.deepcopy(module).to(META), module, inputs)


@checked
def assert_deferred(make: Callable[[], nn.Module], *inputs: Tensor) -> None:
    """Hold a constructor to deferred initialization; an ``AssertionError`` says what fails.

    Under ``torch.device("meta")`` it makes a module without memory. After ``to_empty`` that module is whole: with the
    state of another one it gives the same numbers, and ``reset_parameters`` fills what a constructor fills.

    Args:
        make: makes the module, the same one at each call but for random weights.
        inputs: what to call it with, on the CPU.

    >>> assert_deferred(lambda: nn.Linear(3, 2), torch.zeros(1, 3))
    """
    twin = make()
    _require_inputs(twin, inputs)
    with META:
        module = make()
    _require_no_memory(module)
    _require_whole(copy.deepcopy(module), twin, inputs)
    module = _with_memory(module)
    module.apply(_reset)  # parts first: the whole has the last word
    for name, value in module.state_dict().items():
        if not bool(torch.isfinite(value).all()):
            raise AssertionError(f"{type(module).__name__}: reset_parameters leaves {name} without numbers")


def _with_memory(module: nn.Module) -> nn.Module:
    """The module after ``to_empty``, with NaN wherever torch left what happened to be in memory."""
    before, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    torch.use_deterministic_algorithms(True, warn_only=True)  # torch then fills what is empty
    try:
        return module.to_empty(device="cpu")
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)


def _reset(part: nn.Module) -> None:
    reset = getattr(part, "reset_parameters", None)
    if callable(reset):
        reset()


def _require_inputs(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    try:
        _call(copy.deepcopy(module), inputs)
    except Exception as error:  # whatever somebody's module raises
        raise InputError(
            type(module).__name__, expected="inputs that the module takes", got=f"{type(error).__name__}: {error}"
        ) from error


def _call(module: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return module(*inputs)


def _on_meta(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.to(META).requires_grad_(x.is_floating_point()) for x in inputs)


def _tensors(output: Any) -> list[Tensor]:
    """All tensors of an output, in an order that depends on its structure only."""
    return list(_walk(output))


def _walk(output: Any) -> Iterator[Tensor]:
    for leaf in tree_leaves(output):
        if isinstance(leaf, Tensor):
            yield leaf
        elif hasattr(leaf, "__dataclass_fields__"):
            for name in leaf.__dataclass_fields__:
                yield from _walk(getattr(leaf, name))


def _backward(outputs: list[Tensor]) -> None:
    differentiable = [out for out in outputs if out.requires_grad]
    if differentiable:
        torch.autograd.backward(differentiable, [torch.empty_like(out) for out in differentiable])


def _require_no_memory(module: nn.Module) -> None:
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if value.device != META:
            raise AssertionError(f"{type(module).__name__}: {name} stays on {value.device} when the rest is on meta")


def _require_whole(empty: nn.Module, twin: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Once it has memory and the state of ``twin``, a module without memory is equal to it."""
    module = _with_memory(empty)
    module.load_state_dict(twin.state_dict())
    with torch.no_grad():
        pairs = zip(
            _tensors(_call(module.eval(), inputs)), _tensors(_call(copy.deepcopy(twin).eval(), inputs)), strict=True
        )
        if not all(torch.equal(a, b) for a, b in pairs):
            raise AssertionError(f"{type(module).__name__} is not the same after to_empty and load_state_dict")


class _NoCPU(TorchDispatchMode):
    """Complains of every operation that makes a tensor on the CPU."""

    def __init__(self, caller: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.caller = caller

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if any(isinstance(t, Tensor) and t.device.type == "cpu" for t in tree_leaves(out)):
            raise AssertionError(f"{self.caller} makes a tensor on the CPU by {func} although its input is on meta")
        return out
