"""Plain networks: alike, free of this package, exportable."""

from __future__ import annotations

import subprocess
import sys
import warnings
from itertools import islice

import pytest
import torch

from intertwine.groups import Dihedral
from intertwine.nn import (
    LAYERS,
    AvgPool2d,
    BatchNorm,
    Conv2d,
    GlobalPool,
    GroupPool,
    Layer,
    NormNonlinearity,
    NormPool,
    ReLU,
    Sequential,
    to_plain,
)
from intertwine.spaces import Grid2d
from intertwine.testing._conformance import example_inputs

D4 = Dihedral(4)
PLANE = Grid2d(D4)

LOAD = """
import sys
sys.modules["intertwine"] = None  # importing it fails
import torch
net, x, y = torch.load(sys.argv[1], weights_only=False)
assert "intertwine" not in {type(m).__module__.split(".")[0] for m in net.modules()}
assert (net(x) - y).abs().max() < 1e-12
print("loaded")
"""


def network() -> Sequential:
    rgb, hidden = PLANE.field(3 * D4.trivial), PLANE.field(2 * D4.regular)
    vectors, scalars = PLANE.field(2 * D4.irrep(1)), PLANE.field(2 * D4.trivial)
    net = Sequential(
        Conv2d(rgb, hidden, 3, padding=1),
        BatchNorm(hidden),
        ReLU(hidden),
        AvgPool2d(hidden, 2),
        Conv2d(hidden, vectors, 3, padding=1, padding_mode="circular"),
        BatchNorm(vectors),
        NormNonlinearity(vectors, bias=-0.1),
        NormPool(vectors),
        Conv2d(scalars, hidden, 1),
        GroupPool(hidden),
        GlobalPool(scalars),
    )
    for _ in range(3):
        net(torch.randn(4, 3, 8, 8))
    return net.eval()


@pytest.mark.whole
def test_it_runs_where_this_package_is_not(tmp_path):
    net = network().double()
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    with torch.no_grad():
        torch.save((to_plain(net), x, net(x)), tmp_path / "plain.pt")
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path / "plain.pt")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "loaded\n", done.stderr


@pytest.mark.usefixtures("forked_children")
def test_the_probe_can_fail(tmp_path):
    torch.save((network(), torch.zeros(1), torch.zeros(1)), tmp_path / "ours.pt")
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path / "ours.pt")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "intertwine" in done.stderr


def test_layers_deep_inside_other_modules():
    net = torch.nn.ModuleDict({"body": torch.nn.Sequential(network(), torch.nn.Linear(2, 3))})
    plain = to_plain(net)
    assert not any(isinstance(module, Layer) for module in plain.modules())
    assert any(isinstance(module, Layer) for module in net.modules()), "the model itself is left as it was"
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        assert (plain["body"](x) - net.eval()["body"](x)).abs().max() < 1e-5


def test_it_shares_nothing():
    net = network()
    plain = to_plain(net)
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        before = plain(x)
        for p in net.parameters():
            p.mul_(3)
        assert torch.equal(plain(x), before)


class SideBySide(torch.nn.Module):
    """One plain twin of every layer, so that one export tries them all."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [next(iter(LAYERS[name].examples())).eval() for name in LAYERS]
        groups = [example_inputs(layer) for layer in layers]
        self.counts = [len(inputs) for inputs in groups]
        self.inputs = tuple(x for inputs in groups for x in inputs)
        self.expected = [layer(*inputs).detach() for layer, inputs in zip(layers, groups, strict=True)]
        self.plain = torch.nn.ModuleList(to_plain(layer) for layer in layers)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rest = iter(inputs)
        return tuple(plain(*islice(rest, count)) for plain, count in zip(self.plain, self.counts, strict=True))


@pytest.mark.whole
def test_onnx():
    """Every layer's plain twin, exported and run by another program, gives the same numbers."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model = SideBySide()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        program = torch.onnx.export(model, model.inputs, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feed = {entry.name: x.numpy() for entry, x in zip(session.get_inputs(), model.inputs, strict=True)}
    for name, output, expected in zip(LAYERS, session.run(None, feed), model.expected, strict=True):
        error = (torch.from_numpy(output) - expected).abs().max() / expected.abs().max()
        assert error < 1e-5, name
