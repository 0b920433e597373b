"""Layer by layer: names that survive real code, and errors against networks whose symmetry is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import intertwine as tw
from intertwine.errors import InputError
from intertwine.measure import layer_errors, tapped

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

    found = {layer.name: layer for layer in layer_errors(Tokens().double(), X, "d4").layers}
    assert found["embed"].equivariance.mean < 1e-12
    assert found["norm"].equivariance.mean < 1e-12
    assert found["norm"].invariance.mean > 0.01
    assert found["mean"].equivariance is None
    assert found["mean"].invariance.mean < 1e-12


def test_what_cannot_be_compared_is_named():
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flat = nn.Flatten(0)

        def forward(self, x: Tensor) -> Tensor:
            self.flat(x)
            return x.mean((2, 3))

    found = layer_errors(Mixed(), X)
    assert [name for name, _ in found.skipped] == ["flat"]
    assert "no batch of" in found.skipped[0][1]
    assert [layer.name for layer in found.layers] == ["mean"]


def test_turns_want_square_images():
    with pytest.raises(InputError, match="square images"):
        layer_errors(nn.Identity(), X[..., :7], "c4")
    assert layer_errors(nn.Identity(), X[..., :7], "hflip").layers[0].equivariance.mean == 0
