"""Watch every layer of a network while it runs: modules, modules that are used twice, and plain function calls.

A value is shown the moment it is computed, before an in-place operation can overwrite it. Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode

from ..._checked import checked

See = Callable[[str, str, Tensor], None]
"""Called with the name of the layer, its kind and its output."""

# fmt: off
FUNCTIONS = frozenset({
    "relu", "relu_", "relu6", "leaky_relu", "elu", "gelu", "silu", "sigmoid", "tanh", "hardswish", "softmax",
    "conv1d", "conv2d", "conv3d", "conv_transpose2d", "linear", "matmul", "bmm", "max_pool2d", "avg_pool2d",
    "adaptive_avg_pool2d", "adaptive_max_pool2d", "batch_norm", "layer_norm", "group_norm", "instance_norm",
    "add", "add_", "__add__", "__iadd__", "__radd__", "sub", "mul", "mul_", "__mul__", "__imul__", "cat",
    "interpolate", "scaled_dot_product_attention", "flatten", "mean",
})
# fmt: on
"""Functions that count as layers when they are called without a module."""


@dataclass
class _Watch(TorchFunctionMode):
    """Names each value after the module that is running and how often it ran before."""

    see: See
    stack: list[tuple[str, bool]] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    programs: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        inside = self.stack[-1] if self.stack else ("", False)
        if isinstance(func, torch._ops.OpOverload) and inside[0] in self.programs:
            self.step(inside[0], func, out)
            return out
        name = getattr(func, "__name__", "").removesuffix("_")
        if not inside[1] and isinstance(out, Tensor) and getattr(func, "__name__", "") in FUNCTIONS:
            self.show(f"{inside[0]}.{name.strip('_')}".lstrip("."), name.strip("_"), out)
        return out

    def step(self, program: str, func: torch._ops.OpOverload, out: object) -> None:
        """Show the result of one step of an exported program, under the name of the layer it belongs to."""
        number = self.steps.get(program, 0)
        self.steps[program] = number + 1
        if number < len(self.programs[program]) and func.__name__.partition(".")[0] in FUNCTIONS:
            self.show(*self.programs[program][number], out)

    def show(self, name: str, kind: str, out: object) -> None:
        """Pass a value on under its name; the second call of a layer is ``name#2``."""
        self.calls[name] = count = self.calls.get(name, 0) + 1
        if isinstance(out, Tensor) and out.is_floating_point():
            with torch._C.DisableTorchFunction():
                self.see(name if count == 1 else f"{name}#{count}", kind, out)

    def entered(self, name: str, closed: bool) -> Callable[..., None]:
        """A hook that records that a module starts."""

        def hook(*_: Any) -> None:
            self.stack.append((name, closed))
            self.steps.pop(name, None)

        return hook

    def left(self, name: str) -> Callable[..., None]:
        """A hook that records that a module ended, and shows its output if it has no children."""

        def hook(module: nn.Module, _: Any, out: Any) -> None:
            self.stack.pop()
            if not any(True for _ in module.children()):
                self.show(name or type(module).__name__, type(module).__name__, out)

        return hook


@checked
@contextmanager
def tapped(model: nn.Module, see: See) -> Iterator[None]:
    """Show every layer's output to ``see`` while the model runs inside the block.

    Layers are modules without children, and the functions in :data:`FUNCTIONS` when they are called by a module that
    has children or is not part of torch. The layers of an exported program are its steps, named after the original
    modules. Every call in the block counts: the second call of a layer is ``name#2``.

    >>> class Twice(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.act = nn.ReLU(inplace=True)
    ...
    ...     def forward(self, x):
    ...         return self.act(torch.cat([self.act(x), -x], 1))
    >>> seen = []
    >>> with tapped(model := Twice(), lambda name, kind, out: seen.append((name, tuple(out.shape)))):
    ...     _ = model(torch.randn(1, 2))
    >>> seen
    [('act', (1, 2)), ('cat', (1, 4)), ('act#2', (1, 4))]
    """
    with ExitStack() as stack:
        watch = _Watch(see)
        for name, module in model.named_modules():
            # A layer of torch is one step, whatever it calls; a user's layer shows what it calls.
            if isinstance(module, fx.GraphModule):
                watch.programs[name] = _steps_of(module, name)
            closed = type(module).__module__.startswith("torch.nn.") and not any(True for _ in module.children())
            first = module.register_forward_pre_hook(watch.entered(name, closed))
            last = module.register_forward_hook(watch.left(name), always_call=False)
            stack.callback(first.remove)
            stack.callback(last.remove)
        stack.enter_context(watch)
        yield


def _steps_of(program: fx.GraphModule, prefix: str) -> list[tuple[str, str]]:
    """The name and kind of every operation of a traced program, in the order in which they run."""
    steps = []
    for node in program.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            operation = node.target.__name__.partition(".")[0].strip("_")
            path, kind = next(reversed(node.meta.get("nn_module_stack", {"": ("", "")}).values()))
            # A layer of torch is one step, as in a network that was not exported.
            is_layer = str(kind).startswith("torch.nn.modules.") and path
            parts = [prefix, path] if is_layer else [prefix, path, operation]
            steps.append((".".join(p for p in parts if p), str(kind).rpartition(".")[2] if is_layer else operation))
    return steps
