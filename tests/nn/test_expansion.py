"""Filters made from free weights: the same spaces as the solver's, whichever way they are made."""

from __future__ import annotations

import warnings

import pytest
import torch

from intertwine import _cost_rules
from intertwine.errors import EmptyKernelSpaceError
from intertwine.groups import O2, SO2, SO3, Cyclic, Dihedral, Icosahedral, MatrixRepresentation, Octahedral, Tetrahedral
from intertwine.kernels import solve
from intertwine.nn import Conv2d, FilterExpansion
from intertwine.nn.filters import _blocks
from intertwine.nn.filters._natural import LIFTED, channel_correlation, exchanged, natural_correlation
from intertwine.nn.filters._spread import collect, spread
from intertwine.spaces import Grid2d, Grid3d
from tests.compiling import compiled

C4, D4, C8, D1 = Cyclic(4), Dihedral(4), Cyclic(8), Dihedral(1)
MIRROR = D4.quotient(D4.subgroup([4]))
TWO_ORBITS = MatrixRepresentation(C4, (C4.regular + C4.quotient(C4.subgroup([2]))).matrices, name="two orbits")
T, C5, O, I = Tetrahedral(), Cyclic(5), Octahedral(), Icosahedral()

PAIRS = [
    (Grid2d(C4), C4.trivial, C4.regular, "gather"),
    (Grid2d(C4), C4.regular, C4.regular, "gather"),
    (Grid2d(D4), MIRROR, D4.regular, "gather"),
    (Grid2d(D4), MIRROR, D4.trivial, "gather"),
    (Grid2d(D4), D4.regular, D4.trivial, "gather"),
    (Grid2d(D4), D4.irrep(1), D4.regular, "dense"),
    (Grid2d(D4), D4.regular, D4.irrep(1), "dense"),
    (Grid2d(C8), C8.regular, C8.regular, "regular"),
    (Grid2d(Dihedral(8)), Dihedral(8).regular, Dihedral(8).regular, "regular"),
    (Grid2d(C8), C8.trivial, C8.regular, "dense"),
    (Grid2d(C8), C8.regular, C8.trivial, "dense"),
    (Grid2d(C4), TWO_ORBITS, C4.trivial, "gather"),
    (Grid2d(C4), TWO_ORBITS, C4.irrep(1), "dense"),
    (Grid2d(SO2()), SO2().irrep(1), SO2().irrep(2), "dense"),
    (Grid2d(Cyclic(6), lattice="hexagonal"), Cyclic(6).regular, Cyclic(6).regular, "gather"),
    (Grid3d(T), T.regular, T.quotient(T.subgroup([1])), "gather"),
    (Grid3d(C5, action=C5.standard + C5.trivial), C5.regular, C5.regular, "regular"),
    (Grid3d(SO3()), SO3().irrep(1), SO3().irrep(2), "dense"),
]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize(("plane", "rho1", "rho2", "way"), PAIRS)
def test_the_filters_are_those_of_the_solver(plane, rho1, rho2, way, k, monkeypatch):
    monkeypatch.setattr(_blocks, "DENSE_TABLE", 1 << 30)
    if k == 2 and not plane.exact:
        pytest.skip("so few taps do not resolve the usual band limit, as the solver says")
    if k == 5 and plane.dimension == 3 and rho1.dim * rho2.dim > 30:
        pytest.skip("three taps show as much")
    a, b = plane.field(rho1), plane.field(rho2)
    if solve(a, b, kernel_size=k, allow_empty=True).dim == 0:
        with pytest.raises(EmptyKernelSpaceError, match="larger filter"):
            FilterExpansion(a, b, (k,) * plane.dimension)
        return
    require_same_space(a, b, k, way)


HARMONIC = [
    (Grid3d(O), O.irreps[-1], O.irreps[-2], 3),
    (Grid3d(O), O.regular, O.irreps[-1], 3),
    (Grid3d(T), T.irreps[1], T.irreps[-1], 3),
    (Grid3d(T), T.irreps[1], T.irreps[1], 3),  # of complex type
    (Grid3d(SO3()), SO3().irrep(1), SO3().irrep(2), 5),
    (Grid3d(SO3()), SO3().irrep(1) @ SO3().irrep(1), SO3().irrep(2), 3),
    (Grid3d(I), I.irreps[1], I.quotient(I.subgroup([1])), 3),
    (Grid2d(C8), C8.trivial, C8.regular, 5),
    (Grid2d(C4), C4.regular, C4.irrep(1), 4),
    (Grid2d(D4), D4.irrep(1), D4.irrep(1), 5),
    (Grid2d(SO2()), SO2().irrep(1), SO2().irrep(2), 5),
    (Grid2d(Cyclic(6), lattice="hexagonal"), Cyclic(6).irrep(2), Cyclic(6).regular, 5),
]


@pytest.mark.parametrize(("space", "rho1", "rho2", "k"), HARMONIC)
def test_harmonics_make_the_same_filters(space, rho1, rho2, k, monkeypatch):
    monkeypatch.setattr(_blocks, "DENSE_TABLE", 0)
    require_same_space(space.field(rho1), space.field(rho2), k, "harmonic")


@pytest.mark.parametrize(("space", "rho1", "rho2", "k"), HARMONIC)
def test_copies_share_the_harmonics(space, rho1, rho2, k, monkeypatch):
    monkeypatch.setattr(_blocks, "DENSE_TABLE", 0)
    sizes = (k,) * space.dimension
    one = FilterExpansion(space.field(rho1), space.field(rho2), sizes)
    many = FilterExpansion(space.field(2 * rho1), space.field(rho2), sizes)
    assert [block.way for block in many.blocks] == ["harmonic"]
    tables = dict(many.named_buffers())
    assert "harmonics" in tables
    assert tables.keys() == dict(one.named_buffers()).keys()
    assert all(torch.equal(table, tables[name]) for name, table in one.named_buffers()), "none is kept for each copy"
    (weight,) = many.initial_weights()
    filters = many([weight]).view(rho2.dim, 2, rho1.dim, *sizes)
    for i in range(2):
        assert torch.allclose(filters[:, i], one([weight[:, i : i + 1]]), atol=1e-6)


def require_same_space(a, b, k, way):
    basis = solve(a, b, kernel_size=k, allow_empty=True)
    expansion = FilterExpansion(a, b, (k,) * a.space.dimension).double()
    assert [block.way for block in expansion.blocks] == [way]
    assert expansion.shapes == [(1, 1, basis.dim)]
    unit = torch.eye(basis.dim, dtype=torch.float64)
    filters = torch.stack([expansion([row[None, None]]) for row in unit]).flatten(3)
    ours = filters.flatten(1)
    theirs = basis.filters().flatten(1)
    assert torch.linalg.matrix_rank(ours) == basis.dim, "no weight is idle"
    fit = theirs.T @ torch.linalg.lstsq(theirs.T, ours.T).solution
    assert (fit - ours.T).abs().max() < 1e-12
    assert torch.allclose(expansion.blocks[0].norms, ours.square().sum(1), rtol=1e-9), "each kernel has its own norm"
    require_the_response_of(filters, a, expansion)


def require_the_response_of(filters, in_type, expansion):
    """Against Σ κ c C κ written out, with c[a, b] = r for channels that the group exchanges."""
    response, rho = expansion.blocks[0].response, in_type.rho
    alike = natural_correlation(in_type.space, expansion.kernel_size)
    for r in (0.0, 0.6):
        c = torch.eye(rho.dim, dtype=torch.float64)
        if rho.is_permutation:
            c = torch.where(c + rho.matrices.mean(0) > 0, r + (1 - r) * c, c)
        total = float(torch.einsum("koax,ab,xy,koby->", filters, c, alike, filters))
        assert response.at_correlation(r) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("group", [C4, D4])
def test_channels_made_from_images_are_as_alike_as_the_rule_says(group):
    """Images of correlation exp(-|x - y| / 8) through filters of 3 x 3 free taps."""
    plane = Grid2d(group)
    expansion = FilterExpansion(plane.field(group.trivial), plane.field(group.regular), (3, 3)).double()
    filters = torch.stack([expansion([row[None, None]]) for row in torch.eye(9, dtype=torch.float64)]).flatten(2)
    covariance = torch.einsum("kax,xy,kby->ab", filters, natural_correlation(plane, (3, 3)), filters) / 9
    n = group.order
    assert torch.allclose(covariance.diagonal(), torch.ones(n, dtype=torch.float64))
    assert abs(float(covariance.sum() - n) / (n * n - n) - LIFTED) < 0.05


@pytest.mark.parametrize(("plane", "rho1", "rho2", "way"), PAIRS)
def test_copies_share_a_block(plane, rho1, rho2, way):
    one = FilterExpansion(plane.field(rho1), plane.field(rho2), (3,) * plane.dimension)
    many = FilterExpansion(plane.field(3 * rho1), plane.field(2 * rho2), (3,) * plane.dimension)
    (weight,) = many.initial_weights()
    filters = many([weight]).view(2, rho2.dim, 3, rho1.dim, *one.kernel_size)
    for o in range(2):
        for i in range(3):
            assert torch.allclose(filters[o, :, i], one([weight[None, None, o, i]]), atol=1e-6)


@pytest.mark.parametrize(("plane", "rho1", "rho2", "way"), PAIRS)
def test_wide_filters_are_made_without_the_large_table(plane, rho1, rho2, way, monkeypatch):
    types = plane.field(3 * rho1), plane.field(2 * rho2)
    small = FilterExpansion(*types, (3,) * plane.dimension)
    monkeypatch.setattr(_cost_rules, "PRODUCT_FIRST", 0)
    middle = FilterExpansion(*types, (3,) * plane.dimension)
    monkeypatch.setattr(_cost_rules, "FLAT_TABLE", 0)
    wide = FilterExpansion(*types, (3,) * plane.dimension)
    assert "flat" not in dict(wide.blocks[0].named_buffers())
    weights = small.initial_weights()
    for other in (middle, wide):
        assert torch.allclose(small(weights), other(weights), atol=1e-6)


class TestSpread:
    INDEX = torch.tensor([[0, 1, 2, 3], [3, 0, 0, 1], [1, 1, 1, 1]])

    def test_by_hand(self):
        w = torch.randn(3, 2, 4)
        slow = torch.stack([w[:, :, row] for row in self.INDEX], 1)
        assert torch.equal(spread(w, self.INDEX), slow)
        g = torch.randn(3, 3, 2, 4)
        assert torch.allclose((slow * g).sum(), (w * collect(g, self.INDEX, 4)).sum(), atol=1e-5)

    def test_derivatives_of_both_orders(self):
        w = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda w: spread(w, self.INDEX), w)
        assert torch.autograd.gradgradcheck(lambda w: spread(w, self.INDEX).sin(), w)

    def test_a_wide_layer_under_transforms(self, monkeypatch):
        monkeypatch.setattr(_cost_rules, "FLAT_TABLE", 0)
        field = Grid2d(C4).field(2 * C4.regular)
        layer = Conv2d(field, field, 3)
        assert not layer.expansion.blocks[0]._flat
        x = torch.randn(3, 8, 5, 5)

        def loss(state, x):
            return torch.func.functional_call(layer, state, (x[None],)).square().sum()

        each = torch.func.vmap(torch.func.grad(loss), (None, 0))(dict(layer.named_parameters()), x)
        layer(x).square().sum().backward()
        assert torch.allclose(each["weights.0"].sum(0), layer.weights[0].grad, rtol=1e-3, atol=1e-3)
        in_one_graph = compiled(layer, "aot_eager")
        gradient = layer.weights[0].grad.clone()
        layer.zero_grad()
        in_one_graph(x).square().sum().backward()
        assert torch.allclose(layer.weights[0].grad, gradient, rtol=1e-3, atol=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter's own
            exported = torch.export.export(layer.eval(), (x,))
        assert torch.allclose(exported.module()(x), layer(x), atol=1e-5)


def test_a_sum_in_any_order():
    plane = Grid2d(D4)
    mixed = D4.trivial + D4.regular + D4.irrep(1) + D4.trivial + D4.regular
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
        (D4, 8 * D4.regular + 20 * D4.irrep(1), 20 * D4.regular + 60 * D4.irrep(1) + 60 * D4.trivial),
        (D4, 16 * D4.trivial + 8 * D4.regular, 20 * D4.regular + 60 * D4.irrep(1) + 60 * D4.trivial),
        (C8, 16 * C8.trivial + 8 * C8.regular, 60 * C8.trivial + 60 * C8.irrep(1)),
        (C8, 12 * C8.regular, 12 * C8.regular),
        (SO2(), 20 * SO2().trivial + 20 * SO2().irrep(1), 60 * SO2().irrep(0) + 60 * SO2().irrep(2)),
        (O2(), 20 * O2().irrep(1), 60 * O2().irrep(2)),
    ],
    ids=str,
)
def test_correlated_fields_keep_their_variance(group, rho1, rho2, gain):
    plane = Grid2d(group)
    expansion = FilterExpansion(plane.field(rho1), plane.field(rho2), (5, 5))
    filters = expansion(expansion.initial_weights(gain))
    taps = torch.cartesian_prod(torch.arange(5.0), torch.arange(5.0))
    alike = torch.exp(-torch.cdist(taps, taps) / 8)
    scalars = sum(atom == group.trivial for atom in rho1.atoms) / rho1.dim
    permuted = sum(atom.dim for atom in rho1.atoms if atom.is_permutation and atom.dim > 1) / rho1.dim
    channels = torch.block_diag(*[exchanged(atom) for atom in rho1.atoms]) * channel_correlation(scalars, permuted)
    channels = channels.float() + torch.eye(rho1.dim)
    # Of each output coordinate, for inputs of variance 1 with this correlation, in which fields are independent.
    variance = torch.einsum("oix,ij,xy,ojy->o", filters.flatten(2), channels, alike, filters.flatten(2))
    at = 0
    for kind in dict.fromkeys(rho2.atoms):
        n = kind.dim * rho2.atoms.count(kind)
        assert abs(variance[at : at + n].mean() / gain**2 - 1) < 0.12
        at += n


def test_tables_are_small_shared_and_never_saved():
    for group, k in ((C4, 3), (D4, 5), (C8, 5), (Cyclic(16), 7)):
        field = Grid2d(group).field(64 // group.order * group.regular)
        expansion = FilterExpansion(field, field, (k, k))
        (weight,) = expansion.initial_weights()
        held = sum(b.numel() * b.element_size() for b in expansion.buffers())
        assert held <= 1.05 * expansion([weight]).numel() * 4
        assert expansion.state_dict() == {}
    so3 = SO3()
    degrees = so3.irrep(0) + so3.irrep(1) + so3.irrep(2)
    limited = so3.irrep(0) + 3 * so3.irrep(1) + 5 * so3.irrep(2)
    for group, rho, k in (
        (O, O.regular, 3),
        (O, 2 * O.regular, 5),
        (I, I.regular, 3),
        (so3, 4 * degrees, 5),
        (so3, 2 * limited, 5),
        (O, O.irreps[3] + O.regular, 3),
        (O, 2 * O.irreps[3] + O.irreps[4], 5),
    ):
        field = Grid3d(group).field(rho)
        expansion = FilterExpansion(field, field, (k,) * 3)
        held = sum(b.numel() * b.element_size() for b in expansion.buffers())
        some = 4 * max(_blocks.DENSE_TABLE, k**6)  # kilobytes, however few channels: harmonics on the taps
        assert held <= 1.01 * 4 * rho.dim**2 * k**3 + some, (group, rho)
        assert expansion.state_dict() == {}
    field = Grid2d(Cyclic(16)).field(4 * Cyclic(16).regular)
    FilterExpansion(field, field, (7, 7))
    before = _blocks.block_table.cache_info()
    FilterExpansion(field, field, (7, 7))
    after = _blocks.block_table.cache_info()
    assert (after.misses, after.hits) == (before.misses, before.hits + 1)


def test_nothing_reaches_an_output():
    plane = Grid2d(D4)
    with pytest.raises(EmptyKernelSpaceError, match=r"a nonzero equivariant map from .* to irrep\(0, -1\)"):
        FilterExpansion(plane.field(D4.trivial), plane.field(D4.regular + D4.irrep(0, -1)), (3, 3))
