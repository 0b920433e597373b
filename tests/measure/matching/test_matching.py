"""Matching: assignments, involutions, representations, one streaming pass, weights; planted answers are found."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from intertwine.errors import InputError
from intertwine.groups import Alternating, Cyclic, Dihedral, Symmetric
from intertwine.measure import Matching, channel_graph, match, match_networks, parse_symmetry, permute
from intertwine.measure.graph._permute import full_state, random_permutations
from intertwine.measure.matching._assignment import best_involution, best_permutation, cycle_lengths
from intertwine.measure.matching._match import correlate
from intertwine.measure.matching._moments import chosen_sites, lockstep, samples
from intertwine.measure.matching._orbits import _kinds, best_orbits
from intertwine.measure.matching._representation import best_representation
from tests.measure import nets


def involutions(points):
    if not points:
        yield {}
        return
    first, rest = points[0], points[1:]
    for tail in involutions(rest):
        yield {first: first, **tail}
    for other in rest:
        for tail in involutions([p for p in rest if p != other]):
            yield {first: other, other: first, **tail}


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7])
def test_the_best_involution_is_the_best_of_all(n):
    for _ in range(12):
        s = torch.randn(n, n, dtype=torch.float64)
        best = max(sum(float(s[i, j]) for i, j in p.items()) for p in involutions(list(range(n))))
        p = best_involution(s)
        assert torch.equal(p[p], torch.arange(n))
        assert float(s[torch.arange(n), p].sum()) == pytest.approx(best, abs=1e-10)


def test_the_best_involution_on_larger_graphs():
    """Against Edmonds' algorithm on the whole graph, where odd cycles of the assignment have to be broken up."""
    import networkx

    broken = 0
    for seed in range(6):
        s = torch.randn(40, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        s = (s + s.T) / 2
        graph = networkx.Graph()
        for i, j in itertools.combinations(range(40), 2):
            graph.add_edge(i, j, weight=float(2 * s[i, j] - s[i, i] - s[j, j]))
        value = float(s.trace()) + sum(graph[i][j]["weight"] for i, j in networkx.max_weight_matching(graph))
        matching = best_involution(s)
        assert float(s[torch.arange(40), matching].sum()) == pytest.approx(value, abs=1e-9)
        lengths = cycle_lengths(best_permutation(s))
        broken += bool(((lengths % 2 == 1) & (lengths > 1)).any())
    assert broken, "some of these must be hard"


def test_dead_channels_are_left_alone():
    dead = torch.tensor([False, True, False, True])
    s = torch.rand(4, 4)
    s[dead], s[:, dead] = 0, 0
    assert best_permutation(s - 1, dead=(dead, dead))[dead].tolist() == [1, 3]
    assert best_involution(s, dead=dead)[dead].tolist() == [1, 3]
    other = torch.tensor([True, True, False, False])
    assert sorted(best_permutation(s, dead=(dead, other)).tolist()) == [0, 1, 2, 3]
    assert best_permutation(s, dead=(dead, other))[1] == 1, "dead in both: in place"


def planted(group, orbits, seed=0):
    """A permutation representation made of the given transitive ones, in random order."""
    parts = []
    for generators in orbits:
        subgroup = {0}
        while (more := subgroup | {int(group.compose(a, b)) for a in subgroup for b in [0, *generators]}) != subgroup:
            subgroup = more
        cosets, names = [], {}
        for g in range(group.order):
            key = tuple(sorted(int(group.compose(g, h)) for h in subgroup))
            names[g] = key
            if key not in cosets:
                cosets.append(key)
        parts.append([[cosets.index(names[int(group.compose(g, c[0]))]) for c in cosets] for g in range(group.order)])
    size = sum(len(p[0]) for p in parts)
    shuffle = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    images = torch.zeros(group.order, size, dtype=torch.long)
    for g in range(group.order):
        start = 0
        for part in parts:
            for j, i in enumerate(part[g]):
                images[g, shuffle[start + j]] = shuffle[start + i]
            start += len(part[g])
    return {g: images[g].argsort() for g in range(group.order)}


@pytest.mark.parametrize(
    ("group", "orbits"),
    [
        (Cyclic(2), [[], [], [1], []]),
        (Cyclic(4), [[], [], [2], [1], [1]]),
        (Cyclic(4), [[], [2], [2], [2]]),
        (Dihedral(4), [[], [], [4], [4], [5], [2], [1], [1, 4]]),
        (Dihedral(4), [[]] * 5),
        (Cyclic(3), [[], [], [1], [], [1]]),
        (Cyclic(6), [[], [], [2], [3], [3], [1]]),
        (Dihedral(3), [[], [], [3], [3], [1], [1, 3]]),
        (Alternating(4), [[], [], [1]]),
    ],
)
def test_a_planted_representation_is_found(group, orbits):
    truth = planted(group, orbits)
    n = len(truth[0])
    noise = torch.Generator().manual_seed(1)
    scores = {}
    for g in range(1, group.order):
        scores[g] = 0.2 * torch.rand(n, n, generator=noise, dtype=torch.float64)
        scores[g][torch.arange(n), truth[g]] = 1.0
    matching = best_representation(group, scores)
    for g in range(group.order):
        assert torch.equal(matching[g], truth[g]), g


@pytest.mark.parametrize("group", [Cyclic(2), Cyclic(3), Cyclic(4), Cyclic(6), Dihedral(3), Dihedral(4)])
def test_whatever_the_scores_the_result_is_a_representation(group):
    for n in (1, 2, 3, 6, 7, 13):
        scores = {g: torch.randn(n, n, dtype=torch.float64) for g in range(1, group.order)}
        p = best_representation(group, scores, dead=torch.arange(n) == 0)
        for a in range(group.order):
            assert sorted(p[a].tolist()) == list(range(n))
            assert p[a][0] == 0
            for b in range(group.order):
                assert torch.equal(p[int(group.compose(a, b))], p[b][p[a]])


def all_dead(group):
    scores = {g: torch.randn(4, 4) for g in range(1, group.order)}
    return best_representation(group, scores, dead=torch.ones(4, dtype=torch.bool))


@pytest.mark.parametrize("group", [Cyclic(2), Cyclic(3)])
def test_where_all_channels_are_dead_nothing_moves(group):
    assert all(torch.equal(p, torch.arange(4)) for p in all_dead(group).values())
    assert len(all_dead(group)) == group.order


def every_action(group, points, kinds):
    """All actions on the given points, as lists of orbits: slow and obvious."""
    if not points:
        yield []
        return
    first, rest = points[0], points[1:]
    for tail in every_action(group, rest, kinds):
        yield [(None, [first]), *tail]
    for kind in kinds:
        for others in itertools.permutations(rest, kind.size - 1) if kind.size <= len(points) else ():
            left = [p for p in rest if p not in others]
            for place in range(kind.size):
                orbit = [*others[:place], first, *others[place:]]
                for tail in every_action(group, left, kinds):
                    yield [(kind, orbit), *tail]


@pytest.mark.parametrize(("group", "n", "share"), [(Cyclic(3), 6, 1.0), (Dihedral(3), 5, 0.95)])
def test_the_best_orbits_against_all_actions(group, n, share):
    """On noise, the worst case: exact for three elements and few channels, near the best for more."""
    kinds = _kinds(group)
    images = []
    for orbits in every_action(group, list(range(n)), kinds):
        action = torch.arange(n).repeat(group.order, 1)
        for kind, points in orbits:
            if kind is not None:
                action[:, points] = torch.tensor(points)[torch.from_numpy(kind.moved)]
        images.append(action)
    images = torch.stack(images)
    assert len(images.flatten(1).unique(dim=0)) > 50
    reached = []
    for seed in range(12):
        generator = torch.Generator().manual_seed(seed)
        table = torch.rand(group.order, n, n, dtype=torch.float64, generator=generator)
        table[0] = 0
        values = torch.gather(table.expand(len(images), -1, -1, -1), 3, images[..., None]).sum((1, 2, 3))
        result = best_orbits(group, {g: table[g].numpy() for g in range(1, group.order)})
        own = sum(float(table[g][torch.arange(n), torch.from_numpy(result[g])].sum()) for g in range(1, group.order))
        assert own <= float(values.max()) + 1e-9
        reached.append(own / float(values.max()))
    assert sum(reached) / len(reached) >= share - 1e-12


def test_groups_that_are_too_large_are_refused():
    group = Symmetric(5)
    with pytest.raises(InputError, match="a power of two, or of at most 64 elements; got S5 of order 120"):
        best_representation(group, {g: torch.rand(3, 3) for g in range(1, group.order)})


def test_one_pass_gives_the_correlations_of_all_data():
    """The streaming moments in float32 against the textbook formula in float64 on everything at once."""
    a, b = nets.Residual(option_a=False).eval(), nets.Residual(option_a=False).eval()
    for m in (a, b):  # means far from zero would cancel in a naive sum of squares
        m.bn0.bias.data += 50
    graph = channel_graph(a, (3, 9, 9))
    x = torch.randn(23, 3, 9, 9)
    states = [full_state(a), full_state(b)]
    with torch.no_grad():
        correlations = correlate(graph, states, x.split(5), every=False)
        exact = [{n: v.double() if v.is_floating_point() else v for n, v in s.items()} for s in states]
        sites = {s[0].node: (name, s[0]) for name, s in chosen_sites(graph, every=False).items()}
        for node, values in lockstep(graph, exact, x.double(), set(sites)):
            if node not in sites:
                continue
            name, site = sites[node]
            rows = torch.cat([samples(v, site).reshape(site.size, -1) for v in values])
            n = site.size
            wanted = torch.corrcoef(rows)[:n, n:].nan_to_num(0)
            k, dead, other = correlations[name][0]
            assert torch.equal(dead, rows[:n].var(1) == 0)
            live = ~dead[:, None] & ~other[None]
            torch.testing.assert_close(k[live], wanted[live], atol=2e-5, rtol=0)
            assert not k[~live].any()


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

    def forward(self, x):
        x = x.mul_(2) if not x.requires_grad else x * 2
        return self.b(self.a(x).relu_().mean((2, 3)))


def test_operations_in_place_do_not_reach_the_other_network():
    model = InPlace().eval()
    graph = channel_graph(model, (3, 6, 6))
    x = torch.randn(3, 3, 6, 6)
    kept = x.clone()
    with torch.no_grad():
        *_, (_, out) = lockstep(graph, [full_state(model)] * 2, x, set())
    assert torch.equal(x, kept)
    torch.testing.assert_close(out[0], model(kept.clone()))
    torch.testing.assert_close(out[0], out[1])


def test_the_traced_program_is_the_network():
    model = nets.Dense().eval()
    graph = channel_graph(model, (3, 8, 8))
    for n in (1, 2, 7):
        x = torch.randn(n, 3, 8, 8)
        with torch.no_grad():
            *_, (last, out) = lockstep(graph, [full_state(model)], x, set())
        assert last == "output"
        torch.testing.assert_close(out[0], model(x))


@pytest.mark.parametrize("method", ["activation", "weight"])
@pytest.mark.parametrize("make", [nets.vgg, lambda: nets.Residual(option_a=True), nets.Dense, nets.ChannelsLast])
def test_a_permuted_copy_is_recognized(make, method):
    model = make().eval()
    for p in model.parameters():
        p.data += 0.05 * torch.randn_like(p)
    graph = channel_graph(model, (3, 9, 9) if isinstance(model, nets.Residual) else (3, 8, 8))
    truth = random_permutations(graph, seed=3)
    other = permute(model, truth, graph=graph)
    x = torch.randn(40, *((3, 9, 9) if isinstance(model, nets.Residual) else (3, 8, 8)))
    _, permutations = match_networks(model, other, x, method=method, graph=graph)
    back = permute(other, permutations, graph=graph)
    if method == "weight":  # coordinate descent may stop early on several layers; the first layers decide the rest
        agree = sum(int((truth[n][p] == torch.arange(len(p))).sum()) for n, p in permutations.items())
        assert agree / sum(len(p) for p in permutations.values()) > 0.5
        return
    graph2, dead = graph, 0
    for name, p in permutations.items():
        hit = truth[name][p] == torch.arange(len(p))
        dead += int((~hit).sum())
    assert dead <= 2, "only channels that are dead on these data may be mistaken"
    torch.testing.assert_close(back(x), model(x), atol=1e-5, rtol=1e-4)
    assert graph2 is graph


@pytest.mark.parametrize("method", ["activation", "weight"])
def test_channels_before_and_after_a_padded_shortcut_are_exchanged(method):
    model = nets.Padded().eval()
    graph = channel_graph(model, (3, 9, 9))
    model.norm2.bias.data += 1  # no channel is dead
    truth = torch.tensor([6, 1, 4, 7, 2, 5, 0, 3])
    other = permute(model, {"b2": truth}, graph=graph)
    _, permutations = match_networks(model, other, torch.randn(40, 3, 9, 9), method=method, graph=graph)
    assert torch.equal(permutations["b2"], truth.argsort())


def test_one_hidden_layer_is_matched_by_weights_in_one_step():
    model = nn.Sequential(nn.Linear(6, 30), nn.ReLU(), nn.Linear(30, 4))
    graph = channel_graph(model, (6,))
    truth = random_permutations(graph, seed=1)
    _, permutations = match_networks(model, permute(model, truth, graph=graph), None, method="weight", input_shape=(6,))
    assert torch.equal(truth["0"][permutations["0"]], torch.arange(30))


def symmetric_vgg(symmetry, fields=3, seed=0):
    """A small network that is exactly equivariant: made from any network by averaging over a planted representation."""
    from intertwine.measure.surgery._tied import projected

    torch.manual_seed(seed)
    order = symmetry.order
    model = nets.vgg(fields * order).eval()
    graph = channel_graph(model, (3, 8, 8))
    truth = {g: {} for g in range(order)}
    for k, group in enumerate(graph.groups):
        p = planted(symmetry.group, [[]] * (group.size // order), seed=k)
        for g in range(order):
            truth[g][group.name] = p[g]
    matching = Matching(symmetry, graph, truth, {}, {}, "planted", True, (3, 8, 8))
    return projected(model, matching), graph, truth


@pytest.mark.parametrize("name", ["hflip", "c4", "d4"])
def test_the_symmetry_of_an_equivariant_network_is_found(name):
    symmetry = parse_symmetry(name)
    model, graph, truth = symmetric_vgg(symmetry)
    x = torch.randn(60, 3, 8, 8)
    x = torch.cat([symmetry.apply(g, x) for g in range(symmetry.order)])  # so that an orbit is dead as a whole
    torch.testing.assert_close(model(symmetry.apply(1, x)), model(x), atol=1e-5, rtol=1e-4)
    matching = match(model, x, symmetry, graph=graph)
    for g in range(1, symmetry.order):
        for group in graph.groups:
            live = ~matching.dead[group.name]
            assert torch.equal(matching.permutations[g][group.name][live], truth[g][group.name][live])
            assert matching.correlations[g][group.name][live].min() > 0.999
    assert set(matching.order_histogram(1)["0"]) <= {1, len(truth) if name != "d4" else 4}


def test_other_methods_and_bad_input():
    model = nets.vgg().eval()
    x = torch.randn(20, 3, 8, 8)
    same = match(model, x, "hflip", method="identity")
    assert same.order_histogram() == {"0": {1: 8}, "3": {1: 16}}
    weights = match(model, None, "hflip", method="weight", input_shape=(3, 8, 8))
    p = weights.permutations[1]["3"]
    assert torch.equal(p[p], torch.arange(16))
    free = match(model, x, "c4", constrained=False)
    assert not free.constrained
    with pytest.raises(InputError, match="images, for activation matching"):
        match(model, None, "hflip", input_shape=(3, 8, 8))
    with pytest.raises(InputError, match="hidden channels that can be permuted"):
        match(nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), x, "hflip")
    with pytest.raises(InputError, match=r"two networks of the same architecture; got a difference at 0\.weight"):
        match_networks(nets.vgg(4), nets.vgg(8), x)


def test_a_channel_may_live_while_its_partner_is_dead():
    """On images that rise slowly and fall steeply, only one of two mirrored edge detectors ever answers."""
    model = nn.Sequential(nn.Conv2d(1, 5, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 64, 2))
    edge, other = torch.zeros(3, 3), torch.randn(3, 3)
    edge[1] = torch.tensor([-1.0, 0.0, 1.0])
    kernels = [edge, other, edge.flip(1), torch.zeros(3, 3), other.flip(1)]
    model[0].weight.data = torch.stack(kernels)[:, None]
    model[0].bias.data = torch.tensor([-3.0, 0.0, -3.0, -1.0, 0.0])
    ramp = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0])
    x = (1 + 0.2 * torch.rand(30, 1, 8, 1)) * ramp
    for constrained in (True, False):
        matching = match(model, x, "hflip", constrained=constrained)
        assert matching.dead["0"].tolist() == [True, False, False, True, False]
        assert matching.permutations[1]["0"].tolist() == [2, 4, 0, 3, 1]


def test_a_residual_stream_is_observed_at_every_block():
    """The last site alone used to decide, though a permutation moves the channels at all of them."""
    graph = channel_graph(nets.Residual(option_a=False), (3, 9, 9))
    assert len(chosen_sites(graph)["stem"]) == 2
    x, model = torch.randn(20, 3, 9, 9), nets.Residual(option_a=False).eval()
    each = [match(model, x, "hflip", graph=graph, every_site=every).correlations[1]["stem"] for every in (True, False)]
    assert not torch.allclose(*each)
    default = match(model, x, "hflip", graph=graph).correlations[1]["stem"]
    assert torch.equal(default, each[0])
