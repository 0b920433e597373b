"""The propositions about ReLU networks: both directions, with witnesses that really violate the statement."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from intertwine.errors import InputError
from intertwine.measure import _relu_theory as theory
from intertwine.measure import transform_network
from tests.measure import nets


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
    found = theory.relu_commutes(m, m)
    assert found
    assert torch.equal(found.permutation, p)
    torch.testing.assert_close(found.scales, scales)
    x = torch.randn(1000, n, dtype=torch.float64)
    torch.testing.assert_close(torch.relu(x @ m.T), torch.relu(x) @ m.T)
    others = [(m, 2 * m), (-m, -m)]
    if n > 1:
        bent = m.clone()
        bent[0] += 0.1
        others += [(bent, bent), (invertible(n, 3), invertible(n, 3))]
    for a, b in others:
        found = theory.relu_commutes(a, b)
        assert not found
        assert (torch.relu(a @ found.witness) - b @ torch.relu(found.witness)).abs().max() > 1e-9
    with pytest.raises(InputError, match="a singular one"):
        theory.relu_commutes(torch.zeros(2, 2), torch.zeros(2, 2))


def test_representations_that_commute_with_relu_are_permutations_in_disguise():
    # C3 on three points, conjugated by a positive diagonal
    c = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)
    turn = torch.eye(3, dtype=torch.float64)[[2, 0, 1]]
    powers = torch.stack([torch.linalg.matrix_power(turn, k) for k in range(3)])
    rho = powers * c[None, :, None] / c[None, None, :]
    found, scales = theory.to_permutations(rho)
    torch.testing.assert_close(found, powers)
    torch.testing.assert_close(scales / scales[0], c / c[0])
    for a in range(3):
        for b in range(3):
            torch.testing.assert_close(rho[a] @ rho[b], rho[(a + b) % 3])
    with pytest.raises(InputError, match="another matrix at 1"):
        theory.to_permutations(torch.stack([torch.eye(2), torch.tensor([[0.6, -0.8], [0.8, 0.6]])]))


def test_proposition_2_3_in_both_directions():
    n = 4
    w1, w2 = invertible(n, 1), invertible(n, 2)
    m, _, _ = scaled_permutation(n, 5)
    rho0, rho2 = torch.linalg.inv(w1) @ m @ w1, w2 @ m @ torch.linalg.inv(w2)

    def f(x):
        return w2 @ torch.relu(w1 @ x)

    assert theory.two_layer_equivariance(w1, w2, rho0, rho2)
    for _ in range(50):
        x = torch.randn(n, dtype=torch.float64)
        torch.testing.assert_close(f(rho0 @ x), rho2 @ f(x))
    torch.testing.assert_close(theory.hidden_action(w1, rho0), m)
    wrong = rho2 + 0.01 * torch.eye(n)
    found = theory.two_layer_equivariance(w1, w2, rho0, wrong)
    assert not found
    assert (f(rho0 @ found.witness) - wrong @ f(found.witness)).abs().max() > 1e-9


def test_proposition_b_1():
    n = 5
    w1 = invertible(n, 4)
    sizes = torch.tensor([1.0, 2.0, 0.5, 1.5, 1.0], dtype=torch.float64)
    signs = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
    rows = sizes[:, None] * w1
    for order, holds in (([1, 2, 0, 4, 3], True), ([0, 1, 2, 3, 4], True), ([3, 1, 2, 0, 4], False)):
        p = torch.eye(n, dtype=torch.float64)[order]
        rho0 = torch.linalg.inv(rows) @ p @ rows
        found = theory.scalar_invariance(w1, signs * sizes, rho0)
        assert bool(found) == holds
        x = torch.randn(200, n, dtype=torch.float64) if holds else found.witness[None]
        difference = (torch.relu(x @ rho0.T @ w1.T) - torch.relu(x @ w1.T)) @ (signs * sizes)
        assert (difference.abs().max() < 1e-10) == holds
    with pytest.raises(InputError, match="not zero"):
        theory.scalar_invariance(w1, torch.zeros(n), torch.eye(n))


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
    first, second, rho1 = theory.layerwise_swap_net(w1, w2)
    x = torch.randn(500, 2, dtype=torch.float64)
    torch.testing.assert_close(torch.relu(x @ first.T) @ second, torch.relu(x @ w1.T) @ w2)
    torch.testing.assert_close(rho1 @ first, first @ SWAP)
    torch.testing.assert_close(second @ rho1, second)
    assert first.shape == w1.shape


def test_networks_that_are_not_swap_invariant():
    for w1, w2 in (([[1.0, 2.0], [2.0, 1.0]], [1.0, -1.0]), ([[1.0, 0.0], [0.0, 2.0]], [1.0, 1.0])):
        w1, w2 = torch.tensor(w1, dtype=torch.float64), torch.tensor(w2, dtype=torch.float64)
        found = theory.swap_invariant(w1, w2)
        assert not found
        x = found.witness
        assert (torch.relu(w1 @ x) @ w2 - torch.relu(w1 @ SWAP @ x) @ w2).abs() > 1e-6
        with pytest.raises(InputError, match="invariant to the swap"):
            theory.layerwise_swap_net(w1, w2)


def test_example_2_1():
    """W1 = (1 0), W2 = 0: the function is 0, but no ρ1 exists; with W1 = 0 there is one."""
    assert theory.hidden_action(torch.tensor([[1.0, 0.0]]), SWAP) is None
    assert theory.hidden_action(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), SWAP) is None
    assert theory.hidden_action(torch.zeros(1, 2), SWAP) is not None
    assert theory.hidden_action(torch.eye(2), SWAP).equal(SWAP)


def test_example_c_1():
    zero, plain, two = theory.absolute_value_errors(torch.randn(200_000))
    assert plain / zero == pytest.approx(0.5, abs=0.01)
    assert two == 0.0


def test_lemma_e_1():
    m, _, _ = scaled_permutation(3, 1)
    nothing = torch.zeros(3, dtype=torch.float64)
    assert theory.affine_relu_witness(m, m, nothing, nothing)
    for a, b in ((torch.tensor([0.1, 0.0, 0.0]), nothing), (nothing, torch.tensor([0.0, -0.2, 0.0]))):
        found = theory.affine_relu_witness(m, m, a, b)
        assert not found
        x = found.witness
        assert (torch.relu(m @ x + a.double()) - m @ torch.relu(x) - b.double()).abs().max() > 1e-9
    assert not theory.affine_relu_witness(m, 2 * m, nothing, nothing)


def test_mirrored_training_stays_mirrored():
    """From mirrored starts, on mirrored batches, two networks remain mirror images of each other."""
    model = nets.vgg(6).double()
    mirrored = transform_network(model, "hflip", 1, input_shape=(3, 8, 8))
    pair = [copy.deepcopy(model), mirrored]
    start = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m in pair]
    for _ in range(5):
        x, y = torch.randn(16, 3, 8, 8, dtype=torch.float64), torch.randint(5, (16,))
        for m, images, optimizer in zip(pair, (x, x.flip(3)), optimizers, strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(m(images), y).backward()
            optimizer.step()
    again = transform_network(pair[0], "hflip", 1, input_shape=(3, 8, 8))
    for p, q, first in zip(again.parameters(), pair[1].parameters(), start.parameters(), strict=True):
        torch.testing.assert_close(p, q, atol=1e-12, rtol=0)
        assert not torch.allclose(p, first)
