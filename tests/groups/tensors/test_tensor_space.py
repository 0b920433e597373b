"""Tensors with index symmetries: equivariance, dimensions, change of basis, refusals, and e3nn's answers."""

from __future__ import annotations

from math import comb

import pytest
import torch

from intertwine.errors import InputError, ParseError, RepresentationError
from intertwine.groups import O2, O3, SO3, Cyclic, Dihedral, Octahedral, TensorSpace

FORMULAS = ["i", "ij", "ij=ji", "ij=-ji", "ijk=jik=ikj", "ijk=-jik", "ijk=jki", "ijkl=jikl=klij"]


def elements(group):
    noise = torch.Generator().manual_seed(0)
    return torch.arange(group.order) if group.is_finite else group.sample(5, noise)


def moved(matrices, t):
    """T_ij... to ρ(g)_ii' ρ(g)_jj' ... T_i'j'..., for every element."""
    for axis in range(1, t.ndim):
        t = torch.einsum("nab,n...b->n...a", matrices, t.movedim(axis, -1)).movedim(-1, axis)
    return t


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("group", [O3(), O2(), Octahedral(), Dihedral(4)], ids=lambda g: g.name)
def test_coordinates_move_by_irreps(group, formula):
    space = TensorSpace(formula, group.standard)
    g = elements(group)
    order, d = len(formula.split("=")[0]), group.standard.dim
    t = torch.randn(len(g), *[d] * order, dtype=torch.float64)
    left = space.to_irreps(moved(group.standard(g), t))
    right = torch.einsum("nij,nj->ni", space.rho(g), space.to_irreps(t))
    assert (left - right).abs().max() < 1e-10
    assert all(psi.endomorphism_dim in (1, 2) and len(psi.decompose().irreps) == 1 for psi in space.rho.atoms)
    flat = space.basis.flatten(1)
    assert (flat @ flat.T - torch.eye(len(flat), dtype=torch.float64)).abs().max() < 1e-10


def test_the_symmetries_hold():
    x = torch.randn(4, 3, dtype=torch.float64)
    t = TensorSpace("ij=-ji", O3().standard).from_irreps(x)
    assert (t + t.mT).abs().max() < 1e-12
    elastic = TensorSpace("ijkl=jikl=klij", O3().standard)
    assert elastic.rho.dim == 21
    c = elastic.from_irreps(torch.randn(21, dtype=torch.float64))
    assert (c - c.permute(1, 0, 2, 3)).abs().max() < 1e-12
    assert (c - c.permute(2, 3, 0, 1)).abs().max() < 1e-12


def test_dimensions():
    for d, group in ((2, O2()), (3, SO3())):
        symmetric = TensorSpace("ijk=jik=ikj", group.standard)
        assert symmetric.rho.dim == comb(d + 2, 3)
    assert TensorSpace("ijk=-jik=-ikj", SO3().standard).rho == SO3().trivial  # the determinant
    assert TensorSpace("ijk=-jik=-ikj", O3().standard).rho == O3().irrep(0, -1)
    assert TensorSpace("ij=ji", SO3().irrep(2)).rho.name == "trivial + irrep(2) + irrep(4)"


def test_projection():
    """A matrix without symmetry keeps its symmetric part only."""
    t = torch.randn(3, 3, dtype=torch.float64)
    space = TensorSpace("ij=ji", SO3().standard)
    assert (space.from_irreps(space.to_irreps(t)) - (t + t.T) / 2).abs().max() < 1e-12


def test_different_indices():
    group = O3()
    space = TensorSpace("ijk=jik", {"i": group.standard, "j": group.standard, "k": group.irrep(2)})
    assert space.basis.shape == (30, 3, 3, 5)
    with pytest.raises(RepresentationError, match="one representation for the indices"):
        TensorSpace("ij=ji", {"i": group.standard, "j": group.irrep(0)})
    with pytest.raises(InputError, match="one representation for each of i, j"):
        TensorSpace("ij", {"i": group.standard})


def test_a_representation_that_is_not_orthogonal():
    group = Cyclic(2)
    skew = group.representation({1: [[1.0, 1.0], [0.0, -1.0]]})
    space = TensorSpace("ij=ji", skew)
    t = torch.randn(2, 2, dtype=torch.float64)
    t = t + t.T
    m = skew(1)
    assert (space.to_irreps(m @ t @ m.T) - space.rho(1) @ space.to_irreps(t)).abs().max() < 1e-12
    assert (space.from_irreps(space.to_irreps(t)) - t).abs().max() < 1e-12


@pytest.mark.parametrize("formula", ["", "ii", "ij=ik", "ij=j", "-ij", "ij=+-ji", "ij=", "IJ"])
def test_formulas_that_make_no_sense(formula):
    with pytest.raises(ParseError, match="permutations of them"):
        TensorSpace(formula, SO3().standard)


@pytest.mark.parametrize("formula", ["ij=-ij", "ijk=jik=-jik", "ijk=jki=-ikj=-jik=ikj"])
def test_formulas_that_leave_nothing(formula):
    with pytest.raises(InputError, match="nonzero tensors"):
        TensorSpace(formula, SO3().standard)


def test_shapes():
    space = TensorSpace("ij=ji", SO3().standard)
    with pytest.raises(InputError, match=r"tensors \(\.\.\., 3, 3\)"):
        space.to_irreps(torch.zeros(3, 2))
    with pytest.raises(InputError, match=r"coordinates \(\.\.\., 6\)"):
        space.from_irreps(torch.zeros(5))
    assert space.to_irreps(torch.zeros(2, 7, 3, 3)).shape == (2, 7, 6)  # in the dtype of the input
    assert space.to_irreps(torch.zeros(3, 3)).dtype == torch.float32


@pytest.mark.slow
@pytest.mark.parametrize("formula", ["ij", "ij=ji", "ij=-ji", "ijk=jik=ikj", "ijk=-jik=-ikj", "ijkl=jikl=klij"])
def test_as_e3nn(formula):
    """The same irreps as often, and the same tensors of each degree: bases may differ, the spaces may not."""
    o3 = pytest.importorskip("e3nn.o3")
    theirs = o3.ReducedTensorProducts(formula, **dict.fromkeys(formula.split("=")[0], "1o"))
    ours = TensorSpace(formula, O3().standard)
    basis = theirs.change_of_basis.double().flatten(1)
    for (mul, ir), where in zip(theirs.irreps_out, theirs.irreps_out.slices(), strict=True):
        psi = O3().irrep(ir.l, ir.p)
        assert ours.rho.count(psi) == mul
        own = torch.cat([ours.basis.flatten(1)[t.channels] for t in ours.rho.terms if t.rho == psi])
        q = torch.linalg.qr(basis[where].T)[0]
        assert (q @ q.T - own.T @ own).abs().max() < 1e-5
