"""Checks that a module follows its input to another device, with ``meta`` in place of a real one.

Tensors on ``meta`` have a shape and a dtype but no values, and torch refuses to mix them with CPU tensors. So a
constant that stays behind when a module moves, or a result that depends on reading a value, fails right away.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
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
    """Check that a module follows its input to another device. An ``AssertionError`` says what stays behind.

    In training and evaluation on ``meta``, outputs must have the same shapes and dtypes as on the CPU, gradients must
    reach the input and the weights, and neither pass may create a tensor on the CPU. After ``to_empty`` and loading,
    the module must give the same numbers as before. The module itself is not changed.

    Args:
        module: any module.
        inputs: its inputs, on the CPU.

    >>> assert_follows_device(nn.Linear(3, 2), torch.zeros(1, 3))
    """
    here = copy.deepcopy(module)
    with torch.no_grad():
        evaluated = _accepted(here.eval(), inputs)  # before training, which may change statistics
    for training, outputs_here in ((False, evaluated), (True, _accepted(here.train(), inputs))):
        there = copy.deepcopy(module).train(training).to(META)
        _require_no_memory(there)
        expected = [(t.shape, t.dtype) for t in outputs_here]
        with _NoCPU(type(module).__name__):
            outputs = _tensors(_call(there, _on_meta(inputs)))
            _backward(outputs)
        got = [(t.shape, t.dtype) for t in outputs]
        if got != expected:
            raise AssertionError(f"{type(module).__name__} on meta: expected {expected}, got {got}")
    _require_complete(copy.deepcopy(module).to(META), module.state_dict(), inputs, evaluated)


@checked
def assert_deferred(make: Callable[[], nn.Module], *inputs: Tensor) -> None:
    """Check that a constructor supports deferred initialization. An ``AssertionError`` says what fails.

    Under ``torch.device("meta")``, it must create a module without memory. After ``to_empty``, that module must be
    complete: with the state of another module it gives the same numbers, and ``reset_parameters`` fills all values that
    the constructor fills.

    Args:
        make: creates the module, the same each time except for random weights.
        inputs: its inputs, on the CPU.

    >>> assert_deferred(lambda: nn.Linear(3, 2), torch.zeros(1, 3))
    """
    twin = make()
    state = copy.deepcopy(twin.state_dict())
    with torch.no_grad():
        evaluated = _accepted(twin.eval(), inputs)
    with META:
        module = make()
    _require_no_memory(module)
    _require_complete(copy.deepcopy(module), state, inputs, evaluated)
    module = _with_memory(module)
    module.apply(_reset)  # resets submodules before the module that contains them
    for name, value in module.state_dict().items():
        if not bool(torch.isfinite(value).all()):
            raise AssertionError(f"{type(module).__name__}: reset_parameters leaves {name} uninitialized")


def _with_memory(module: nn.Module) -> nn.Module:
    """The module after ``to_empty``, with NaN in uninitialized memory."""
    before, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    torch.use_deterministic_algorithms(True, warn_only=True)  # makes torch fill empty tensors with NaN
    try:
        return module.to_empty(device="cpu")
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)


def _reset(part: nn.Module) -> None:
    reset = getattr(part, "reset_parameters", None)
    if callable(reset):
        reset()


def _accepted(module: nn.Module, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """The outputs. An error of the module counts as one of its inputs."""
    try:
        return _tensors(_call(module, inputs))
    except Exception as error:  # a user's module may raise anything
        raise InputError(
            type(module).__name__, expected="inputs that the module accepts", got=f"{type(error).__name__}: {error}"
        ) from error


def _call(module: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return module(*inputs)


def _on_meta(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.to(META).requires_grad_(x.is_floating_point()) for x in inputs)


def _tensors(output: Any) -> list[Tensor]:
    """All tensors in an output, in an order that depends only on its structure."""
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
            raise AssertionError(
                f"{type(module).__name__}: {name} stays on {value.device} when the module moves to meta"
            )


def _require_complete(
    empty: nn.Module, state: Mapping[str, Any], inputs: tuple[Tensor, ...], expected: list[Tensor]
) -> None:
    """Raise an error unless an empty module, given memory and a state, computes the outputs of that state."""
    module = _with_memory(empty)
    module.load_state_dict(state)
    with torch.no_grad():
        pairs = zip(_tensors(_call(module.eval(), inputs)), expected, strict=True)
        if not all(torch.equal(a, b) for a, b in pairs):
            raise AssertionError(f"{type(module).__name__} is not the same after to_empty and load_state_dict")


class _NoCPU(TorchDispatchMode):
    """Raises an error for every operation that creates a tensor on the CPU."""

    def __init__(self, caller: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.caller = caller

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if any(isinstance(t, Tensor) and t.device.type == "cpu" for t in tree_leaves(out)):
            raise AssertionError(f"{self.caller} creates a CPU tensor with {func} although its input is on meta")
        return out
