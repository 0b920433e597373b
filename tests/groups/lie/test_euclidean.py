"""T(n), SE(2) and SE(3): laws, exponential and logarithm, and what remains true without compactness."""

from __future__ import annotations

import math
import pickle

import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from intertwine.errors import InputError, NumericalError, RepresentationError, SubgroupError
from intertwine.groups import (
    SE2,
    SE3,
    SO2,
    SO3,
    Cyclic,
    Dihedral,
    LieGroup,
    LieRepresentation,
    Octahedral,
    Translations,
)

GROUPS: list[LieGroup] = [Translations(1), Translations(2), Translations(3), SE2(), SE3()]
MOTIONS = [SE2(), SE3()]
each_group = pytest.mark.parametrize("G", GROUPS, ids=lambda G: G.name)
each_motion = pytest.mark.parametrize("G", MOTIONS, ids=lambda G: G.name)

shifts = st.one_of(st.floats(-5, 5), st.just(0.0))
angles = st.one_of(st.floats(-1.75, 1.75), st.sampled_from([0.0, 1e-9, -1e-5]))


def coordinates(G: LieGroup) -> st.SearchStrategy[Tensor]:
    turns = G.algebra_dim - G.space_dim
    parts = st.tuples(*[shifts] * G.space_dim, *[angles] * turns)
    return parts.map(lambda c: torch.tensor(c, dtype=torch.float64))


def gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def expm(x: Tensor) -> Tensor:
    """The matrix exponential; torch's own is off by 2e-11 for some small matrices."""
    return torch.from_numpy(scipy.linalg.expm(x.numpy()))


@each_group
@given(data=st.data())
def test_group_laws_and_logarithms(G: LieGroup, data: st.DataObject) -> None:
    ca, cb, cc = (data.draw(coordinates(G)) for _ in range(3))
    a, b, c = G.exp(ca), G.exp(cb), G.exp(cc)
    assert gap(G.compose(G.compose(a, b), c), G.compose(a, G.compose(b, c))) < 1e-12
    assert gap(G.compose(a, G.inverse(a)), G.identity) < 1e-12
    assert gap(G.compose(G.inverse(a), a), G.identity) < 1e-12
    assert G.contains(G.compose(a, b))
    assert gap(G.log(a), ca) < 1e-11
    assert gap(a, expm(torch.einsum("a,aij->ij", ca, G.generators))) < 1e-12


@each_motion
def test_the_logarithm_at_half_turns(G: LieGroup) -> None:
    c = torch.zeros(G.algebra_dim, dtype=torch.float64)
    c[0], c[1], c[-1] = 1.0, -2.0, math.pi
    g = G.exp(c)
    assert gap(G.exp(G.log(g)), g) < 1e-13


@each_group
@pytest.mark.parametrize("size", [0.0, 1e-9, 0.5])
def test_derivatives_exist_at_the_identity(G: LieGroup, size: float) -> None:
    c = torch.full((G.algebra_dim,), size, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(G.exp, c)
    assert torch.autograd.gradcheck(lambda c: G.log(G.exp(c)), c)


@each_group
@pytest.mark.parametrize("radius", [0.0, 0.5, 20.0])
def test_samples_stay_within_the_radius(G: LieGroup, radius: float) -> None:
    n = 4000
    g = G.sample(n, torch.Generator().manual_seed(1), radius=radius)  # type: ignore[call-arg]
    assert G.contains(g)
    t = g[:, : G.space_dim, -1]
    assert float(t.norm(dim=-1).max()) <= radius + 1e-12
    assert gap(t.mean(0), torch.zeros(())) <= 6 * radius / n**0.5
    assert float(t.norm(dim=-1).max()) >= 0.95 * radius
    if G.algebra_dim > G.space_dim:
        assert gap(g[:, : G.space_dim, : G.space_dim].mean(0), torch.zeros(())) < 6 / n**0.5


@each_motion
def test_motions_act_on_points(G: SE2 | SE3) -> None:
    a, b = G.sample(2, radius=3.0)
    x = torch.randn(5, G.space_dim, dtype=torch.float64)
    assert gap(G.act(a @ b, x), G.act(a, G.act(b, x))) < 1e-13
    assert gap(G.from_parts(G.rotation(a), G.translation(a)), a) == 0


# -- representations ---------------------------------------------------------------------------------------------------


@each_motion
def test_irreducibles_are_homomorphisms_that_ignore_translations(G: SE2 | SE3) -> None:
    a, b = G.sample(20), G.sample(20)
    for rho in G.irreps_up_to(4):
        assert gap(rho(a @ b), rho(a) @ rho(b)) < 1e-12
        still = G.embed(Translations(G.space_dim), Translations(G.space_dim).sample(3))
        assert gap(rho(still), torch.eye(rho.dim)) < 1e-14
        assert pickle.loads(pickle.dumps(rho)) == rho
    assert G.irrep(0) == G.trivial


@each_group
def test_the_standard_representation(G: LieGroup) -> None:
    a, b = G.sample(2)
    rho = G.standard
    assert gap(rho(a @ b), rho(a) @ rho(b)) < 1e-13
    assert not rho.is_orthogonal
    assert gap(G.differential(rho), G.generators) < 1e-15


@each_motion
def test_decomposition(G: SE2 | SE3) -> None:
    rho = G.irrep(1) @ G.irrep(2) + 2 * G.trivial
    decomposition = rho.decompose()
    assert str(decomposition) == {"SE(2)": "2 trivial + irrep(1) + irrep(3)"}.get(
        G.name, "2 trivial + irrep(1) + irrep(2) + irrep(3)"
    )
    for g in G.sample(4):
        block = torch.block_diag(*(psi(g) for psi in decomposition.irreps))
        assert gap(decomposition.basis.T @ rho(g) @ decomposition.basis, block) < 1e-12
    with pytest.raises(RepresentationError, match="translations act trivially; got standard, in which they do not"):
        G.standard.decompose()


@each_motion
def test_intertwining_numbers(G: SE2 | SE3) -> None:
    assert G.intertwining_number(G.standard, G.standard) == 1
    # The last coordinate of homogeneous vectors is invariant, but no invariant vector splits off.
    assert G.intertwining_number(G.standard, G.trivial) == 1
    assert G.intertwining_number(G.trivial, G.standard) == 0
    rho, sigma = G.irrep(1) @ G.irrep(1), G.irrep(2) + G.irrep(1) + G.trivial
    R = G.rotations
    assert G.intertwining_number(rho, sigma) == R.intertwining_number(rho.restrict(R), sigma.restrict(R))


def test_waves() -> None:
    G = Translations(2)
    rho, sigma = G.irrep([1.0, 2.0]), G.irrep([0.5, -1.0])
    a, b = G.sample(20), G.sample(20)
    assert gap(rho(a @ b), rho(a) @ rho(b)) < 1e-14
    assert G.intertwining_number(rho, rho) == 2
    assert G.intertwining_number(rho, sigma) == 0
    assert G.intertwining_number(rho, G.irrep([-1.0, -2.0])) == 2
    product = 2 * (rho @ sigma) + G.trivial + rho @ rho
    decomposition = product.decompose()
    assert str(decomposition) == "3 trivial + 2 irrep(1.5, 1.0) + 2 irrep(0.5, 3.0) + irrep(2.0, 4.0)"
    for g in a[:4]:
        block = torch.block_diag(*(psi(g) for psi in decomposition.irreps))
        assert gap(decomposition.basis.T @ product(g) @ decomposition.basis, block) < 1e-11
    assert gap(decomposition.basis.T @ decomposition.basis, torch.eye(product.dim)) < 1e-12


def test_translations_that_shear_do_not_decompose() -> None:
    with pytest.raises(RepresentationError, match="an orthogonal representation; got standard, which is not"):
        Translations(2).standard.decompose()


def test_what_is_no_representation_of_translations_is_noticed() -> None:
    def quarter_turns_that_do_not_commute(g: Tensor) -> Tensor:
        return SO3().from_euler(g[..., 0, 2], g[..., 1, 2], torch.zeros_like(g[..., 0, 2]))

    G = Translations(2)
    fake = LieRepresentation(G, quarter_turns_that_do_not_commute, dim=3, degree=0, name="fake", is_orthogonal=True)
    with pytest.raises(NumericalError, match="commuting rotations"):
        fake.decompose()


# -- subgroups and refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("G", "H"), [(SE2(), SO2()), (SE2(), Translations(2)), (SE3(), SO3()), (SE3(), SO2()), (SE3(), Translations(3))]
)
def test_embeddings_are_homomorphisms(G: LieGroup, H: LieGroup) -> None:
    a, b = H.sample(5), H.sample(5)
    assert gap(G.embed(H, a @ b), G.embed(H, a) @ G.embed(H, b)) < 1e-14
    assert G.contains(G.embed(H, a))


def test_finite_rotation_groups_are_subgroups() -> None:
    assert SE3().embed(Octahedral(), 5).shape == (4, 4)
    C4 = Cyclic(4)
    assert str(SE2().irrep(2).restrict(C4).decompose()) == str(SO2().irrep(2).restrict(C4).decompose())


@pytest.mark.parametrize(
    ("G", "H"), [(SE2(), Dihedral(3)), (SE2(), SO3()), (Translations(2), SO2()), (SE3(), Translations(2))]
)
def test_what_is_no_subgroup_is_refused(G: LieGroup, H: LieGroup) -> None:
    with pytest.raises(SubgroupError, match="a subgroup of"):
        G.embed(H, H.identity)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Translations(0), "n to be a whole number of 1 or more; got 0"),
        (lambda: SE2().log(2 * torch.eye(3)), "last row is not"),
        (lambda: SE2().log(torch.diag(torch.tensor([1.0, -1.0, 1.0]))), "determinant -1"),
        (lambda: SE3().irrep(1)(torch.diag(torch.tensor([2.0, 1.0, 1.0, 1.0]))), "not orthogonal"),
        (lambda: Translations(2).log(SE2().exp(torch.tensor([0, 0, 1.0]))), "linear part differs"),
        (lambda: SE2().log(torch.full((3, 3), float("nan"))), "last row"),
        (lambda: SE3().sample(2, radius=-1.0), "a finite radius"),
        (lambda: SE3().from_parts(torch.eye(3), torch.zeros(2)), r"vectors: a tensor of shape \(\.\.\., 3\)"),
        (lambda: SE3().from_parts(-torch.eye(3), torch.zeros(3)), "determinant -1"),
        (lambda: SE3().exp(torch.zeros(5)), r"\(\.\.\., 6\)"),
        (lambda: SE2().elements, "infinitely many"),
        (lambda: Translations(2).irrep([1.0]), r"vectors: a tensor of shape \(\.\.\., 2\)"),
    ],
)
def test_bad_input_is_named(call: object, text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()  # type: ignore[operator]
