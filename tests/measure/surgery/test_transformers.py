"""Transformers: heads and the channels inside them, windows and their shifts, tables of relative positions."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from intertwine.errors import InputError, NumericalError
from intertwine.groups import Cyclic, Dihedral, Symmetric
from intertwine.measure import (
    Symmetrized,
    channel_graph,
    match,
    match_networks,
    parse_symmetry,
    permute,
    symmetrize,
    tie,
)
from intertwine.measure.graph._permute import random_permutations, require_preserved
from intertwine.measure.matching._heads import HEADS, best_head_representation, best_heads
from intertwine.nn import typed
from tests.measure import nets


def perturbed(model: nn.Module, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn(p.shape, generator=generator))
    return model.eval().double()


def images(n: int, size: int) -> torch.Tensor:
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def torchvision_vit() -> nn.Module:
    return nets.torchvision().models.VisionTransformer(16, 4, 2, 2, 8, 12, num_classes=4)


def torchvision_swin() -> nn.Module:
    return nets.torchvision().models.SwinTransformer([1, 1], 8, [2, 2], [2, 2], [4, 4], num_classes=4)


def largest_error(model: nn.Module, name: str, x: torch.Tensor) -> float:
    symmetry = parse_symmetry(name)
    with torch.no_grad():
        y = model(x)
        moved = [model(symmetry.apply(g, x)) for g in range(symmetry.order)]
    return max(float((m - y).abs().max() / y.abs().max()) for m in moved)


@pytest.mark.parametrize(
    ("make", "size", "name"),
    [
        (nets.ViT, 12, "hflip"),
        (nets.ViT, 12, "d4"),
        (lambda: nets.ViT(norm=True), 12, "c4"),
        (nets.Windows, 8, "hflip"),
        (nets.Windows, 8, "c4"),
        (lambda: nets.Windows(slices=True), 8, "d4"),
        (torchvision_vit, 16, "c4"),
        pytest.param(torchvision_swin, 8, "c4", marks=pytest.mark.slow),
    ],
)
def test_a_transformer_becomes_exactly_symmetric(make, size, name):
    torch.manual_seed(0)
    model, x = perturbed(make()), images(24, size)
    assert largest_error(model, name, x[:4]) > 1e-2
    result = symmetrize(model, x, name)
    assert result.matching.graph.untraced == ()
    assert largest_error(result.model, name, x[:4]) <= 1e-10
    assert any(size > 1 for sizes in result.fields.values() for size in sizes), "not only fixed channels"
    # Biases alone would also be symmetric: the network must still see the image.
    assert float(result.model(x).detach().std(0).max()) > 1e-3


def test_the_refit_is_nearer_to_the_average_than_the_merge():
    torch.manual_seed(0)
    model, x = perturbed(nets.ViT()), images(200, 12)
    matching = match(model, x, "hflip")
    with torch.no_grad():
        average = (model(x) + model(x.flip(3))) / 2
        merged, refitted = (
            float((symmetrize(model, x, "hflip", matching=matching, refit=r).model(x) - average).norm())
            for r in (False, True)
        )
    assert refitted < 0.6 * merged


@pytest.fixture(scope="module")
def symmetric() -> tuple[Symmetrized, torch.Tensor]:
    """A transformer merged with its mirror image, and the images."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, x = perturbed(nets.ViT()), images(60, 12)
    return symmetrize(model, x, "hflip", refit=False), x


def test_a_symmetric_transformer_is_recognized(symmetric):
    twin, x = symmetric
    again = symmetrize(twin.model, torch.cat([x, x.flip(3)]), "hflip", refit=False, repair=False)
    assert max(again.distance.values()) < 1e-8


def test_a_wider_transformer_is_exact_and_keeps_its_ties():
    torch.manual_seed(0)
    model, x = perturbed(nets.ViT()), images(24, 12)
    twin = symmetrize(model, x, "hflip", width=1.25)
    assert twin.model.mlp[0][1].weight.shape[0] > 16
    assert largest_error(twin.model, "hflip", x[:4]) <= 1e-10
    tied = tie(twin.model, twin.matching)
    assert sum(p.numel() for p in tied.parameters()) == twin.free_parameters
    torch.testing.assert_close(tied(x), twin.model(x))


def test_a_symmetric_transformer_gets_field_types(symmetric):
    twin, x = symmetric
    torch.testing.assert_close(typed(twin)(x).flatten(1), twin.model(x))


def test_windows_that_a_mirror_does_not_map_to_windows_are_refused():
    model, x = perturbed(nets.Windows(size=6, window=3, shift=1)), images(8, 6)
    with pytest.raises(InputError, match="does not map windows of 3 to windows"):
        symmetrize(model, x, "hflip")
    # Without the shift, the same windows are mapped to each other.
    assert symmetrize(perturbed(nets.Windows(size=6, window=3, shift=0)), x, "hflip", refit=False).error < 1e-10


def test_positions_that_are_computed_are_refused():
    class Ramp(nets.ViT):
        def forward(self, x):
            return super().forward(x * torch.arange(x.shape[-1], device=x.device))

    with pytest.raises(NumericalError, match="GroupAverage"):
        symmetrize(perturbed(Ramp()), images(8, 12), "hflip")


def test_the_groups_of_a_transformer():
    graph = channel_graph(nets.ViT(), (3, 12, 12))
    sizes = {g.name: (g.size, g.heads) for g in graph.groups}
    assert sizes == {
        "token": (12, None),
        "attention.0.qkv.heads": (3, None),
        "attention.0.qkv": (12, "attention.0.qkv.heads"),  # queries and keys
        "attention.0.qkv#2": (12, "attention.0.qkv.heads"),  # values
        "mlp.0.1": (16, None),
        "attention.1.qkv.heads": (3, None),
        "attention.1.qkv": (12, "attention.1.qkv.heads"),
        "attention.1.qkv#2": (12, "attention.1.qkv.heads"),
        "mlp.1.1": (16, None),
    }
    # A norm with the same weights for all heads leaves one permutation for the queries and keys of all heads.
    shared = channel_graph(nets.ViT(norm=True), (3, 12, 12))
    assert (4, None) in {(g.size, g.heads) for g in shared.groups}
    assert 0 < require_preserved(nets.ViT(norm=True), shared, (3, 12, 12)) <= 1e-10


def test_tables_and_merged_cells_in_words():
    graph = channel_graph(nets.Windows(), (3, 8, 8))
    assert graph.describe("plain.table") == "(t49) (plain.heads:2)"
    assert graph.describe("merge.weight") == "(merge:6) (w2·h2·stem:8)"
    assert graph.describe("mask") == "(h2·w2) (h4·w4) (h4·w4)"
    slices = channel_graph(nets.Windows(slices=True), (3, 8, 8))
    assert slices.describe("merge.weight") == "(merge:6) (w2·h2·stem:8)"


def test_heads_are_not_torn_apart():
    model = nets.ViT()
    graph = channel_graph(model, (3, 12, 12))
    with pytest.raises(InputError, match="tears heads apart"):
        permute(model, {"attention.0.qkv": torch.arange(12).roll(1)}, graph=graph)


@pytest.mark.parametrize("method", ["activation", "weight"])
def test_planted_permutations_of_heads_and_channels_are_found(method):
    torch.manual_seed(0)
    model, x = perturbed(nets.ViT()), images(60, 12)
    graph = channel_graph(model, (3, 12, 12))
    planted = random_permutations(graph, seed=3)
    other = permute(model, planted, graph=graph)
    _, back = match_networks(model, other, x, method=method, graph=graph)
    assert all(torch.equal(planted[n][back[n]], torch.arange(len(p))) for n, p in planted.items())


@pytest.mark.parametrize("group", [Cyclic(2), Cyclic(4), Dihedral(4), Symmetric(3)], ids=lambda g: g.name)
def test_whatever_the_scores_heads_and_channels_carry_a_representation(group):
    heads, size = 6, 4
    generator = torch.Generator().manual_seed(0)
    scores = {
        g: {n: torch.rand(heads * size, heads * size, generator=generator) for n in ("q", "v")}
        for g in range(1, group.order)
    }
    chosen = best_head_representation(group, heads, scores)
    for g, h in itertools.product(range(group.order), repeat=2):
        product = chosen[int(group.compose(g, h))]
        assert all(torch.equal(product[n], chosen[h][n][chosen[g][n]]) for n in (HEADS, "q", "v"))
    for p in chosen.values():
        for n in ("q", "v"):
            assert torch.equal(p[n] // size, p[HEADS].repeat_interleave(size))
            assert sorted(p[n].tolist()) == list(range(heads * size))
    assert any(not torch.equal(p[HEADS], torch.arange(heads)) for p in chosen.values())


def test_for_a_mirror_the_choice_of_heads_is_the_best():
    def every(size, heads):
        """All involutions of the channels that map heads to heads."""
        for p in itertools.permutations(range(heads * size)):
            blocks = torch.tensor(p).view(heads, size) // size
            if all(p[p[i]] == i for i in range(len(p))) and bool((blocks == blocks[:, :1]).all()):
                yield torch.tensor(p)

    for seed in range(10):
        table = torch.rand(6, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        p = best_head_representation(Cyclic(2), 3, {1: {"q": table}})[1]["q"]
        worth = [float(table.gather(1, q[:, None]).sum()) for q in every(2, 3)]
        assert float(table.gather(1, p[:, None]).sum()) == pytest.approx(max(worth))
        free = best_heads(3, {"q": table})["q"]
        assert float(table.gather(1, free[:, None]).sum()) >= max(worth) - 1e-12
