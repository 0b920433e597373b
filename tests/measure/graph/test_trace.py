"""Tracing with a fixed number of images gives a program for any number; where it cannot, that is noticed."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import Tensor, fx, nn

from intertwine.errors import InputError
from intertwine.measure import channel_graph
from intertwine.measure.graph import _trace
from intertwine.measure.graph._trace import trace


class Net(nn.Module):
    """A convolution, and then what a function does with the maps and their weights."""

    def __init__(self, rest) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 6, 3, padding=1), nn.Linear(6 * 16, 5)
        self.rest = rest

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(self, self.conv(x).relu())


FIXED = {
    "no sizes": lambda net, h: net.linear(h.flatten(1)),
    "the batch": lambda net, h: net.linear(h.view(h.shape[0], -1)),
    "a multiple": lambda net, h: net.linear(h.reshape(h.shape[0] * 6, 16).reshape(h.shape[0], -1)),
    "the last axis": lambda net, h: net.linear(h.permute(1, 2, 3, 0).reshape(-1, h.shape[0]).T),
    "a token": lambda net, h: torch.cat([net.linear.weight.new_ones(1, 5).expand(len(h), 5), net.linear(h.flatten(1))]),
    "a mean by hand": lambda net, h: net.linear(h.flatten(1)) - h.sum() / len(h),
    "in place": lambda net, h: net.linear(h.mul_(2).flatten(1)),
}
SYMBOLIC = {
    "half": lambda net, h: net.linear(torch.cat([h[h.shape[0] // 2 :], h[: h.shape[0] // 2]]).flatten(1)),
    "one more": lambda net, h: net.linear(torch.cat([h, h[:1]]).view(h.shape[0] + 1, -1)),
}
X = torch.randn(2, 3, 4, 4)


def symbolic(model: nn.Module, x: Tensor) -> _trace.Trace:
    """The slow way."""
    with torch.no_grad():
        return _trace._exported(model, x, dynamic_shapes=({0: torch.export.Dim.AUTO},))


def fixed_count(monkeypatch: pytest.MonkeyPatch, model: nn.Module) -> tuple[_trace.Trace, int]:
    """The trace, and how many exports it took."""
    exports = 0

    def counted(*args, **options):
        nonlocal exports
        exports += 1
        return real(*args, **options)

    real = _trace._exported
    monkeypatch.setattr(_trace, "_exported", counted)
    traced = trace(model, X)
    monkeypatch.undo()
    return traced, exports


@pytest.mark.parametrize("name", [*FIXED, *SYMBOLIC])
def test_every_number_of_images(name, monkeypatch):
    model = Net((FIXED | SYMBOLIC)[name])
    traced, exports = fixed_count(monkeypatch, model)
    assert exports == (1 if name in FIXED else 2)
    for count in (2, 3, 8):
        x = torch.randn(count, 3, 4, 4)
        before = x.clone()
        (out,) = traced(model, x)
        torch.testing.assert_close(out, model(x))
        assert torch.equal(x, before)
    assert model.training, "left as it was"


@pytest.mark.parametrize("name", FIXED)
def test_the_same_operations_as_with_a_symbolic_number(name):
    def operations(program: fx.GraphModule) -> list[str]:
        calls = [n.target for n in program.graph.nodes if n.op == "call_function" and n.target is not operator.mul]
        return [str(call) for call in calls if not any(word in str(call) for word in ("sym_size", "_assert"))]

    model = Net(FIXED[name]).eval()
    assert operations(trace(model, X).program) == operations(symbolic(model, X).program)


def test_a_program_for_one_number_of_images_is_noticed(monkeypatch):
    monkeypatch.setattr(_trace, "_for_any_batch", lambda traced: traced)
    assert fixed_count(monkeypatch, Net(FIXED["no sizes"]))[1] == 1
    monkeypatch.setattr(_trace, "_for_any_batch", lambda traced: traced)
    assert fixed_count(monkeypatch, Net(FIXED["the batch"]))[1] == 2


def test_what_cannot_be_traced_says_why():
    model = Net(lambda net, h: net.linear(h.flatten(1)) if h.sum() > 0 else h).train()
    with pytest.raises(InputError, match="data-dependent"):
        channel_graph(model, (3, 4, 4))
    assert model.training
    # torch makes a number of what len() returns.
    with pytest.raises(InputError, match="what it traces for 4 images is wrong for 2"):
        channel_graph(Net(lambda net, h: net.linear(torch.cat([h, h[:1]]).view(len(h) + 1, -1))), (3, 4, 4))
    with pytest.raises(InputError, match="shape"):
        channel_graph(Net(FIXED["no sizes"]), (2, 4, 4))


def test_settings_of_torch_are_restored():
    assert not fx.config.do_not_emit_stack_traces
    trace(Net(FIXED["no sizes"]), X)
    assert not fx.config.do_not_emit_stack_traces
