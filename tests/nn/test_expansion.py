"""Filters made from free weights: the same spaces as the solver's, whichever way they are made."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import EmptyKernelSpaceError
from intertwine.groups import O2, SO2, Cyclic, Dihedral
from intertwine.kernels import solve
from intertwine.nn import FilterExpansion, _blocks
from intertwine.spaces import Grid2d

C4, D4, C8, D1 = Cyclic(4), Dihedral(4), Cyclic(8), Dihedral(1)
MIRROR = D4.quotient(D4.subgroup([4]))

PAIRS = [
    (Grid2d(C4), C4.trivial, C4.regular, "gather"),
    (Grid2d(C4), C4.regular, C4.regular, "gather"),
    (Grid2d(D4), MIRROR, D4.regular, "gather"),
    (Grid2d(D4), MIRROR, D4.trivial, "gather"),
    (Grid2d(D4), D4.irreps[4], D4.regular, "dense"),
    (Grid2d(C8), C8.regular, C8.regular, "regular"),
    (Grid2d(Dihedral(8)), Dihedral(8).regular, Dihedral(8).regular, "regular"),
    (Grid2d(C8), C8.trivial, C8.regular, "dense"),
    (Grid2d(SO2()), SO2().irrep(1), SO2().irrep(2), "dense"),
    (Grid2d(Cyclic(6), lattice="hexagonal"), Cyclic(6).regular, Cyclic(6).regular, "gather"),
]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize(("plane", "rho1", "rho2", "way"), PAIRS)
def test_the_filters_are_those_of_the_solver(plane, rho1, rho2, way, k):
    if k == 2 and not plane.exact:
        pytest.skip("four taps do not resolve the usual band limit, as the solver says")
    a, b = plane.field(rho1), plane.field(rho2)
    basis = solve(a, b, kernel_size=k, allow_empty=True)
    if basis.dim == 0:
        with pytest.raises(EmptyKernelSpaceError, match="larger filter"):
            FilterExpansion(a, b, (k, k))
        return
    expansion = FilterExpansion(a, b, (k, k)).double()
    assert [block.way for block in expansion.blocks] == [way]
    assert expansion.shapes == [(1, 1, basis.dim)]
    unit = torch.eye(basis.dim, dtype=torch.float64)
    ours = torch.stack([expansion([row[None, None]]) for row in unit]).flatten(1)
    theirs = basis.filters().flatten(1)
    assert torch.linalg.matrix_rank(ours) == basis.dim, "no weight is idle"
    fit = theirs.T @ torch.linalg.lstsq(theirs.T, ours.T).solution
    assert (fit - ours.T).abs().max() < 1e-12


@pytest.mark.parametrize(("plane", "rho1", "rho2", "way"), PAIRS)
def test_copies_share_a_block(plane, rho1, rho2, way):
    one = FilterExpansion(plane.field(rho1), plane.field(rho2), (3, 3))
    many = FilterExpansion(plane.field(3 * rho1), plane.field(2 * rho2), (3, 3))
    (weight,) = many.initial_weights()
    filters = many([weight]).view(2, rho2.dim, 3, rho1.dim, 3, 3)
    for o in range(2):
        for i in range(3):
            assert torch.allclose(filters[o, :, i], one([weight[None, None, o, i]]), atol=1e-6)


@pytest.mark.parametrize(("plane", "rho1", "rho2", "way"), PAIRS)
def test_wide_filters_are_made_without_the_large_table(plane, rho1, rho2, way, monkeypatch):
    types = plane.field(3 * rho1), plane.field(2 * rho2)
    small = FilterExpansion(*types, (3, 3))
    monkeypatch.setattr(_blocks, "PRODUCT_FIRST", 0)
    middle = FilterExpansion(*types, (3, 3))
    monkeypatch.setattr(_blocks, "FLAT_TABLE", 0)
    wide = FilterExpansion(*types, (3, 3))
    assert "flat" not in dict(wide.blocks[0].named_buffers())
    weights = small.initial_weights()
    for other in (middle, wide):
        assert torch.allclose(small(weights), other(weights), atol=1e-6)


def test_a_sum_in_any_order():
    plane = Grid2d(D4)
    mixed = D4.trivial + D4.regular + D4.irreps[4] + D4.trivial + D4.regular
    expansion = FilterExpansion(plane.field(mixed), plane.field(mixed), (3, 3)).double()
    filters = expansion([w.double() for w in expansion.initial_weights()])
    taps = plane.coordinates((3, 3)).reshape(-1, 2)
    for h in range(D4.order):
        place = torch.cdist(taps @ plane.matrices(h).T, taps).argmin(1)  # tap hx for each tap x
        moved = torch.einsum("ab,bcx,cd->adx", mixed(h), filters.flatten(2), mixed(int(D4.inverse(h))))
        assert (filters.flatten(2)[..., place] - moved).abs().max() < 1e-12
    assert filters.abs().amin((2, 3)).count_nonzero() > 0


def test_an_unconstrained_filter_is_outside():
    a = Grid2d(C4).field(C4.regular)
    theirs = solve(a, a, kernel_size=3).filters().flatten(1)
    free = torch.randn(theirs.shape[1], dtype=torch.float64)
    assert (theirs.T @ (theirs @ free) - free).abs().max() > 0.1


@pytest.mark.parametrize("gain", [1.0, 2**0.5])
@pytest.mark.parametrize(
    ("group", "rho1", "rho2"),
    [
        (C4, 32 * C4.trivial, 32 * C4.regular),
        (D4, 8 * D4.regular + 20 * D4.irreps[4], 20 * D4.regular + 60 * D4.irreps[4] + 60 * D4.trivial),
        (C8, 12 * C8.regular, 12 * C8.regular),
        (SO2(), 20 * SO2().trivial + 20 * SO2().irrep(1), 60 * SO2().irrep(0) + 60 * SO2().irrep(2)),
        (O2(), 20 * O2().irrep(1), 60 * O2().irrep(2)),
    ],
    ids=str,
)
def test_white_noise_keeps_its_variance(group, rho1, rho2, gain):
    plane = Grid2d(group)
    expansion = FilterExpansion(plane.field(rho1), plane.field(rho2), (5, 5))
    filters = expansion(expansion.initial_weights(gain))
    variance = filters.square().sum((1, 2, 3))  # of each output coordinate, for independent inputs of variance 1
    at = 0
    for kind in dict.fromkeys(rho2.atoms):
        n = kind.dim * rho2.atoms.count(kind)
        assert abs(variance[at : at + n].mean() / gain**2 - 1) < 0.08
        at += n


def test_tables_are_small_shared_and_never_saved():
    for group, k in ((C4, 3), (D4, 5), (C8, 5), (Cyclic(16), 7)):
        field = Grid2d(group).field(64 // group.order * group.regular)
        expansion = FilterExpansion(field, field, (k, k))
        (weight,) = expansion.initial_weights()
        held = sum(b.numel() * b.element_size() for b in expansion.buffers())
        assert held <= 1.05 * expansion([weight]).numel() * 4
        assert expansion.state_dict() == {}
    before = _blocks.block_table.cache_info()
    FilterExpansion(field, field, (7, 7))
    after = _blocks.block_table.cache_info()
    assert (after.misses, after.hits) == (before.misses, before.hits + 1)


def test_nothing_reaches_an_output():
    plane = Grid2d(D4)
    with pytest.raises(EmptyKernelSpaceError, match=r"an equivariant map from .* to irrep1 other than zero"):
        FilterExpansion(plane.field(D4.trivial), plane.field(D4.regular + D4.irreps[1]), (3, 3))
