"""Irreducibles of the compact Lie groups, and what the algebra of representations does with them."""

from __future__ import annotations

import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from intertwine.errors import NumericalError, RepresentationError
from intertwine.groups import O2, O3, SO2, SO3, CompactLieGroup, LieRepresentation, Representation, degree_of

GROUPS: list[CompactLieGroup] = [SO2(), O2(), SO3(), O3()]
each_group = pytest.mark.parametrize("G", GROUPS, ids=lambda G: G.name)


def gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def expm(x: Tensor) -> Tensor:
    """The matrix exponential; torch's own is off by 2e-11 for some small matrices."""
    return torch.from_numpy(scipy.linalg.expm(x.numpy()))


def homomorphism_error(rho: Representation, a: Tensor, b: Tensor) -> float:
    return gap(rho(a @ b), rho(a) @ rho(b))


@each_group
@given(seed=st.integers(0, 2**32 - 1), which=st.integers(0, 100))
def test_irreducibles_are_orthogonal_homomorphisms(G: CompactLieGroup, seed: int, which: int) -> None:
    irreps = G.irreps_up_to(12)
    rho = irreps[which % len(irreps)]
    a, b = G.sample(2, torch.Generator().manual_seed(seed))
    assert homomorphism_error(rho, a, b) < 1e-12
    assert gap(rho(a).mT @ rho(a), torch.eye(rho.dim)) < 1e-12
    assert gap(rho(G.identity), torch.eye(rho.dim)) < 1e-13
    assert rho.is_orthogonal
    assert rho.permutation_table is None


@each_group
def test_irreducibles_are_irreducible_and_different(G: CompactLieGroup) -> None:
    irreps = G.irreps_up_to(5)
    assert len({rho.digest for rho in irreps}) == len(irreps)
    assert [rho.degree for rho in irreps] == sorted(rho.degree for rho in irreps)
    for i, rho in enumerate(irreps):
        for j, sigma in enumerate(irreps):
            complex_type = isinstance(G, SO2) and i > 0
            assert G.intertwining_number(rho, sigma) == (0 if i != j else 2 if complex_type else 1)


def test_kinds() -> None:
    assert SO2().irrep(3).kind == "complex"
    assert [G.irreps_up_to(2)[-1].kind for G in GROUPS] == ["complex", "real", "real", "real"]
    assert SO2().trivial == SO2().irrep(0)


def test_a_wrong_power_is_no_homomorphism() -> None:
    wrong = LieRepresentation(SO2(), lambda g: g * g, dim=2, degree=2, name="squares", is_orthogonal=False)
    a, b = SO2().sample(2)
    assert homomorphism_error(wrong, a, b) > 1e-2


def test_the_natural_parity_is_that_of_harmonics() -> None:
    for l in range(5):
        for parity in (1, -1, None):
            sign = (-1) ** l if parity is None else parity
            assert gap(O3().irrep(l, parity)(-torch.eye(3)), sign * torch.eye(2 * l + 1)) < 1e-13
    mirror = torch.diag(torch.tensor([1.0, -1.0]))
    assert gap(O2().irrep(3)(mirror), mirror) == 0
    assert gap(O2().irrep(0, -1)(mirror), -torch.eye(1)) == 0


@each_group
def test_irreducibles_have_derivatives_at_the_identity_and_elsewhere(G: CompactLieGroup) -> None:
    rho = G.irreps_up_to(3)[-1]
    for g in (G.identity, G.component_representatives[-1], G.sample(1)[0]):
        assert torch.autograd.gradcheck(rho, g.clone().requires_grad_())


@each_group
def test_differentials_generate_the_representation(G: CompactLieGroup) -> None:
    rho = G.irreps_up_to(3)[-1] + G.standard @ G.irreps_up_to(2)[-1]
    X = G.differential(rho)
    c = torch.randn(G.algebra_dim, dtype=torch.float64)
    assert gap(expm(torch.einsum("a,aij->ij", c, X)), rho(G.exp(c))) < 1e-12
    assert gap(G.differential(G.standard), G.generators) < 1e-15
    assert gap(X, -X.mT) < 1e-12


def test_differentials_satisfy_the_commutation_relations() -> None:
    x, y, z = SO3().differential(SO3().irrep(6))
    assert gap(x @ y - y @ x, z) < 1e-11
    assert gap(x @ x + y @ y + z @ z, -6 * 7 * torch.eye(13)) < 1e-10


# -- decomposition -----------------------------------------------------------------------------------------------------


def block_error(rho: Representation) -> float:
    G = rho.group
    assert isinstance(G, CompactLieGroup)
    decomposition = rho.decompose()
    g = G.sample(6, torch.Generator().manual_seed(3))
    blocks = torch.stack([torch.block_diag(*(psi(x) for psi in decomposition.irreps)) for x in g])
    return gap(torch.linalg.solve(decomposition.basis, rho(g) @ decomposition.basis), blocks)


def cases() -> list[Representation]:
    so2, o2, so3, o3 = SO2(), O2(), SO3(), O3()
    return [
        so2.standard,
        so2.irrep(2) @ so2.irrep(2),
        so2.irrep(2) @ so2.irrep(1) @ so2.irrep(3) + 2 * so2.trivial,
        so2.irrep(3).dual(),
        o2.standard,
        o2.irrep(2) @ o2.irrep(2) + o2.irrep(0, -1),
        o2.irrep(0, -1) @ o2.irrep(3),
        so3.standard,
        so3.standard @ so3.standard @ so3.standard,
        so3.irrep(3) @ so3.irrep(4),
        2 * so3.irrep(1) + so3.irrep(2).dual() + so3.irrep(1) @ so3.irrep(1),
        o3.standard,
        o3.irrep(2, -1) @ o3.irrep(1) + o3.irrep(0, -1),
        so3.irrep(5).restrict(so2),
        (so3.irrep(2) @ so3.irrep(2)).restrict(so2),
        o2.irrep(4).restrict(so2),
        o3.irrep(3, 1).restrict(so3),
        (o3.irrep(1) @ o3.irrep(2)).restrict(so3),
        o3.irrep(3).restrict(so2),
    ]


@pytest.mark.parametrize("rho", cases(), ids=repr)
def test_decompositions_are_block_diagonal_with_an_orthogonal_basis(rho: Representation) -> None:
    decomposition = rho.decompose()
    assert block_error(rho) < 1e-12
    assert gap(decomposition.basis.T @ decomposition.basis, torch.eye(rho.dim)) < 1e-12
    for psi in set(decomposition.irreps):
        G = rho.group
        assert decomposition.irreps.count(psi) * psi.endomorphism_dim == G.intertwining_number(psi, rho)
    assert torch.equal(decomposition.basis, rho.decompose().basis)


@pytest.mark.parametrize(
    ("rho", "text"),
    [
        (SO3().irrep(2) @ SO3().irrep(3), "irrep(1) + irrep(2) + irrep(3) + irrep(4) + irrep(5)"),
        (SO3().irrep(3).restrict(SO2()), "trivial + irrep(1) + irrep(2) + irrep(3)"),
        (SO2().irrep(1) @ SO2().irrep(1), "2 trivial + irrep(2)"),
        (O2().irrep(1) @ O2().irrep(1), "trivial + irrep(0, -1) + irrep(2)"),
        (O3().irrep(1) @ O3().irrep(1), "trivial + irrep(1, +1) + irrep(2, +1)"),
        (O3().irrep(1, 1) @ O3().irrep(1), "irrep(0, -1) + irrep(1, -1) + irrep(2, -1)"),
        (O2().irrep(0, -1).restrict(SO2()), "trivial"),
        (3 * SO3().standard, "3 irrep(1)"),
    ],
    ids=str,
)
def test_known_decompositions(rho: Representation, text: str) -> None:
    assert str(rho.decompose()) == text


def test_an_irreducible_is_its_own_decomposition() -> None:
    decomposition = (SO3().irrep(2) + SO3().irrep(0)).decompose()
    assert decomposition.irreps == (SO3().trivial, SO3().irrep(2))
    assert gap(decomposition.basis.abs().sum(0), torch.ones(6)) == 0


@each_group
def test_a_representation_that_is_not_orthogonal(G: CompactLieGroup) -> None:
    inner = G.irreps_up_to(2)[-1] + G.standard
    shear = torch.eye(inner.dim, dtype=torch.float64) + torch.rand(inner.dim, inner.dim, dtype=torch.float64).triu(1)
    rho = LieRepresentation(
        G,
        lambda g: shear @ inner(g) @ torch.linalg.inv(shear),
        dim=inner.dim,
        degree=2,
        name="sheared",
        is_orthogonal=False,
    )
    assert block_error(rho) < 1e-11
    assert str(rho.decompose()) == str(inner.decompose())


def test_large_products_keep_their_digits() -> None:
    rho = SO3().irrep(6) @ SO3().irrep(5)
    assert block_error(rho) < 1e-12
    assert len(rho.decompose().irreps) == 11


def test_an_understated_degree_is_noticed() -> None:
    high = SO3().irrep(3)
    lying = LieRepresentation(SO3(), high, dim=7, degree=1, name="lying", is_orthogonal=True)
    with pytest.raises(NumericalError, match=r"is the representation a homomorphism|degree at least"):
        lying.decompose()


def test_what_is_no_homomorphism_is_noticed() -> None:
    for G in (SO2(), SO3()):
        fake = LieRepresentation(
            G, lambda g: 0.5 * (g + g @ g), dim=G.matrix_dim, degree=2, name="fake", is_orthogonal=True
        )
        with pytest.raises(NumericalError, match=r"fake|homomorphism"):
            fake.decompose()


def test_degrees() -> None:
    G = SO3()
    assert degree_of(G.irrep(4)) == 4
    assert degree_of((G.irrep(4) @ G.irrep(2)).dual() + G.standard) == 6
    assert degree_of(G.irrep(5).restrict(SO2())) == 5


def test_a_representation_of_unknown_degree_is_refused() -> None:
    class Foreign(Representation):
        group, dim, name = SO2(), 2, "foreign"
        digest, permutation_table, is_orthogonal = "foreign", None, True

        def __call__(self, g: object) -> Tensor:
            return SO2().irrep(1)(g)  # type: ignore[arg-type]

        def character(self, g: object) -> Tensor:
            return SO2().irrep(1).character(g)  # type: ignore[arg-type]

        @property
        def atoms(self) -> tuple[Representation, ...]:
            return (self,)

    rho = Foreign()
    with pytest.raises(RepresentationError, match=r"known degree.*got Foreign"):
        rho.decompose()
    rho.degree = 1  # type: ignore[attr-defined]
    assert str(rho.decompose()) == "irrep(1)"
