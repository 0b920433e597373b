"""Pointwise maps in the irreducible basis against the dense matrix, value by value and gradient by gradient."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from intertwine import _cost_rules
from intertwine.errors import EmptyKernelSpaceError, TypeMismatchError
from intertwine.groups import (
    O2,
    SO2,
    Cyclic,
    Dihedral,
    Octahedral,
    Quaternion,
    Representation,
    Symmetric,
    direct_product,
    direct_sum,
)
from intertwine.nn import Conv2d, Conv3d, Linear, to_plain
from intertwine.nn.pointwise._block_product import BlockDiagonal, DiagonalBlock
from intertwine.nn.pointwise._irreducible import IrreducibleRows, adapted_basis
from intertwine.nn.pointwise._point_map import PointMap, point_map
from intertwine.nn.pointwise._turn import enter, leave, turned_gelu
from intertwine.spaces import Grid2d, Grid3d, HomogeneousSpace
from intertwine.testing import assert_equivariant
from tests.compiling import compiled

D1, C4, C8, D4, D6 = Dihedral(1), Cyclic(4), Cyclic(8), Dihedral(4), Dihedral(6)
so2, o2 = SO2(), O2()
quotient = D4.quotient(D4.subgroup([4]))


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """The irreducible basis for layers of any width and any number of samples."""
    for name, value in (("TURN", 0), ("MOVE", 0), ("START", -1)):
        monkeypatch.setattr(_cost_rules, name, value)


PAIRS: list[tuple[str, Representation, Representation]] = [
    ("mirror", 3 * D1.regular, 2 * D1.regular),
    ("C4, a complex type", 2 * C4.regular, 3 * C4.regular),
    ("C4, sorted irreducibles", 2 * C4.irreps[0] + 3 * C4.irrep(2), 2 * C4.irrep(2) + C4.irreps[0]),
    ("C8", 2 * C8.regular, C8.regular),
    ("D4", 2 * D4.regular, 2 * D4.regular),
    ("D4 quotient", 3 * quotient, 2 * quotient),
    ("D4 unsorted", D4.regular + 2 * D4.irrep(1) + D4.trivial + D4.regular, quotient + D4.irrep(1) + quotient),
    ("D4 irreducible", direct_sum(D4.irreps[::-1]), direct_sum(D4.irreps)),
    ("D4, an output without a trivial component", 2 * D4.regular, 2 * D4.irrep(1) + D4.irrep(0, -1)),
    ("D4, an output that some inputs do not reach", D4.irrep(1) + D4.trivial, D4.regular),
    ("D6", D6.regular, D6.regular + D6.irrep(2)),
    ("SO(2)", so2.irrep(2) + 2 * so2.irrep(1) + so2.trivial + so2.irrep(1), 2 * so2.irrep(1) + 3 * so2.trivial),
    ("O(2)", 2 * o2.standard + o2.trivial, o2.standard + 2 * o2.trivial),
]
each = pytest.mark.parametrize(("rho1", "rho2"), [pytest.param(a, b, id=name) for name, a, b in PAIRS])


def twins(rho1: Representation, rho2: Representation) -> tuple[Conv2d, PointMap]:
    plane = Grid2d(rho1.group)
    layer = Conv2d(plane.field(rho1), plane.field(rho2), 1).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.normal_()
    return layer, PointMap(layer.in_type, layer.out_type).double()


def fast(layer: Conv2d | Linear, point: PointMap, x: torch.Tensor) -> torch.Tensor:
    return point(x, *point.kept(list(layer.weights), layer.bias, layer.invariants))


@each
@pytest.mark.parametrize("batch", [1, 3])
def test_the_irreducible_basis_gives_the_same_map(rho1: Representation, rho2: Representation, batch: int) -> None:
    layer, point = twins(rho1, rho2)
    x = torch.randn(batch, rho1.dim, 3, 4, dtype=torch.float64, requires_grad=True)
    slow, quick = layer(x), fast(layer, point, x)
    assert quick.shape == slow.shape
    assert (slow - quick).abs().max() <= 1e-12 * slow.abs().max()
    g = torch.randn_like(slow)
    inputs = [x, *layer.parameters()]
    for a, b in zip(torch.autograd.grad(slow, inputs, g), torch.autograd.grad(quick, inputs, g), strict=True):
        assert (a - b).abs().max() <= 1e-12 * a.abs().max()


def test_a_wrong_block_is_noticed() -> None:
    layer, point = twins(2 * D4.regular, 2 * D4.regular)
    x = torch.randn(2, 16, 3, 3, dtype=torch.float64)
    blocks, bias = point.expand(list(layer.weights), layer.invariants(layer.bias))
    assert (point(x, blocks, bias) - layer(x)).abs().max() < 1e-12
    wrong = blocks.detach().clone()
    wrong[-1] += 0.1
    assert (point(x, wrong, bias) - layer(x)).abs().max() > 1e-2


@each
def test_the_layer_takes_either_path(rho1: Representation, rho2: Representation, eager: None) -> None:
    plane = Grid2d(rho1.group)
    layer = Linear(plane.field(rho1), plane.field(rho2)).double()
    saves = rho1.dim * rho2.dim > PointMap(layer.in_type, layer.out_type).shape.work
    assert (layer.point is not None) == saves
    dense = copy.deepcopy(layer)
    dense.point = None
    for shape in ((5, rho1.dim), (2, rho1.dim, 3, 3)):
        x = torch.randn(shape, dtype=torch.float64)
        for mode in (True, False):
            layer.train(mode)
            dense.train(mode)
            assert (layer(x) - dense(x)).abs().max() <= 1e-12 * dense(x).abs().max()
    assert layer.state_dict().keys() == dense.state_dict().keys()
    assert_equivariant(layer)


@pytest.mark.usefixtures("eager")
class TestFastPath:
    """What the conformance suite asks of every layer, on the path that its small examples do not take."""

    def layer(self) -> Linear:
        plane = Grid2d(D4)
        rho1, rho2 = 2 * D4.regular + D4.irrep(1), D4.irrep(1) + D4.regular + quotient
        layer = Linear(plane.field(rho1), plane.field(rho2)).double()
        with torch.no_grad():
            layer.bias.normal_()  # type: ignore[union-attr]
        assert layer.point is not None
        return layer

    def regular(self) -> Conv2d:
        field = Grid2d(C4).field(2 * C4.regular)
        layer = Conv2d(field, field, 1).double()
        assert layer.point is not None
        return layer

    @pytest.mark.parametrize("which", ["layer", "regular"])
    def test_first_and_second_gradients(self, which: str) -> None:
        layer = getattr(self, which)()
        x = torch.randn(2, layer.in_type.dim, 2, 2, dtype=torch.float64, requires_grad=True)
        inputs = (x, *layer.parameters())
        assert torch.autograd.gradcheck(lambda x, *_: layer(x), inputs, fast_mode=True)
        assert torch.autograd.gradgradcheck(lambda x, *_: layer(x), inputs, fast_mode=True)

    @pytest.mark.parametrize("which", ["layer", "regular"])
    def test_transforms_of_functions(self, which: str) -> None:
        layer = getattr(self, which)()
        x, v = torch.randn(2, 3, layer.in_type.dim, 2, 2, dtype=torch.float64)
        linear = layer(v) - layer(torch.zeros_like(v))
        _, tangent = torch.func.jvp(layer, (x,), (v,))
        assert (tangent - linear).abs().max() < 1e-12
        each = torch.func.vmap(lambda one: layer(one[None])[0])(x)
        assert (each - layer(x)).abs().max() < 1e-12
        with torch.autograd.forward_ad.dual_level():
            dual = layer(torch.autograd.forward_ad.make_dual(x, v))
            assert (torch.autograd.forward_ad.unpack_dual(dual).tangent - linear).abs().max() < 1e-12

    @pytest.mark.parametrize("which", ["layer", "regular"])
    def test_copies_export_and_compilation(self, which: str) -> None:
        layer = getattr(self, which)().eval()
        x = torch.randn(2, layer.in_type.dim, 3, 3, dtype=torch.float64)
        with torch.no_grad():
            expected = layer(x)
            for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), to_plain(layer)):
                assert (twin(x) - expected).abs().max() < 1e-12
            assert (compiled(layer)(x) - expected).abs().max() < 1e-12
            exported = torch.export.export(layer, (x,)).module()
            assert (exported(x) - expected).abs().max() < 1e-12

    def test_what_is_kept_in_evaluation_follows_the_weights(self) -> None:
        layer = self.regular().eval()
        x = torch.randn(1, 8, 3, 3, dtype=torch.float64)
        with torch.no_grad():
            before = layer(x)
            assert torch.equal(layer(x), before)
            layer.weights[0].data.mul_(2)
            assert (layer(x) - 2 * before).abs().max() < 1e-12

    def test_single_precision_is_taken_back_to_double(self) -> None:
        field = Grid2d(C8).field(2 * C8.regular)
        layer = Linear(field, field).double()
        dense = copy.deepcopy(layer)
        dense.point = None
        x = torch.randn(3, 16, dtype=torch.float64)
        assert (layer(x) - dense(x)).abs().max() < 1e-13

    def test_the_octahedral_group_in_space(self) -> None:
        O = Octahedral()
        field = Grid3d(O).field(O.regular)
        layer = Conv3d(field, field, 1).double()
        assert layer.point is not None
        assert layer.point.shape.work == 24 * 24 // 9  # 1 + 1 + 8 + 27 + 27 of 576
        x = torch.randn(1, 24, 2, 2, 2, dtype=torch.float64)
        quick = layer(x)
        layer.point = None
        assert (quick - layer(x)).abs().max() < 1e-12

    def test_quaternionic_type(self) -> None:
        Q8 = Quaternion()
        signs = direct_sum([psi for psi in Q8.irreps if psi.dim == 1][1:3])  # Q8 acts on the plane through C2 x C2
        plane = Grid2d(Q8, action=signs)
        layer = Linear(plane.field(2 * Q8.regular), plane.field(Q8.regular + Q8.irreps[-1])).double()
        assert layer.point is not None
        x = torch.randn(5, 16, dtype=torch.float64)
        quick = layer(x)
        layer.point = None
        assert (quick - layer(x)).abs().max() < 1e-12


def test_bases_of_complex_irreducibles_of_dimension_above_two() -> None:
    G = direct_product(Cyclic(3), Symmetric(3))
    psi = next(psi for psi in G.irreps if psi.dim > 2 and psi.endomorphism_dim == 2)
    basis = adapted_basis(psi)
    (component,) = basis.components
    assert (component.repeats, component.width) == (psi.dim // 2, 2)
    x = torch.randn(psi.dim, psi.dim, dtype=torch.float64)
    commuting = torch.stack([psi(g) @ x @ psi(g).T for g in range(G.order)]).mean(0)
    turned = (basis.inverse @ commuting @ basis.basis).view(psi.dim // 2, 2, psi.dim // 2, 2)
    eye = torch.eye(psi.dim // 2, dtype=torch.float64)
    assert (turned - torch.einsum("ab,cd->acbd", eye, turned[0, :, 0])).abs().max() < 1e-12


def test_fractions_of_the_dense_products() -> None:
    shares = {}
    for G in (D1, C4, C8, D4):
        field = Grid2d(G).field(4 * G.regular)
        shape = PointMap(field, field).shape
        shares[G.name] = shape.work / (shape.rows * shape.columns)
    assert shares == {"D1": 0.5, "C4": 0.375, "C8": 0.21875, "D4": 0.1875}


def test_sums_of_irreducibles_need_no_change_of_basis() -> None:
    for rho in (direct_sum(C4.irreps), 3 * D4.irrep(1) + 2 * D4.irreps[0], 2 * so2.irrep(3) + so2.trivial):
        rows = IrreducibleRows(rho)
        assert rows.is_identity
        v = torch.randn(rho.dim, 6)
        assert rows.to_irreducible(v) is v
    assert not IrreducibleRows(2 * C4.regular).is_identity


def test_rows_and_back() -> None:
    for rho in (2 * D4.regular, D4.regular + D4.trivial + D4.regular, direct_sum(D4.irreps[::-1])):
        rows = IrreducibleRows(rho).double()
        x = torch.randn(3, rho.dim, 2, 5, dtype=torch.float64)
        assert torch.equal(rows.channels(rows.rows(x), 3, (2, 5)), x)
        assert (rows.leave(rows.enter(x), 3, (2, 5)) - x).abs().max() < 1e-14
        assert (rows.enter(x) - rows.to_irreducible(rows.rows(x))).abs().max() < 1e-14
        inner = rows.from_irreducible(rows.to_irreducible(rows.rows(x)))
        assert (inner - rows.rows(x)).abs().max() < 1e-14


def test_turns_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intertwine.nn.pointwise._turn.PIECE", 50)  # several, the last one shorter
    m1, m2 = torch.randn(2, 3, 3, dtype=torch.float64)
    x = torch.randn(2, 15, 2, 2, dtype=torch.float64, requires_grad=True)
    rows = torch.einsum("ij,bnjp->inbp", m1, x.view(2, 5, 3, 4)).reshape(15, 8)
    assert (enter(x, m1) - rows).abs().max() < 1e-14
    back = torch.einsum("ij,jnbp->bnip", m2, rows.view(3, 5, 2, 4)).reshape(2, 15, 2, 2)
    assert (leave(rows, m2, 2, (2, 2)) - back).abs().max() < 1e-14
    middle = m2 @ torch.nn.functional.gelu(m1 @ rows.view(3, -1))
    assert (turned_gelu(rows, m1, m2) - middle.view(15, 8)).abs().max() < 1e-14

    def whole(x: torch.Tensor) -> torch.Tensor:
        return leave(turned_gelu(enter(x, m1), m2, m1), m2, 2, (2, 2))

    assert torch.autograd.gradcheck(whole, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(whole, x, fast_mode=True)


def test_block_products_with_gaps() -> None:
    blocks = (DiagonalBlock(2, (2, 3), 0, 1, 0), DiagonalBlock(1, (1, 2), 6, 0, 8))
    shape = BlockDiagonal(7, 10, 8, blocks, ((5, 7),), ((6, 8),), (0, 1))
    x = torch.randn(10, 4, dtype=torch.float64, requires_grad=True)
    flat = torch.randn(8, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(1, dtype=torch.float64, requires_grad=True)
    w = flat[:6].view(2, 3)
    dense = torch.zeros(7, 10, dtype=torch.float64)
    dense[1:3, 0:3] = dense[3:5, 3:6] = w.detach()
    dense[0:1, 8:10] = flat[6:].detach()
    expected = dense @ x
    expected = expected + torch.nn.functional.pad(bias, (0, 6))[:, None]
    for product in (shape, shape.slow):
        assert (product(x, flat, bias) - expected).abs().max() < 1e-14
    assert torch.autograd.gradcheck(shape, (x, flat, bias), fast_mode=True)
    assert torch.autograd.gradgradcheck(shape, (x, flat, bias), fast_mode=True)


def test_narrow_layers_stay_dense() -> None:
    for G, narrow, wide in ((D1, 192, 256), (C4, 128, 192), (D4, 128, 192)):
        plane = Grid2d(G)
        fields = [plane.field(n // G.order * G.regular) for n in (narrow, wide)]
        assert point_map(fields[0], fields[0]) is None
        assert point_map(fields[1], fields[1]) is not None
    plane = Grid2d(C4)
    assert point_map(plane.field(400 * C4.trivial), plane.field(400 * C4.trivial)) is None  # nothing to save


def test_the_path_depends_on_the_number_of_samples_and_the_layout() -> None:
    field = Grid2d(D4).field(64 * D4.regular)
    point = Conv2d(field, field, 1).point
    assert point is not None
    few, many = torch.zeros(1, 512, 2, 2), torch.zeros(8, 512, 16, 16)
    assert not point.pays(few)
    assert point.pays(many)
    assert not point.pays(many.to(memory_format=torch.channels_last))
    with torch.autocast("cpu", torch.bfloat16):
        assert not point.pays(many)
    assert Conv2d(field, field, 1, stride=2, allow_asymmetric=True).point is None
    assert Conv2d(field, field, 1, groups=2).point is None
    layer = Conv2d(field, field, 1)
    x = torch.randn(2, 512, 14, 14)
    assert point.pays(x)
    quick = layer(x)
    layer.point = None
    assert (quick - layer(x)).abs().max() <= 1e-5 * quick.abs().max()


def test_types_that_do_not_fit_are_named() -> None:
    plane = Grid2d(C4)
    with pytest.raises(TypeMismatchError, match="Linear: expected field types on one plane or 3-space"):
        Linear(plane.field(C4.trivial), Grid2d(D4).field(D4.trivial))
    space = HomogeneousSpace(C4, C4.subgroup([0]))
    with pytest.raises(TypeMismatchError, match="Grid2d or Grid3d"):
        Linear(space.field(space.stabilizer.trivial), space.field(space.stabilizer.trivial))
    with pytest.raises(EmptyKernelSpaceError, match="shares an irreducible"):
        Linear(plane.field(C4.trivial), plane.field(C4.irrep(2)))


def test_a_plain_twin_takes_values_with_and_without_space() -> None:
    plane = Grid2d(D4)
    layer = Linear(plane.field(2 * D4.regular), plane.field(D4.regular + D4.trivial))
    plain = to_plain(layer)
    for shape in ((5, 16), (2, 16, 3, 3)):
        x = torch.randn(shape)
        assert (plain(x) - layer(x)).abs().max() < 1e-6
