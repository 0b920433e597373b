"""Linear maps on finite homogeneous spaces: all of them, and the well-known special cases."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import EmptyKernelSpaceError, InputError, SubgroupError, TypeMismatchError
from intertwine.groups import Alternating, Cyclic, Dihedral, FiniteGroup, Symmetric
from intertwine.kernels import brute_force, solve
from intertwine.nn import CosetLinear, ReLU, Sequential
from intertwine.spaces import Grid2d, HomogeneousSpace
from intertwine.testing import assert_equivariant

D4, S4, S5 = Dihedral(4), Symmetric(4), Symmetric(5)


def matrix(layer: CosetLinear) -> torch.Tensor:
    """The layer's matrix without its bias, as (d2, points2, d1, points1)."""
    size = layer.in_type.total_dim
    basis = torch.eye(size, dtype=torch.float64).view(size, layer.in_type.dim, -1)
    with torch.no_grad():
        columns = layer.double()(basis) - layer(torch.zeros_like(basis[:1]))
    return columns.flatten(1).T.reshape(layer.out_type.dim, -1, *basis.shape[1:])


class TestSpecialCases:
    def test_deep_sets(self):
        """λ f(x) + μ Σ_y f(y) + b for each pair of channels, and nothing else."""
        points = HomogeneousSpace(S5, S5.fixing(0))
        layer = CosetLinear(points.field(3 * points.subgroup.trivial), points.field(2 * points.subgroup.trivial))
        assert [tuple(w.shape) for w in layer.weights] == [(2, 3, 2)]
        dense = matrix(layer)
        same = dense[:, 0, :, 0]
        other = dense[:, 0, :, 1]
        eye = torch.eye(5, dtype=torch.float64)
        expected = torch.einsum("ab,xy->axby", same - other, eye) + torch.einsum(
            "ab,xy->axby", other, torch.ones_like(eye)
        )
        assert torch.equal(dense, expected)
        assert layer.bias is not None
        assert layer.bias.shape == (2,)

    def test_graph_layer_has_fifteen_maps_and_two_biases(self):
        """Maps of n x n arrays that commute with a permutation of rows and columns (Maron et al. 2019)."""
        point = HomogeneousSpace(S4, S4.whole)
        pairs = S4.quotient(S4.fixing(0)) @ S4.quotient(S4.fixing(0))
        layer = CosetLinear(point.field(pairs), point.field(pairs)).double()
        assert [tuple(w.shape) for w in layer.weights] == [(1, 1, 15)]
        assert layer.bias.shape == (2,)  # on and off the diagonal
        with torch.no_grad():
            layer.bias.normal_()
        a = torch.randn(2, 4, 4, dtype=torch.float64)
        p = torch.tensor([2, 0, 3, 1])
        moved = layer(a[:, p][:, :, p].reshape(2, 16, 1)).view(2, 4, 4)
        assert torch.allclose(moved, layer(a.reshape(2, 16, 1)).view(2, 4, 4)[:, p][:, :, p], atol=1e-13)

    def test_pairs_without_the_diagonal(self):
        """Ordered pairs (i, j), i ≠ j, are S_n over the permutations that fix two points: 7 maps."""
        pairs = HomogeneousSpace(S5, S5.fixing(0, 1))
        assert pairs.points == 20
        layer = CosetLinear(pairs.field(pairs.subgroup.trivial), pairs.field(pairs.subgroup.trivial))
        assert layer.weights[0].shape == (1, 1, 7)
        assert assert_equivariant(layer) < 1e-13

    def test_circular_convolution(self):
        """Scalars on the group itself: C_n gives a circulant matrix."""
        line = HomogeneousSpace(Cyclic(6), Cyclic(6).subgroup([]))
        layer = CosetLinear(line.field(line.subgroup.trivial), line.field(line.subgroup.trivial))
        dense = matrix(layer)[0, :, 0]
        assert len(set(dense.flatten().tolist())) == 6
        assert torch.equal(dense.roll((1, 1), (0, 1)), dense)

    def test_a_group_of_the_users_own(self):
        """Any permutations generate a group."""
        mine = FiniteGroup.from_permutations([[1, 2, 3, 4, 0, 5], [0, 1, 2, 3, 5, 4]], name="mine")
        points = HomogeneousSpace(mine, mine.fixing(0))
        layer = CosetLinear(points.field(2 * points.subgroup.trivial), points.field(points.subgroup.trivial))
        assert assert_equivariant(layer) < 1e-13


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize(
    ("group", "gens1", "gens2"), [(D4, [4], [1]), (D4, [], [4]), (S4, [1], [2, 3]), (Alternating(4), [1], [])]
)
def test_it_is_the_most_general_map(group, gens1, gens2, copies):
    """For all pairs of irreducibles and for regular fields: as many weights as the brute-force null space has."""
    h1, h2 = group.subgroup(gens1), group.subgroup(gens2)
    a, b = HomogeneousSpace(group, h1), HomogeneousSpace(group, h2)
    for rho1 in (*h1.irreps, h1.regular):
        for rho2 in (h2.irreps[-1], h2.regular):
            one = a.field(rho1), b.field(rho2)
            dim = len(brute_force(*one))
            if dim == 0:
                with pytest.raises(EmptyKernelSpaceError, match="CosetLinear: expected an equivariant map"):
                    CosetLinear(*one)
                continue
            layer = CosetLinear(a.field(copies * rho1), b.field(copies * rho2))
            assert sum(w.numel() for w in layer.weights) == dim * copies**2
            assert assert_equivariant(layer) < 1e-12
            if copies == 1:
                span = solve(*one).operator().flatten(1)
                flat = matrix(layer).flatten()
                rest = flat - span.T @ torch.linalg.lstsq(span.T, flat[:, None]).solution[:, 0]
                assert rest.abs().max() < 1e-12


def test_unit_variance():
    torch.manual_seed(0)
    for group, gens in ((S4, [1, 2]), (D4, [4])):
        h = group.subgroup(gens)
        space = HomogeneousSpace(group, h)
        for rho in (h.trivial, h.regular, h.irreps[-1], h.trivial + h.irreps[-1] + h.regular):
            field = space.field(16 * rho)
            layer = CosetLinear(field, field)
            with torch.no_grad():
                y = layer(torch.randn(400, field.dim, space.points))
            assert 0.8 < float(y.var()) < 1.25


def test_a_network_on_sets():
    """Elements come in any order: features go with them, a pooled output stays."""
    points, point = HomogeneousSpace(S4, S4.fixing(0)), HomogeneousSpace(S4, S4.whole)
    hidden = points.field(8 * points.subgroup.trivial)
    net = Sequential(
        CosetLinear(points.field(3 * points.subgroup.trivial), hidden, gain=2**0.5),
        ReLU(hidden),
        CosetLinear(hidden, point.field(2 * S4.whole.trivial)),
    )
    assert assert_equivariant(net) < 1e-13
    x = torch.randn(5, 3, 4)
    assert torch.allclose(net(x), net(x[..., [3, 0, 2, 1]]), atol=1e-6)


def test_errors():
    points = HomogeneousSpace(S4, S4.fixing(0))
    scalars = points.field(points.subgroup.trivial)
    with pytest.raises(TypeMismatchError, match="use Conv2d or Conv3d"):
        CosetLinear(scalars, Grid2d(D4).field(D4.trivial))
    with pytest.raises(SubgroupError, match="two spaces of one group"):
        CosetLinear(scalars, HomogeneousSpace(D4, D4.subgroup([4])).field(D4.subgroup([4]).trivial))
    with pytest.raises(InputError, match="the 4 points of S4"):
        CosetLinear(scalars, scalars)(torch.zeros(1, 1, 5))
    with pytest.raises(SubgroupError, match=r"points 0\.\.3; got \[4\]"):
        S4.fixing(4)
    with pytest.raises(SubgroupError, match="a group of permutations"):
        D4.fixing(0)
