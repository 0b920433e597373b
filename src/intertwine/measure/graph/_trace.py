"""A network as a program of tensor operations, with its weights as inputs, for any number of images."""

from __future__ import annotations

import io
import logging
import operator
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_leaves, tree_map

from ...errors import InputError

_BATCH = 7919
"""A prime, so that the sizes which count images are its multiples, and other sizes of a network are not."""


@dataclass(frozen=True)
class Trace:
    """A traced network.

    Attributes:
        program: the operations.
        inputs: for each input of the program that is a parameter, buffer or constant, its name.
        constants: the values of the constants.
    """

    program: fx.GraphModule
    inputs: dict[str, str]
    constants: dict[str, Any]

    def __call__(self, model: nn.Module, x: Tensor) -> list[Tensor]:
        """What the program computes with the weights of the network."""
        state = {**dict(model.named_parameters(remove_duplicate=False)), **self.constants}
        state |= dict(model.named_buffers(remove_duplicate=False))
        names = (self.inputs.get(node.name) for node in self.program.graph.nodes if node.op == "placeholder")
        # Copies: an operation may work in place.
        values = [x.clone() if name is None else state[name].clone() for name in names]
        return _tensors(fx.Interpreter(self.program).run(*values))


def trace(model: nn.Module, x: Tensor) -> Trace:
    """Trace a network in evaluation mode, with a program that is right for every number of images.

    Tracing with a symbolic number of images takes torch twice as long as with a fixed one. So the number is first fixed
    to a large prime, whose multiples are then replaced in the program. What the program computes is compared with the
    network; if it differs, as for a network that divides the number of images, the number becomes symbolic after all.
    """
    training = [m for m in model.modules() if m.training]
    model.eval()
    try:
        with torch.no_grad(), _quietly():
            return _agreeing(model, x)
    except Exception as error:
        message = str(error).strip().splitlines()
        raise InputError(
            "channel_graph",
            expected=f"a network that torch.export can trace on an input of shape {tuple(x.shape)}",
            got=f"{type(error).__name__}: {message[0] if message else 'no message'}",
            fix="Check the input shape; data-dependent control flow cannot be traced.",
        ) from error
    finally:
        for m in training:
            m.training = True


def _agreeing(model: nn.Module, x: Tensor) -> Trace:
    expected = _tensors(model(x.clone()))
    with suppress(Exception):  # whatever goes wrong, the way below is right, or says why it cannot be
        traced = _for_any_batch(_exported(model, x[:1].expand(_BATCH, *x.shape[1:])))
        if _agree(traced(model, x), expected):
            return traced
    # More images: of two, torch would take a half for a constant.
    several = torch.cat([x, x])
    traced = _exported(model, several, dynamic_shapes=({0: torch.export.Dim.AUTO},))
    if _agree(traced(model, several), _tensors(model(several))) and not _agree_at(traced, model, x, expected):
        raise RuntimeError(f"what it traces for {len(several)} images is wrong for {len(x)}")
    return traced


def _agree_at(traced: Trace, model: nn.Module, x: Tensor, expected: list[Tensor]) -> bool:
    """Whether the program computes what the network does; not if it fails."""
    try:
        return _agree(traced(model, x), expected)
    except RuntimeError:
        return False


def _exported(model: nn.Module, x: Tensor, **options: Any) -> Trace:
    exported = torch.export.export(model, (x,), strict=False, **options)
    signature = exported.graph_signature
    inputs = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    inputs.update(getattr(signature, "inputs_to_lifted_tensor_constants", {}))
    return Trace(exported.graph_module, inputs, dict(exported.constants))


def _for_any_batch(traced: Trace) -> Trace:
    """The same program with the number of images taken from its input."""
    graph = traced.program.graph
    images = next(node for node in graph.nodes if node.op == "placeholder" and node.name not in traced.inputs)
    counts: dict[int, fx.Node] = {}

    def count(value: Any) -> Any:
        if type(value) is not int or not value or value % _BATCH:
            return value
        if value not in counts:
            with graph.inserting_before(first):
                number = graph.call_function(torch.ops.aten.sym_size.int, (images, 0))
                counts[value] = graph.call_function(operator.mul, (number, value // _BATCH))
        return counts[value]

    calls = [node for node in graph.nodes if node.op not in ("placeholder", "get_attr")]
    first = calls[0]
    for node in calls:
        node.args, node.kwargs = tree_map(count, node.args), tree_map(count, node.kwargs)
    if counts:
        traced.program.recompile()
    return traced


def _agree(ours: list[Tensor], theirs: list[Tensor]) -> bool:
    return len(ours) == len(theirs) and all(
        a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True)
        for a, b in zip(ours, theirs, strict=True)
    )


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep torch from printing graphs when it cannot trace a network, and from recording where each operation is.

    The error says why a network cannot be traced, and nobody reads the places, which take a sixth of the time.
    """
    logger = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    level, places = logger.level, fx.config.do_not_emit_stack_traces
    logger.setLevel(logging.ERROR)
    fx.config.do_not_emit_stack_traces = True
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
        fx.config.do_not_emit_stack_traces = places
