"""Quadratic maps: how many there are, that they are the right ones, and how large they come out."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import EmptyKernelSpaceError, TypeMismatchError
from intertwine.groups import (
    O2,
    SO2,
    SO3,
    Cyclic,
    Dihedral,
    MatrixRepresentation,
    Quaternion,
    Symmetric,
    clebsch_gordan,
)
from intertwine.nn import TensorProduct, TensorSquare, to_plain
from intertwine.nn.basis._hom import hom_basis, symmetric_square
from intertwine.spaces import Grid2d, Grid3d, HomogeneousSpace
from intertwine.testing import assert_equivariant, assert_follows_device
from tests.compiling import compiled

C2, C3, C4, D4, S3, Q8 = Cyclic(2), Cyclic(3), Cyclic(4), Dihedral(4), Symmetric(3), Quaternion()
SKEW = MatrixRepresentation(C2, torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [0.0, -1.0]]]), name="skew")


def on_a_point(rho):
    return HomogeneousSpace(rho.group, rho.group.whole).field(rho.restrict(rho.group.whole))


def bilinear(layer: TensorProduct) -> torch.Tensor:
    """The symmetric tensor T with y = T(x, x), from the values on sums of basis vectors."""
    d = layer.in_type.dim
    eye = torch.eye(d, dtype=torch.float64)
    with torch.no_grad():
        single = layer(eye)
        both = layer((eye[:, None] + eye[None]).flatten(0, 1)).view(d, d, -1)
    return ((both - single[:, None] - single[None]) / 2).permute(2, 0, 1)


def basis_of(layer: TensorProduct) -> torch.Tensor:
    """One tensor for each weight."""
    layer = layer.double()
    basis = []
    for weight in layer.weights:
        for k in range(weight.numel()):
            with torch.no_grad():
                for other in layer.weights:
                    other.zero_()
                weight.view(-1)[k] = 1.0
            basis.append(bilinear(layer))
    return torch.stack(basis)


def brute_force(rho1: torch.Tensor, rho2: torch.Tensor) -> int:
    """The number of independent symmetric T with T(ρ1 v, ρ1 w) = ρ2 T(v, w), from all matrices, by rank."""
    d1, d2 = rho1.shape[-1], rho2.shape[-1]
    p, q = torch.triu_indices(d1, d1)
    symmetric = torch.zeros(d2, len(p), d2, d1, d1, dtype=torch.float64)
    for c in range(d2):
        symmetric[c, torch.arange(len(p)), c, p, q] = 1.0
        symmetric[c, torch.arange(len(p)), c, q, p] = 1.0
    symmetric = symmetric.flatten(0, 1)
    rows = [
        (torch.einsum("kcpq,pi,qj->kcij", symmetric, a, a) - torch.einsum("ce,keij->kcij", b, symmetric)).flatten(1)
        for a, b in zip(rho1, rho2, strict=True)
    ]
    constraint = torch.cat(rows, 1)
    return len(constraint) - int(torch.linalg.matrix_rank(constraint))


CASES = {
    "D4": (D4.irrep(1) + D4.trivial + D4.irrep(1), D4.irrep(1) + D4.irrep(0, -1)),
    "regular": (C4.regular + C4.irrep(2), C4.regular + C4.irrep(1)),
    "complex": (C3.irreps[1] + C3.trivial, C3.irreps[1] + C3.trivial),
    "quaternionic": (Q8.irreps[4] + Q8.irreps[1], Q8.irreps[1] + Q8.irreps[4]),
    "S3": (S3.irreps[2] + S3.irreps[1], S3.regular),
    "skew": (SKEW + C2.irreps[1], SKEW + C2.trivial),
}


@pytest.mark.parametrize("case", CASES)
def test_every_map_of_a_finite_group(case):
    rho1, rho2 = CASES[case]
    layer = TensorProduct(on_a_point(rho1), on_a_point(rho2))
    count = brute_force(rho1.matrices, rho2.matrices)
    assert sum(weight.numel() for weight in layer.weights) == count
    basis = basis_of(layer)
    assert int(torch.linalg.matrix_rank(basis.flatten(1))) == count
    left = torch.einsum("kcpq,gpi,gqj->gkcij", basis, rho1.matrices, rho1.matrices)
    right = torch.einsum("gce,keij->gkcij", rho2.matrices, basis)
    assert (left - right).abs().max() < 1e-12


def test_the_brute_force_can_fail():
    rho1, rho2 = CASES["D4"]
    broken = rho2.matrices.clone()
    broken[1, 0, 0] += 0.5
    assert brute_force(rho1.matrices, broken) < brute_force(rho1.matrices, rho2.matrices)


@pytest.mark.parametrize(("l1", "l2", "l3"), [(1, 2, 2), (2, 1, 3), (1, 2, 1)])
def test_clebsch_gordan(l1, l2, l3):
    so3 = SO3()
    space = Grid3d(so3)
    layer = TensorProduct(space.field(so3.irrep(l1) + so3.irrep(l2)), space.field(so3.irrep(l3)))
    coupling = clebsch_gordan(l1, l2, l3).permute(2, 0, 1)
    crossed = [t[:, : 2 * l1 + 1, 2 * l1 + 1 :] for t in basis_of(layer)]
    (crossed,) = [t for t in crossed if t.abs().max() > 1e-6]
    cosine = (crossed * coupling).sum() / crossed.norm() / coupling.norm()
    assert abs(abs(float(cosine)) - 1) < 1e-12


def test_e3nn_has_the_same_couplings():
    o3 = pytest.importorskip("e3nn.o3")
    so3 = SO3()
    for l1, l2, l3 in ((1, 1, 1), (1, 2, 2), (2, 2, 3), (1, 2, 3)):
        theirs = o3.wigner_3j(l1, l2, l3, dtype=torch.float64).permute(2, 0, 1).flatten()
        (ours,) = hom_basis(so3.irrep(l1) @ so3.irrep(l2), so3.irrep(l3))
        assert abs(abs(float(ours.flatten() @ theirs / theirs.norm() / ours.norm())) - 1) < 1e-10


def test_e3nn_counts_the_same_paths():
    o3 = pytest.importorskip("e3nn.o3")
    so3 = SO3()
    space = Grid3d(so3)
    rho = 2 * so3.irrep(1) + so3.trivial + so3.irrep(2)
    reduced = o3.ReducedTensorProducts("ij=ji", i="2x1e + 0e + 2e")
    for l in range(4):
        layer = TensorProduct(space.field(rho), space.field(so3.irrep(l)))
        assert sum(w.numel() for w in layer.weights) == sum(mul for mul, ir in reduced.irreps_out if ir.l == l)
    squares = o3.TensorSquare("2x1e + 0e + 2e")
    assert TensorSquare(space.field(rho)).out_type.dim < squares.irreps_out.dim  # theirs mixes the fields


def test_symmetric_squares():
    o2 = O2()
    assert [psi.name for psi in symmetric_square(o2.irrep(1)).decompose().irreps] == ["trivial", "irrep(2)"]
    for rho in (D4.regular, SKEW, Q8.irreps[4]):
        g = rho.group.elements
        trace = (rho.character(g) ** 2 + rho.character(rho.group.compose(g, g))) / 2
        assert torch.allclose(symmetric_square(rho).character(g), trace)


def test_maps_between_representations():
    for group in (D4, C3, Q8, S3):
        for rho1 in (group.regular, *group.irreps):
            for rho2 in (group.trivial + group.irreps[-1], group.regular):
                basis = hom_basis(rho1, rho2)
                assert len(basis) == group.intertwining_number(rho1, rho2)
                if len(basis):
                    assert (basis[:, None] @ rho1.matrices - rho2.matrices @ basis[:, None]).abs().max() < 1e-12
                    assert int(torch.linalg.matrix_rank(basis.flatten(1))) == len(basis)
    so2 = SO2()
    assert len(hom_basis(so2.irrep(1) @ so2.irrep(1), so2.trivial)) == 2


@pytest.mark.parametrize("case", ["D4", "regular", "complex"])
def test_white_noise_comes_out_with_mean_square_one(case):
    """The output is linear in the weights, which are independent: the mean squares of the paths add up."""
    rho1, rho2 = CASES[case]
    layer = TensorProduct(on_a_point(rho1), on_a_point(rho2))
    x = torch.randn(20000, rho1.dim, generator=torch.manual_seed(0))
    total, shares = torch.zeros(rho2.dim), []
    with torch.no_grad():
        for weight, deviation in zip(layer.weights, layer.paths._deviations, strict=True):
            each = deviation.float().expand(weight.shape).flatten()
            for k in range(weight.numel()):
                for other in layer.weights:
                    other.zero_()
                weight.view(-1)[k] = each[k]
                shares.append(layer(x).square().mean(0))
                total += shares[-1]
    at = 0
    for atom in rho2.atoms:
        here = slice(at, at + atom.dim)
        assert 0.95 < float(total[here].mean()) < 1.05
        reaching = torch.tensor([float(share[here].mean()) for share in shares])
        reaching = reaching[reaching > 0]
        assert reaching.max() < 1.3 * reaching.min(), "every path has the same share"
        at += atom.dim


def test_the_weights_have_those_deviations():
    field = on_a_point(20 * D4.irrep(1))
    layer = TensorProduct(field, field.space.field(40 * D4.irrep(2).restrict(D4.whole)))
    assert len(layer.weights) == 2
    for weight, deviation in zip(layer.weights, layer.paths._deviations, strict=True):
        assert torch.allclose(weight.std((0, 1)), deviation.float(), rtol=0.1)


class TestTensorSquare:
    FIELD = Grid2d(D4).field(D4.irrep(1) + D4.trivial + D4.irrep(0, -1) + 2 * D4.irrep(1))

    def test_nothing_mixes(self):
        layer = TensorSquare(self.FIELD)
        x = torch.randn(1, self.FIELD.dim)
        moved = x.clone()
        moved[:, 0] += 1.0  # of the first vector, whose square has three channels
        changed = (layer(x) != layer(moved)).nonzero()[:, 1]
        assert len(changed) <= 3

    def test_nothing_is_lost(self):
        layer = TensorSquare(self.FIELD).double()
        x = torch.randn(7, self.FIELD.dim, dtype=torch.float64)
        assert torch.equal(layer(-x), layer(x))
        y = layer(x)
        assert y.shape[1] == 3 * 3 + 1 + 1
        # The trivial part of a vector's square is |v|², scaled by E|v|⁴ = 8.
        assert torch.allclose(y[:, 0], x[:, :2].square().sum(1) / 8**0.5)

    def test_white_noise(self):
        x = torch.randn(40000, self.FIELD.dim, generator=torch.manual_seed(0))
        assert torch.allclose(TensorSquare(self.FIELD)(x).square().mean(0), torch.ones(11), atol=0.15)

    def test_skew(self):
        assert assert_equivariant(TensorSquare(on_a_point(SKEW))) < 1e-12


class TestRefusals:
    def test_no_path(self):
        so3 = SO3()
        space = Grid3d(so3)
        with pytest.raises(EmptyKernelSpaceError, match=r"quadratic map .* to irrep\(3\)"):
            TensorProduct(space.field(so3.irrep(1)), space.field(so3.trivial + so3.irrep(3)))

    def test_two_spaces(self):
        with pytest.raises(TypeMismatchError, match="an output type on Grid2d"):
            TensorProduct(Grid2d(D4).field(D4.trivial), Grid2d(C4).field(C4.trivial))

    def test_a_wrong_filter_is_noticed(self):
        layer = TensorProduct(*(Grid2d(D4).field(rho) for rho in CASES["D4"])).double()
        name = next(name for name in layer.paths._originals if name.startswith("maps"))
        layer.paths._originals[name] = layer.paths._originals[name] + 0.1
        with pytest.raises(AssertionError, match="does not commute"):
            assert_equivariant(layer)


def test_values_without_space_are_those_of_a_field_of_one_sample():
    layer = TensorProduct(*(Grid2d(D4).field(rho) for rho in CASES["D4"]))
    x = torch.randn(3, layer.in_type.dim, 1, 1)
    assert torch.allclose(layer(x)[..., 0, 0], layer(x[..., 0, 0]))


def test_a_changed_weight_is_seen_in_evaluation():
    layer = TensorProduct(*(Grid2d(D4).field(rho) for rho in CASES["D4"])).eval()
    x = torch.randn(3, layer.in_type.dim)
    with torch.no_grad():
        before = layer(x)
        for weight in layer.weights:
            weight.mul_(2)
        assert torch.allclose(layer(x), 2 * before)


class TestPathByPath:
    """Many fields: products of matrices in the place of a filter on all products of channels."""

    @pytest.fixture(autouse=True)
    def _always(self, monkeypatch):
        monkeypatch.setattr("intertwine._cost_rules.SMALLEST_FILTER", 0)
        monkeypatch.setattr("intertwine._cost_rules.PATH_GAIN", 0.0)

    LAYERS = (
        (
            3 * SO3().irrep(0) + 2 * SO3().irrep(1) + SO3().irrep(2),
            SO3().irrep(1) + 2 * SO3().irrep(2) + SO3().irrep(1),
        ),
        (2 * D4.irrep(1) + 3 * D4.trivial + D4.regular, D4.regular + 2 * D4.irrep(1) + D4.irrep(0, -1)),
        (2 * Q8.irreps[4] + Q8.trivial, Q8.regular),
    )

    def layer(self, rho1, rho2):
        space = Grid3d(rho1.group) if rho1.group == SO3() else None
        fields = [space.field(rho) for rho in (rho1, rho2)] if space else [on_a_point(rho) for rho in (rho1, rho2)]
        layer = TensorProduct(*fields).double()
        assert layer.paths.paths
        return layer

    @pytest.mark.parametrize("types", LAYERS)
    def test_it_is_the_filter(self, types):
        layer = self.layer(*types)
        x = torch.randn(5, layer.in_type.dim, dtype=torch.float64)
        plain = to_plain(layer.eval())
        for training in (True, False):
            assert (layer.train(training)(x) - plain(x)).abs().max() < 1e-12

    @pytest.mark.parametrize("types", LAYERS)
    def test_it_commutes_with_random_elements(self, types):
        layer = self.layer(*types)
        group = types[0].group
        x = torch.randn(5, layer.in_type.dim, dtype=torch.float64)
        elements = group.sample(4, torch.Generator().manual_seed(0)) if group == SO3() else range(group.order)
        for g in elements:
            error = layer(x @ types[0](g).T) - layer(x) @ types[1](g).T
            assert error.abs().max() < 1e-10

    def test_gradients_compilation_and_devices(self):
        layer = self.layer(*self.LAYERS[0])
        x = torch.randn(2, layer.in_type.dim, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x, *_: layer(x), (x, *layer.parameters()), fast_mode=True)
        assert torch.autograd.gradgradcheck(layer, (x,), fast_mode=True)
        assert torch.allclose(compiled(layer)(x), layer(x))
        batch = torch.export.Dim("batch")
        exported = torch.export.export(layer, (x.detach(),), dynamic_shapes=({0: batch},)).module()
        y = torch.randn(7, layer.in_type.dim, dtype=torch.float64)
        assert torch.allclose(exported(y), layer(y))
        assert_follows_device(layer, x.detach())


def test_many_fields_go_path_by_path_and_few_do_not():
    so3 = SO3()
    for copies, split in ((4, False), (16, True)):
        field = Grid3d(so3).field(copies * so3.irrep(0) + copies * so3.irrep(1))
        assert bool(TensorProduct(field, field).paths.paths) is split
