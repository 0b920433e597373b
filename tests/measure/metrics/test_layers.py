"""Layer by layer: names that survive real code, and errors against networks whose symmetry is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import intertwine as tw
from intertwine.errors import InputError
from intertwine.measure import layer_errors
from intertwine.measure.load._exported import load_exported
from intertwine.measure.metrics._taps import tapped

X = torch.rand(4, 3, 9, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    """A residual block as people write them: one activation for all places, in place, and plain functions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 3, 3, padding=1)
        self.second = nn.Conv2d(3, 3, 3, padding=1)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.first(x))
        y = self.second(y)
        y += x
        return functional.max_pool2d(self.act(y), 3)


class Own(nn.Module):
    """A layer without parts that is not torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 27, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x.flatten(1), self.weight).relu()


def names_and_values(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    seen: dict[str, Tensor] = {}
    with torch.no_grad(), tapped(model, lambda name, kind, out: seen.update({name: out.clone()})):
        model(x)
    return seen


def test_in_place_reused_and_plain_calls_are_seen():
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Own()).double()
    seen = names_and_values(model, X)
    assert list(seen) == [
        "0.first", "0.act", "0.second", "0.add", "0.act#2", "0.max_pool2d", "1.flatten", "1.linear", "1.relu", "1",
    ]  # fmt: skip
    first = model[0].first(X)
    torch.testing.assert_close(seen["0.first"], first)
    assert bool((first < 0).any()), "the activation in place would have hidden it"
    torch.testing.assert_close(seen["0.act"], first.relu())
    torch.testing.assert_close(seen["0.add"], model[0].second(first.relu()) + X)
    torch.testing.assert_close(seen["1"], model(X))


def test_nothing_is_left_behind():
    model = Block().double()
    names_and_values(model, X)
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())
    with pytest.raises(RuntimeError), tapped(model, lambda *_: None):
        model(torch.rand(1, 5, 9, 9, dtype=torch.float64))
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())


def test_a_group_network_is_equivariant_with_the_permutations_of_its_fields_and_not_without():
    c4 = tw.groups.Cyclic(4)
    plane = tw.spaces.Grid2d(c4)
    rgb, hidden = plane.field(3 * c4.trivial), plane.field(2 * c4.regular)
    net = tw.nn.to_plain(tw.nn.Sequential(tw.nn.Conv2d(rgb, hidden, 3, padding=1), tw.nn.ReLU(hidden)).double())
    regular = [c4.regular(g) for g in range(4)]
    known = torch.stack([torch.block_diag(m, m).argmax(0) for m in regular])
    names = [layer.name for layer in layer_errors(net, X, "c4").layers]
    right = layer_errors(net, X, "c4", permutations=dict.fromkeys(names, known)).layers
    wrong = layer_errors(net, X, "c4").layers
    assert all(layer.equivariance.mean < 1e-12 for layer in right)
    assert all(layer.equivariance.mean > 0.1 for layer in wrong)


def test_tokens_are_taken_as_a_grid():
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Linear(3, 5)
            self.norm = nn.LayerNorm(5)

        def forward(self, x: Tensor) -> Tensor:
            tokens = self.embed(x.flatten(2).transpose(1, 2))
            front = torch.zeros_like(tokens[:, :1])
            return self.norm(torch.cat([front, tokens], 1)).mean(1)

    errors = {layer.name: layer for layer in layer_errors(Tokens().double(), X, "d4").layers}
    assert errors["embed"].equivariance.mean < 1e-12
    assert errors["norm"].equivariance.mean < 1e-12
    assert errors["norm"].invariance.mean > 0.01
    assert errors["mean"].equivariance is None
    assert errors["mean"].invariance.mean < 1e-12


@pytest.mark.parametrize("symmetry", ["hflip", "D4", "C8"])
@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e18])
def test_norms_in_float32_against_float64(symmetry, scale):
    """Norms of the copies are computed once and in float32; in float64, every layer is compared on its own."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(324, 5, False))
    rough = layer_errors(model, (scale * X).float(), symmetry).layers
    fine = layer_errors(model.double(), (scale * X).float().double(), symmetry).layers
    for a, b in zip(rough, fine, strict=True):
        assert a.name == b.name
        assert (a.equivariance is None) == (b.equivariance is None)
        torch.testing.assert_close(a.invariance.values, b.invariance.values, rtol=1e-5, atol=1e-6)
        if a.equivariance is not None and b.equivariance is not None:
            torch.testing.assert_close(a.equivariance.values, b.equivariance.values, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_compared_is_named():
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flat = nn.Flatten(0)

        def forward(self, x: Tensor) -> Tensor:
            self.flat(x)
            return x.mean((2, 3))

    errors = layer_errors(Mixed(), X)
    assert [name for name, _ in errors.skipped] == ["flat"]
    assert "no batch of" in errors.skipped[0][1]
    assert [layer.name for layer in errors.layers] == ["mean"]


def test_turns_want_square_images():
    with pytest.raises(InputError, match="square images"):
        layer_errors(nn.Identity(), X[..., :7], "c4")
    assert layer_errors(nn.Identity(), X[..., :7], "hflip").layers[0].equivariance.mean == 0


def test_an_exported_program_has_the_layers_of_its_network(tmp_path):
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.act = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(inplace=True)

        def forward(self, x):
            return self.act(self.norm(self.conv(x)) + x)

    model = nn.Sequential(Block(), nn.MaxPool2d(2), Block(), nn.Flatten(), nn.Linear(48, 4)).eval()
    x = torch.rand(6, 3, 8, 8)
    batch = torch.export.Dim("batch", min=1, max=64)
    torch.export.save(torch.export.export(model, (x,), dynamic_shapes=({0: batch},)), tmp_path / "net.pt2")
    errors = layer_errors(load_exported(tmp_path / "net.pt2"), x, "c4")
    wanted = layer_errors(model, x, "c4")
    assert [f.name for f in errors.layers] == [f"program.{w.name}" for w in wanted.layers]
    assert "program.0.add" in [f.name for f in errors.layers]
    for f, w in zip(errors.layers, wanted.layers, strict=True):
        assert (f.kind, f.shape) == (w.kind, w.shape)
        torch.testing.assert_close(f.invariance.values, w.invariance.values, atol=1e-6, rtol=1e-5)


def test_maps_that_rearrange_colors_leave_feature_maps_where_they_are():
    """Nine channels know nothing of three colors: the plane does not move, only channels may."""
    cycle = [lambda x: x, lambda x: x[:, [1, 2, 0]], lambda x: x[:, [2, 0, 1]]]
    group = tw.measure.Symmetry.from_maps(tw.groups.Cyclic(3), cycle, name="colors")
    model = nn.Sequential(nn.Conv2d(3, 9, 3), nn.ReLU(), nn.Flatten(), nn.Linear(324, 4))
    x = torch.rand(5, 3, 8, 8)
    layers = layer_errors(model, x, group).layers
    assert [layer.equivariance is None for layer in layers] == [False, False, True, True]
    torch.testing.assert_close(layers[0].equivariance.values, layers[0].invariance.values)
    weights = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
    odd = tw.measure.Symmetry.from_maps(
        tw.groups.Cyclic(2), [lambda x: x, lambda x: torch.einsum("ij,njhw->nihw", weights.to(x), x)], name="odd"
    )
    assert layer_errors(model, x, odd).layers[0].equivariance is None, "no motion of the plane"
    result = tw.measure.audit(model, (x, torch.arange(5) % 4), group)
    assert result.reading("symmetrized_invariance_error").value < 1e-5


def test_maps_that_are_not_square_have_no_quarter_turn() -> None:
    """Compared value by value, a turned 8 x 7 map and a 7 x 8 map would give a number without a meaning."""
    model = nn.Sequential(nn.Conv2d(1, 2, (1, 2)), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    errors = {layer.name: layer for layer in layer_errors(model, torch.rand(4, 1, 8, 8), "c4").layers}
    assert errors["0"].equivariance is None
    assert errors["0"].invariance is not None
    mirrored = {layer.name: layer for layer in layer_errors(model, torch.rand(4, 1, 8, 8), "hflip").layers}
    assert mirrored["0"].equivariance is not None
