"""Laws of SO(2), O(2), SO(3), O(3): group, exponential and logarithm, invariant measure, subgroups."""

from __future__ import annotations

import math
import pickle

import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from intertwine.errors import InputError, SubgroupError
from intertwine.groups import O2, O3, SE2, SO2, SO3, CompactLieGroup, Cyclic, Dihedral, LieGroup, Octahedral, Symmetric

GROUPS: list[CompactLieGroup] = [SO2(), O2(), SO3(), O3()]
each_group = pytest.mark.parametrize("G", GROUPS, ids=lambda G: G.name)

# Exact multiples of π/2 meet the places where formulas divide by zero; tiny angles meet cancellation.
angles = st.one_of(
    st.floats(-math.pi, math.pi), st.sampled_from([0.0, math.pi, -math.pi, math.pi / 2]), st.floats(-1e-7, 1e-7)
)


def elements(G: LieGroup) -> st.SearchStrategy[Tensor]:
    coords = st.lists(angles, min_size=G.algebra_dim, max_size=G.algebra_dim)
    component = st.integers(0, len(G.component_representatives) - 1)
    return st.builds(
        lambda c, k: G.exp(torch.tensor(c, dtype=torch.float64)) @ G.component_representatives[k], coords, component
    )


def gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def expm(x: Tensor) -> Tensor:
    """The matrix exponential; torch's own is off by 2e-11 for some small matrices."""
    return torch.from_numpy(scipy.linalg.expm(x.numpy()))


@each_group
@given(data=st.data())
def test_group_laws(G: CompactLieGroup, data: st.DataObject) -> None:
    a, b, c = (data.draw(elements(G)) for _ in range(3))
    assert gap(G.compose(G.compose(a, b), c), G.compose(a, G.compose(b, c))) < 1e-13
    assert gap(G.compose(a, G.inverse(a)), G.identity) < 1e-13
    assert gap(G.compose(a, G.identity), a) == 0
    assert G.contains(G.compose(a, b))


@each_group
@given(data=st.data())
def test_the_exponential_inverts_the_logarithm_everywhere(G: CompactLieGroup, data: st.DataObject) -> None:
    coords = data.draw(st.lists(angles, min_size=G.algebra_dim, max_size=G.algebra_dim))
    g = G.exp(torch.tensor(coords, dtype=torch.float64))
    assert gap(G.exp(G.log(g)), g) < 1e-13
    assert float(torch.linalg.vector_norm(G.log(g))) <= math.pi + 1e-12


@pytest.mark.parametrize("G", [SO2(), SO3()], ids=lambda G: G.name)
@given(data=st.data())
def test_the_logarithm_inverts_the_exponential_below_half_turns(G: CompactLieGroup, data: st.DataObject) -> None:
    coords = data.draw(st.lists(st.floats(-1.75, 1.75), min_size=G.algebra_dim, max_size=G.algebra_dim))
    c = torch.tensor(coords, dtype=torch.float64)
    assert gap(G.log(G.exp(c)), c) < 1e-13


@pytest.mark.parametrize("angle", [1e-9, 1e-3, 0.06, 0.0632, 0.0633, 1.0])
def test_small_angles_keep_all_their_digits(angle: float) -> None:
    w = SO3().log(SO3().exp(torch.tensor([0.0, angle, 0.0], dtype=torch.float64)))
    assert abs(float(w[1]) - angle) < 2e-15


@each_group
def test_the_exponential_is_that_of_the_generators(G: CompactLieGroup) -> None:
    c = torch.randn(20, G.algebra_dim, dtype=torch.float64)
    assert gap(G.exp(c), expm(torch.einsum("na,aij->nij", c, G.generators))) < 1e-13


@pytest.mark.parametrize("axis", [[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, -2, 3], [0, -1, 1e-9]])
@pytest.mark.parametrize("short_of_pi", [0.0, 1e-15, 1e-9, 1e-5])
def test_logarithm_of_half_turns(axis: list[float], short_of_pi: float) -> None:
    w = torch.tensor(axis, dtype=torch.float64)
    w = w / torch.linalg.vector_norm(w) * (math.pi - short_of_pi)
    g = SO3().exp(w)
    assert gap(SO3().exp(SO3().log(g)), g) < 1e-14
    exact = 2 * torch.outer(w, w) / (w @ w) - torch.eye(3)  # a half turn without rounding errors of sine and cosine
    assert gap(SO3().exp(SO3().log(exact)), exact) < 1e-14


@pytest.mark.parametrize("G", [SO2(), SO3()], ids=lambda G: G.name)
@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-2, 0.99, 1.01, 3.0])
def test_exponential_and_logarithm_have_derivatives(G: CompactLieGroup, size: float) -> None:
    c = (size * torch.eye(G.algebra_dim, dtype=torch.float64)[0]).requires_grad_()
    assert torch.autograd.gradcheck(G.exp, c)
    assert torch.autograd.gradgradcheck(G.exp, c)
    if size < 3:
        assert torch.autograd.gradcheck(lambda c: G.log(G.exp(c)), c)
        J = torch.autograd.functional.jacobian(lambda c: G.log(G.exp(c)), c)
        assert gap(J, torch.eye(G.algebra_dim)) < 1e-12


def test_derivative_of_the_logarithm_is_finite_at_half_turns() -> None:
    g = torch.diag(torch.tensor([1.0, -1.0, -1.0], dtype=torch.float64)).requires_grad_()
    SO3().log(g).sum().backward()
    assert g.grad is not None
    assert bool(torch.isfinite(g.grad).all())


@given(angles, st.one_of(st.floats(0, math.pi), st.sampled_from([0.0, math.pi, 1e-12, math.pi - 1e-9])), angles)
def test_euler_angles_there_and_back(alpha: float, beta: float, gamma: float) -> None:
    g = SO3().from_euler(alpha, beta, gamma)
    a, b, c = SO3().to_euler(g)
    assert gap(SO3().from_euler(a, b, c), g) < 1e-14
    assert abs(float(b) - beta) < 1e-12
    assert SO3().contains(g)


def test_euler_angles_are_z_y_z() -> None:
    about_z, about_y = (lambda t: SO3().exp(torch.tensor([0, 0, t]))), (lambda t: SO3().exp(torch.tensor([0, t, 0])))
    assert gap(SO3().from_euler(0.25, 0.5, 0.75), about_z(0.25) @ about_y(0.5) @ about_z(0.75)) < 1e-15
    assert gap(SO2().from_angle(0.3), SO2().exp(torch.tensor([0.3], dtype=torch.float64))) == 0


# -- measure -----------------------------------------------------------------------------------------------------------


@each_group
def test_samples_are_elements_and_their_moments_vanish(G: CompactLieGroup) -> None:
    n = 40_000
    g = G.sample(n, torch.Generator().manual_seed(7))
    assert g.shape == (n, G.matrix_dim, G.matrix_dim)
    assert G.contains(g)
    for rho in G.irreps_up_to(3)[1:]:
        assert gap(rho(g).mean(0), torch.zeros(())) < 6 / n**0.5  # entries have variance at most 1
    again = G.sample(n, torch.Generator().manual_seed(7))
    assert torch.equal(g, again)
    assert G.sample(0).shape == (0, G.matrix_dim, G.matrix_dim)


@each_group
def test_quadrature_is_exact_by_the_relations_of_schur(G: CompactLieGroup) -> None:
    degree = 4
    g, w = G.haar_quadrature(2 * degree)
    assert abs(float(w.sum()) - 1) < 1e-13
    assert bool((w > 0).all())
    irreps = G.irreps_up_to(degree)
    values = torch.cat([rho(g).flatten(1) for rho in irreps], dim=1)
    gram = torch.einsum("g,ga,gb->ab", w, values, values)
    blocks = []
    for rho in irreps:
        if rho.endomorphism_dim == 1:
            blocks.append(torch.eye(rho.dim**2, dtype=torch.float64) / rho.dim)
        else:  # ∫ of entries of rotation by mθ: cosine and sine appear twice each
            blocks.append(torch.tensor([[1.0, 0, 0, 1], [0, 1, -1, 0], [0, -1, 1, 0], [1, 0, 0, 1]]) / 2)
    assert gap(gram, torch.block_diag(*blocks)) < 1e-13


@each_group
def test_quadrature_of_too_low_degree_is_not_exact(G: CompactLieGroup) -> None:
    g, w = G.haar_quadrature(3)
    integrals = [torch.einsum("g,gij->ij", w, rho(g)) for rho in G.irreps_up_to(4) if rho.degree == 4]
    assert max(float(value.abs().max()) for value in integrals) > 1e-2


@each_group
@pytest.mark.parametrize("degree", [0, 1, 2, 5])
def test_class_quadrature_agrees_on_characters(G: CompactLieGroup, degree: int) -> None:
    (g, w), (h, v) = G.haar_quadrature(degree), G.class_quadrature(degree)
    for rho in G.irreps_up_to(degree):
        expected = 1.0 if rho == G.trivial else 0.0
        assert abs(float((w * rho.character(g)).sum()) - expected) < 1e-13
        assert abs(float((v * rho.character(h)).sum()) - expected) < 1e-13


# -- subgroups and values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("G", "H"), [(O2(), SO2()), (SO3(), SO2()), (O3(), SO3()), (O3(), SO2()), (SO3(), SO3())], ids=str
)
def test_embeddings_of_lie_groups_are_homomorphisms(G: CompactLieGroup, H: CompactLieGroup) -> None:
    a, b = H.sample(10), H.sample(10)
    assert gap(G.embed(H, a @ b), G.embed(H, a) @ G.embed(H, b)) < 1e-14
    assert G.contains(G.embed(H, a))
    assert gap(G.embed(H, H.identity), G.identity) == 0


def test_the_plane_turns_about_z() -> None:
    assert gap(SO3().embed(SO2(), SO2().from_angle(0.7)), SO3().from_euler(0.7, 0, 0)) < 1e-15


@pytest.mark.parametrize(
    ("G", "H"), [(SO2(), Cyclic(5)), (O2(), Dihedral(4)), (SO3(), Octahedral()), (O3(), Octahedral(reflections=True))]
)
def test_embeddings_of_finite_groups_are_homomorphisms(G: CompactLieGroup, H: Cyclic) -> None:
    n = H.order
    a, b = torch.arange(n).repeat(n), torch.arange(n).repeat_interleave(n)
    assert gap(G.embed(H, H.compose(a, b)), G.embed(H, a) @ G.embed(H, b)) < 1e-12
    assert G.contains(G.embed(H, H.elements))
    rho = G.irreps_up_to(3)[-1].restrict(H)
    assert gap(rho(H.compose(a, b)), rho(a) @ rho(b)) < 1e-12
    assert sum(psi.dim for psi in rho.decompose().irreps) == rho.dim


@pytest.mark.parametrize(
    ("G", "H", "text"),
    [
        (SO2(), Dihedral(4), "acts by orthogonal matrices, some of determinant -1, in dimension 2"),
        (SO3(), Cyclic(4), "acts by rotations in dimension 2"),
        (SO3(), Symmetric(4), "no embedding is known"),
        (SO2(), SO3(), "no embedding is known"),
        (O3(), O2(), "no embedding is known"),
    ],
)
def test_what_is_no_subgroup_is_refused(G: CompactLieGroup, H: LieGroup, text: str) -> None:
    with pytest.raises(SubgroupError, match=text):
        G.embed(H, H.identity)
    with pytest.raises(SubgroupError, match="Restrict in steps"):
        G.standard.restrict(H)


@each_group
def test_groups_are_values(G: CompactLieGroup) -> None:
    assert type(G)() == G
    assert hash(type(G)()) == hash(G)
    assert pickle.loads(pickle.dumps(G)) == G
    assert [H for H in GROUPS if H == G] == [G]
    rho = G.irreps_up_to(2)[-1]
    assert pickle.loads(pickle.dumps(rho)) == rho


# -- refusals ----------------------------------------------------------------------------------------------------------


@each_group
def test_what_is_no_element_is_refused(G: CompactLieGroup) -> None:
    rho = G.irreps_up_to(2)[-1]
    for bad, text in [
        (2 * G.identity, "not orthogonal"),
        (torch.full_like(G.identity, float("nan")), "NaN"),
        (torch.zeros(7, 7), "shape"),
        (3, "got 3"),
    ]:
        assert not G.contains(bad)
        with pytest.raises(InputError, match=text):
            rho(bad)
        with pytest.raises(InputError, match=text):
            G.log(bad)


@pytest.mark.parametrize("G", [SO2(), SO3()], ids=lambda G: G.name)
def test_reflections_are_refused(G: CompactLieGroup) -> None:
    mirror = G.identity.clone()
    mirror[0, 0] = -1
    assert not G.contains(torch.stack([G.identity, mirror]))
    with pytest.raises(InputError, match="determinant -1"):
        G.irrep(2)(mirror)


@pytest.mark.parametrize("G", [O2(), O3()], ids=lambda G: G.name)
def test_reflections_have_no_logarithm(G: CompactLieGroup) -> None:
    assert G.contains(G.component_representatives[1])
    with pytest.raises(InputError, match="have no logarithm"):
        G.log(G.component_representatives)


@each_group
def test_infinitely_many_elements_are_refused(G: CompactLieGroup) -> None:
    with pytest.raises(InputError, match=r"infinitely many.*sample\(n\), or restrict to a finite subgroup"):
        _ = G.elements
    with pytest.raises(InputError, match="infinitely many"):
        _ = G.trivial.matrices


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: SO3().exp(torch.zeros(2)), r"\(\.\.\., 3\); got shape \(2,\)"),
        (lambda: SO2().exp(0.5), r"coords to be a tensor"),
        (lambda: SO2().sample(-1), "n to be a whole number of 0 or more; got -1"),
        (lambda: SO2().irrep(-1), r"SO\(2\)\.irrep: expected m to be a whole number"),
        (lambda: SO3().irrep(1.5), "got 1.5"),
        (lambda: O3().irrep(2, 0), "parity \\+1 or -1; got 0"),
        (lambda: O2().irrep(0, 2), "parity \\+1 or -1; got 2"),
        (lambda: O2().irrep(1, -1), "no parity for m = 1"),
        (lambda: SO3().haar_quadrature(-1), "degree to be a whole number"),
        (lambda: SO3().compose(SO3().identity, SO2().identity), r"\(\.\.\., 3, 3\); got shape \(2, 2\)"),
        (lambda: SO3().to_euler(-torch.eye(3)), "determinant -1"),
        (lambda: SO3().decompose(SO2().irrep(1)), r"representations of one group"),
        (lambda: SO3().intertwining_number(SO3().trivial, SE2().trivial), r"representations of one group"),
    ],
)
def test_bad_input_is_named(call: object, text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()  # type: ignore[operator]


def test_single_precision_is_promoted() -> None:
    g = SO3().sample(5).to(torch.float32)
    assert SO3().contains(g)
    assert SO3().irrep(3)(g).dtype == torch.float64
    assert SO3().log(g).dtype == torch.float64
