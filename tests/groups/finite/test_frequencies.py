"""Irreducibles of cyclic and dihedral groups in closed form, against those computed from the table."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from intertwine.errors import InputError
from intertwine.groups import O2, SO2, Cyclic, Dihedral, FiniteGroup, Representation, Symmetric
from intertwine.groups.finite import _irreps
from intertwine.testing import homomorphism_residual

GROUPS = [*(Cyclic(n) for n in range(1, 14)), *(Dihedral(n) for n in range(1, 11))]


def characters(matrices) -> list[tuple[float, ...]]:
    return sorted(tuple((np.einsum("gii->g", m.numpy()).round(6) + 0.0).tolist()) for m in matrices)


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_they_are_the_computed_ones(group):
    computed = _irreps._compute(group.table.numpy())
    assert characters(computed) == characters([rho.matrices for rho in group.irreps])
    for rho in group.irreps:
        assert rho.is_orthogonal
        assert homomorphism_residual(rho, group.elements[:, None], group.elements) < 1e-12
        assert (rho.character(group.elements) - torch.einsum("gii->g", rho.matrices)).abs().max() < 1e-12
        for g in (0, group.order - 1):
            assert torch.equal(rho(g), rho.matrices[g])


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_cyclic_frequencies(n):
    group = Cyclic(n)
    assert group.irreps == tuple(group.irrep(k) for k in range(n // 2 + 1))
    for k in range(1, (n + 1) // 2):
        turn = SO2().from_angle(2 * torch.pi * k / n)
        assert (group.irrep(k)(1) - turn).abs().max() < 1e-12
        assert group.irrep(k).kind == "complex"
    if n % 2 == 0:
        assert group.irrep(n // 2)(1).tolist() == [[-1.0]]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8])
def test_dihedral_frequencies(n):
    group = Dihedral(n)
    assert group.irrep(0) == group.trivial
    assert group.irrep(0, -1)(n).tolist() == [[-1.0]]
    assert group.irrep(0, -1)(n - 1).tolist() == [[1.0]]
    for k in range(1, (n + 1) // 2):
        assert (group.irrep(k).matrices - O2().irrep(k).restrict(group).matrices).abs().max() < 1e-12
        assert group.irrep(k).kind == "real"
    if n > 2:
        assert group.irrep(1) == group.standard
    if n % 2 == 0:
        for parity in (1, -1):
            rho = group.irrep(n // 2, parity)
            assert (float(rho(1)), float(rho(n))) == (-1.0, parity)
        assert group.irrep(n // 2) == group.irrep(n // 2, 1)


def test_groups_that_share_the_table_share_the_order():
    plain = FiniteGroup(Dihedral(6).table.numpy())
    assert plain.irreps == Dihedral(6).irreps
    assert [rho.name for rho in Dihedral(8).subgroup([2]).irreps] == ["trivial", "irrep(1)", "irrep(2)"]
    turned = Dihedral(8).subgroup([2, 9])  # four turns, and mirrors that do not keep the square
    assert [rho.dim for rho in turned.irreps] == [1, 1, 2, 1, 1]
    assert all(homomorphism_residual(rho, turned.elements[:, None], turned.elements) < 1e-12 for rho in turned.irreps)


def test_another_table_of_the_same_group_is_computed():
    s3 = Symmetric(3)  # the mirrors of a triangle, in another order
    assert [rho.name for rho in s3.irreps] == ["trivial", "irrep1", "irrep2"]


def test_nothing_is_stored_for_an_irreducible():
    group = Cyclic(2000)
    assert len(group.irreps) == 1001
    pairs = group.irreps[1:-1]
    shared = pairs[0]._rotations
    assert all(rho._rotations is shared and "matrices" not in vars(rho) for rho in pairs)
    assert (group.irrep(999)(1999) - SO2().from_angle(2 * torch.pi * 999 / 2000).T).abs().max() < 1e-12


class TestRefusals:
    @pytest.mark.parametrize("frequency", [-1, 5, 1.0, True, "1", None])
    def test_frequencies(self, frequency):
        with pytest.raises(
            InputError, match=r"irrep: expected (one of trivial, irrep\(1\)|frequency to be a whole number)"
        ):
            Cyclic(8).irrep(frequency)

    @pytest.mark.parametrize(("frequency", "parity"), [(1, 1), (1, -1), (0, 2), (2, True), (3, None), (0, 0)])
    def test_parities(self, frequency, parity):
        with pytest.raises(InputError, match=r"irrep: expected (one of|parity to be a whole number)"):
            Dihedral(4).irrep(frequency, parity)

    def test_elements_outside(self):
        rho: Representation = Cyclic(8).irrep(1)
        with pytest.raises(InputError, match=r"elements 0[.][.]7; got 8"):
            rho(8)
