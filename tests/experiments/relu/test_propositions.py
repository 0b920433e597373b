"""The propositions about ReLU networks: both directions, with witnesses that really violate the statement."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from torch import nn

from intertwine.errors import InputError
from intertwine.experiments.relu import (
    absolute_value_errors,
    affine_relu_witness,
    co_occurring_features,
    hidden_action,
    layerwise_quotient,
    layerwise_swap_net,
    mirrored_training_gap,
    pushed_action,
    relu_commutes,
    scalar_invariance,
    swap_invariant,
    to_permutations,
    two_layer_equivariance,
)
from intertwine.groups import Cyclic, Dihedral
from intertwine.measure import Symmetry
from intertwine.spaces import Grid2d
from tests.measure import nets
from tests.measure.matching.test_matching import planted


def scaled_permutation(n, seed):
    generator = torch.Generator().manual_seed(seed)
    p = torch.randperm(n, generator=generator)
    scales = 0.5 + torch.rand(n, generator=generator, dtype=torch.float64)
    return torch.eye(n, dtype=torch.float64)[p] @ torch.diag(scales), p, scales


def invertible(n, seed):
    return torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 3 * torch.eye(n)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_lemma_2_2(n):
    m, p, scales = scaled_permutation(n, n)
    verdict = relu_commutes(m, m)
    assert verdict
    assert torch.equal(verdict.permutation, p)
    torch.testing.assert_close(verdict.scales, scales)
    x = torch.randn(1000, n, dtype=torch.float64)
    torch.testing.assert_close(torch.relu(x @ m.T), torch.relu(x) @ m.T)
    others = [(m, 2 * m), (-m, -m)]
    if n > 1:
        bent = m.clone()
        bent[0] += 0.1
        others += [(bent, bent), (invertible(n, 3), invertible(n, 3))]
    for a, b in others:
        verdict = relu_commutes(a, b)
        assert not verdict
        assert (torch.relu(a @ verdict.witness) - b @ torch.relu(verdict.witness)).abs().max() > 1e-9
    with pytest.raises(InputError, match="a singular one"):
        relu_commutes(torch.zeros(2, 2), torch.zeros(2, 2))


def test_representations_that_commute_with_relu_are_permutations_in_disguise():
    # C3 on three points, conjugated by a positive diagonal
    c = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)
    turn = torch.eye(3, dtype=torch.float64)[[2, 0, 1]]
    powers = torch.stack([torch.linalg.matrix_power(turn, k) for k in range(3)])
    rho = powers * c[None, :, None] / c[None, None, :]
    result, scales = to_permutations(rho)
    torch.testing.assert_close(result, powers)
    torch.testing.assert_close(scales / scales[0], c / c[0])
    for a in range(3):
        for b in range(3):
            torch.testing.assert_close(rho[a] @ rho[b], rho[(a + b) % 3])
    with pytest.raises(InputError, match="another kind of matrix at index 1"):
        to_permutations(torch.stack([torch.eye(2), torch.tensor([[0.6, -0.8], [0.8, 0.6]])]))


def test_proposition_2_3_in_both_directions():
    n = 4
    w1, w2 = invertible(n, 1), invertible(n, 2)
    m, _, _ = scaled_permutation(n, 5)
    rho0, rho2 = torch.linalg.inv(w1) @ m @ w1, w2 @ m @ torch.linalg.inv(w2)

    def f(x):
        return w2 @ torch.relu(w1 @ x)

    assert two_layer_equivariance(w1, w2, rho0, rho2)
    for _ in range(50):
        x = torch.randn(n, dtype=torch.float64)
        torch.testing.assert_close(f(rho0 @ x), rho2 @ f(x))
    torch.testing.assert_close(hidden_action(w1, rho0), m)
    wrong = rho2 + 0.01 * torch.eye(n)
    verdict = two_layer_equivariance(w1, w2, rho0, wrong)
    assert not verdict
    assert (f(rho0 @ verdict.witness) - wrong @ f(verdict.witness)).abs().max() > 1e-9


def test_proposition_b_1():
    n = 5
    w1 = invertible(n, 4)
    sizes = torch.tensor([1.0, 2.0, 0.5, 1.5, 1.0], dtype=torch.float64)
    signs = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
    rows = sizes[:, None] * w1
    for order, holds in (([1, 2, 0, 4, 3], True), ([0, 1, 2, 3, 4], True), ([3, 1, 2, 0, 4], False)):
        p = torch.eye(n, dtype=torch.float64)[order]
        rho0 = torch.linalg.inv(rows) @ p @ rows
        verdict = scalar_invariance(w1, signs * sizes, rho0)
        assert bool(verdict) == holds
        x = torch.randn(200, n, dtype=torch.float64) if holds else verdict.witness[None]
        difference = (torch.relu(x @ rho0.T @ w1.T) - torch.relu(x @ w1.T)) @ (signs * sizes)
        assert (difference.abs().max() < 1e-10) == holds
    with pytest.raises(InputError, match="nonzero weights"):
        scalar_invariance(w1, torch.zeros(n), torch.eye(n))


SWAP = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("w1", "w2"),
    [
        ([[1.0, 2.0], [4.0, 2.0]], [2.0, 1.0]),  # rank 2: rows exchanged, after scaling
        ([[1.0, 1.0], [-3.0, -3.0]], [1.0, -2.0]),  # rank 1, v1 = v2
        ([[1.0, 1.0], [5.0, 7.0]], [3.0, 0.0]),  # a unit that is not used
        ([[1.0, -2.0], [3.0, -6.0]], [3.0, -1.0]),  # units that cancel: the zero function
        ([[1.0, -1.0], [-2.0, 2.0]], [-2.0, -1.0]),  # −|2(x1 − x2)|
        ([[0.0, 0.0], [0.0, 0.0]], [1.0, 1.0]),
    ],
)
def test_proposition_d_1(w1, w2):
    w1, w2 = torch.tensor(w1, dtype=torch.float64), torch.tensor(w2, dtype=torch.float64)
    first, second, rho1 = layerwise_swap_net(w1, w2)
    x = torch.randn(500, 2, dtype=torch.float64)
    torch.testing.assert_close(torch.relu(x @ first.T) @ second, torch.relu(x @ w1.T) @ w2)
    torch.testing.assert_close(rho1 @ first, first @ SWAP)
    torch.testing.assert_close(second @ rho1, second)
    assert first.shape == w1.shape


def test_networks_that_are_not_swap_invariant():
    for w1, w2 in (([[1.0, 2.0], [2.0, 1.0]], [1.0, -1.0]), ([[1.0, 0.0], [0.0, 2.0]], [1.0, 1.0])):
        w1, w2 = torch.tensor(w1, dtype=torch.float64), torch.tensor(w2, dtype=torch.float64)
        verdict = swap_invariant(w1, w2)
        assert not verdict
        x = verdict.witness
        assert (torch.relu(w1 @ x) @ w2 - torch.relu(w1 @ SWAP @ x) @ w2).abs() > 1e-6
        with pytest.raises(InputError, match="invariant to the swap"):
            layerwise_swap_net(w1, w2)


def test_example_2_1():
    """W1 = (1 0), W2 = 0: the function is 0, but no ρ1 exists; with W1 = 0 there is one."""
    assert hidden_action(torch.tensor([[1.0, 0.0]]), SWAP) is None
    assert hidden_action(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), SWAP) is None
    assert hidden_action(torch.zeros(1, 2), SWAP) is not None
    assert hidden_action(torch.eye(2), SWAP).equal(SWAP)


def test_example_c_1():
    zero, plain, two = absolute_value_errors(torch.randn(200_000))
    assert plain / zero == pytest.approx(0.5, abs=0.01)
    assert two == 0.0


def test_lemma_e_1():
    m, _, _ = scaled_permutation(3, 1)
    nothing = torch.zeros(3, dtype=torch.float64)
    assert affine_relu_witness(m, m, nothing, nothing)
    for a, b in ((torch.tensor([0.1, 0.0, 0.0]), nothing), (nothing, torch.tensor([0.0, -0.2, 0.0]))):
        verdict = affine_relu_witness(m, m, a, b)
        assert not verdict
        x = verdict.witness
        assert (torch.relu(m @ x + a.double()) - m @ torch.relu(x) - b.double()).abs().max() > 1e-9
    assert not affine_relu_witness(m, 2 * m, nothing, nothing)


def test_example_c_1_needs_a_symmetric_law_and_a_second_unit():
    zero, plain, two = absolute_value_errors(torch.rand(1000) + 0.1)
    assert zero > 0.1
    assert (plain, two) == (0.0, 0.0), "on positive numbers alone one unit is enough"
    # With one hidden unit the mirror x ↦ −x would have to act on it by −1, which does not commute with ReLU.
    action = hidden_action(torch.ones(1, 1), -torch.ones(1, 1))
    assert action.item() == -1.0
    assert not relu_commutes(action, action)
    both = torch.tensor([[1.0], [-1.0]])
    action = hidden_action(both, -torch.ones(1, 1))
    assert (SWAP @ both.double() == -both.double()).all()
    assert relu_commutes(SWAP, SWAP)
    assert action is not None


def actions(group, orbits):
    """All elements of a group on a disjoint union of coset spaces, as images of points."""
    return torch.stack([p.argsort() for _, p in sorted(planted(group, orbits).items())])


@pytest.mark.parametrize("group", [Cyclic(3), Dihedral(3), Dihedral(4)])
def test_lemma_d_3(group):
    """Against all permutations of the values, tried one by one."""
    action = actions(group, [[], [1]])
    n = action.shape[1]
    generator, result = torch.Generator().manual_seed(0), set()
    bijection = torch.randperm(n, generator=generator)
    pushed = pushed_action(bijection, action)
    for g in range(group.order):
        assert torch.equal(pushed.action[g], bijection[action[g][bijection.argsort()]]), "f g f⁻¹"
    invariant = [pushed_action(torch.zeros(n, dtype=torch.long), action)]
    assert invariant[0].action.eq(0).all()
    orbits = torch.tensor([min(action[:, i].tolist()) for i in range(n)])
    halves = [orbits, orbits.eq(orbits[0]).long(), *(torch.randint(3, (n,), generator=generator) for _ in range(20))]
    for f in halves:
        pushed = pushed_action(f, action)
        values, place = f.unique(return_inverse=True)
        possible = [
            any(torch.equal(torch.tensor(p)[place], place[action[g]]) for p in permutations(range(len(values))))
            for g in range(group.order)
        ]
        assert bool(pushed) == all(possible)
        result.add(bool(pushed))
        if pushed:
            assert torch.equal(pushed.action[:, place], place[action])
            for a in range(group.order):
                for b in range(group.order):
                    product = pushed.action[int(group.compose(a, b))]
                    assert torch.equal(pushed.action[a][pushed.action[b]], product), "an action again"
        else:
            g, x, y = pushed.witness
            assert f[x] == f[y]
            assert f[action[g, x]] != f[action[g, y]]
    assert result == {True, False}
    with pytest.raises(InputError, match="a permutation of"):
        pushed_action(torch.zeros(3), torch.zeros(2, 3, dtype=torch.long))
    with pytest.raises(InputError, match="a product that is not in the table"):
        pushed_action(torch.zeros(3), torch.tensor([[0, 1, 2], [1, 2, 0]]))


def test_proposition_d_4():
    group = Dihedral(3)
    action0, action2 = actions(group, [[], [1]]), actions(group, [[3], [1, 3]])
    n = action0.shape[1]
    generator = torch.Generator().manual_seed(1)
    made = 0
    for _ in range(60):
        # An equivariant whole: choose the values at one point of each orbit among those with a large enough stabilizer.
        whole = torch.full((n,), -1)
        for x in range(n):
            if whole[x] < 0:
                fixing = [g for g in range(group.order) if action0[g, x] == x]
                free = [y for y in range(action2.shape[1]) if all(action2[g, y] == y for g in fixing)]
                y = free[int(torch.randint(len(free), (), generator=generator))]
                for g in range(group.order):
                    whole[action0[g, x]] = action2[g, y]
        # Cut it anywhere: the middle tells apart at least what the output does, with random further differences.
        middle = whole * 3 + torch.randint(3, (n,), generator=generator)
        names, f1 = middle.unique(return_inverse=True)
        f2 = names // 3
        first, second, action1 = layerwise_quotient(f1, f2, action0, action2)
        assert torch.equal(second[first], whole)
        assert torch.equal(first[action0], action1[:, first])
        assert torch.equal(second[action1], action2[:, second])
        assert len(second) <= len(f2)
        if not pushed_action(f1, action0):
            made += 1
            assert len(second) < len(f2)
    assert made
    same, _, action1 = layerwise_quotient(torch.arange(n), whole, action0, action2)
    assert torch.equal(same, torch.arange(n)), "a bijective first layer is left as it is"
    assert torch.equal(action1, action0)
    wrong = whole.clone()
    wrong[0] = (wrong[0] + 1) % action2.shape[1]
    with pytest.raises(InputError, match="composition is equivariant; got another value at point"):
        layerwise_quotient(torch.arange(n), wrong, action0, action2)


def small_data(size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(80, 3, size, size, dtype=torch.float64, generator=generator)
    return x, torch.arange(80) % 5


@pytest.mark.parametrize(("symmetry", "element"), [("hflip", 1), ("c4", 1), ("d4", 5)])
def test_mirrored_training_stays_mirrored(symmetry, element):
    """From mirrored starts, on mirrored batches, two networks remain mirror images of each other; else they do not."""
    torch.manual_seed(0)
    model = nets.vgg(6, norm=True).double()
    data = small_data(8)
    gap, distance = mirrored_training_gap(model, *data, symmetry, element=element, batch_size=16)
    assert gap < 1e-11
    assert distance > 1e-2
    other, _ = mirrored_training_gap(model, *data, symmetry, element=element, batch_size=16, mirrored=False)
    assert other > 1e-3, "on the same batches they part"


def test_mirrored_training_takes_every_form_of_a_symmetry():
    torch.manual_seed(0)
    model, plane = nets.vgg(6).double(), Grid2d("D4")
    gaps = [mirrored_training_gap(model, *small_data(8), s, element=2) for s in ("d4", plane, Symmetry(plane))]
    assert gaps[0] == gaps[1] == gaps[2]


def test_mirrored_training_where_a_stride_does_not_fit():
    torch.manual_seed(0)

    def net():
        return nn.Sequential(
            nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5)
        ).double()

    assert mirrored_training_gap(net(), *small_data(9))[0] < 1e-12, "an odd size"
    assert mirrored_training_gap(net(), *small_data(8))[0] > 1e-3, "an even size: the stride breaks the mirror"
    with pytest.raises(InputError, match="one label per image"):
        mirrored_training_gap(net(), small_data(9)[0], torch.zeros(3))


def test_features_that_come_in_pairs_need_no_paired_filters():
    example = co_occurring_features()
    assert example.error == 0
    assert example.error_alone == pytest.approx(2.0)
    assert example.merged == 0
    outputs = example.network(example.images)
    assert bool((outputs > 0).all()), "the network sees the pattern in every image"
    assert torch.equal(outputs, example.network(example.images.flip(3)))
