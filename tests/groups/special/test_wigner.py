"""Wigner matrices and spherical harmonics: laws, derivatives, and other libraries as oracles."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from intertwine.errors import InputError
from intertwine.groups import (
    SO2,
    SO3,
    circular_harmonics,
    clebsch_gordan,
    spherical_harmonics,
    wigner_d,
    wigner_ds,
)

ORDER = [1, 2, 0]  # degree 1 is (y, z, x); e3nn's polar axis is y, its coordinates are ours in this order
POLES = {
    "identity": (0.0, 0.0, 0.0),
    "north pole": (0.3, 0.0, 0.4),
    "south pole": (0.3, math.pi, 0.4),
    "near the pole": (0.3, 1e-9, -0.2),
    "equator": (0.1, math.pi / 2, 0.2),
}


@pytest.fixture
def double() -> Iterator[None]:
    """e3nn computes in the default type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def recursive_wigner_d(l: int, R: Tensor) -> Tensor:
    """The slow twin: D^l is the part of degree l of D^1 ⊗ D^(l-1), cut out by an isometry."""
    first = R[..., ORDER, :][..., ORDER]
    D = torch.ones(*R.shape[:-2], 1, 1, dtype=R.dtype)
    for k in range(1, l + 1):
        C = clebsch_gordan(1, k - 1, k)
        D = torch.einsum("pqm,...pi,...qj,ijn->...mn", C, first, D, C)
    return D


def law_errors(D: object, l: int, a: Tensor, b: Tensor) -> tuple[float, float, float]:
    """Failure of D(ab) = D(a)D(b), of orthogonality, and of Y(ax) = D(a)Y(x)."""
    Da, Db, Dab = (D(l, g) for g in (a, b, a @ b))  # type: ignore[operator]
    x = torch.randn(3, dtype=torch.float64)
    part = slice(l * l, (l + 1) ** 2)
    Y, moved = spherical_harmonics(l, x)[part], spherical_harmonics(l, a @ x)[..., part]
    return gap(Dab, Da @ Db), gap(Da.mT @ Da, torch.eye(2 * l + 1)), gap(moved, Da @ Y)


@given(l=st.integers(0, 20), seed=st.integers(0, 2**32 - 1))
def test_laws_to_degree_20(l: int, seed: int) -> None:
    a, b = SO3().sample(2, torch.Generator().manual_seed(seed))
    assert max(law_errors(wigner_d, l, a, b)) < 1e-11


@pytest.mark.parametrize("l", [20, 30])
def test_high_degrees(l: int) -> None:
    a, b = SO3().sample(50), SO3().sample(50)
    assert max(law_errors(wigner_d, l, a, b)) < 1e-11


def test_the_laws_notice_wrong_matrices() -> None:
    a, b = SO3().sample(2)
    transposed = law_errors(lambda l, g: wigner_d(l, g).mT, 3, a, b)
    assert transposed[0] > 1e-2
    assert transposed[1] < 1e-12
    assert transposed[2] > 1e-2
    assert law_errors(lambda l, g: 1.001 * wigner_d(l, g), 3, a, b)[1] > 1e-4
    # Reordering the basis gives a representation, but not the one of the harmonics.
    assert law_errors(lambda l, g: wigner_d(l, g).flip(-1).flip(-2), 3, a, b)[2] > 1e-2


@pytest.mark.parametrize("name", POLES)
def test_the_recursion_agrees(name: str) -> None:
    R = SO3().from_euler(*POLES[name])
    R = torch.cat([R[None], SO3().sample(4)])
    for l in range(13):
        assert gap(wigner_d(l, R), recursive_wigner_d(l, R)) < 1e-12


def test_all_degrees_at_once() -> None:
    R = SO3().sample(6).reshape(2, 3, 3, 3)
    for lmax in (0, 1, 2, 7):
        D = wigner_ds(lmax, R)
        assert [d.shape for d in D] == [(2, 3, 2 * l + 1, 2 * l + 1) for l in range(lmax + 1)]
        assert max(gap(d, wigner_d(l, R)) for l, d in enumerate(D)) < 1e-13
    assert wigner_d(3, R[:0]).shape == (0, 3, 7, 7)
    assert wigner_d(3, R.to(torch.float32)).dtype == torch.float32


@pytest.mark.parametrize("l", range(12))
@pytest.mark.usefixtures("double")
def test_e3nn_agrees(l: int) -> None:
    o3 = pytest.importorskip("e3nn.o3")
    R = SO3().sample(20)
    theirs = o3.wigner_D(l, *o3.matrix_to_angles(R[:, ORDER][:, :, ORDER]))
    assert gap(wigner_d(l, R), theirs) < 1e-12


@pytest.mark.parametrize("name", POLES)
@pytest.mark.parametrize("l", [1, 2, 4])
def test_derivatives_exist_at_the_poles(name: str, l: int) -> None:
    R = SO3().from_euler(*POLES[name]).requires_grad_()
    assert torch.autograd.gradcheck(lambda R: wigner_d(l, R), R)
    assert torch.autograd.gradgradcheck(lambda R: wigner_d(l, R), R)


def test_a_first_call_in_inference_mode_does_not_spoil_later_gradients() -> None:
    from intertwine.groups.special import _harmonics, _wigner

    _wigner._points.cache_clear()
    _harmonics._legendre_steps.cache_clear()
    with torch.inference_mode():
        wigner_d(5, torch.eye(3))
    R = torch.eye(3, dtype=torch.float64, requires_grad=True)
    wigner_d(5, R).sum().backward()
    assert R.grad is not None


@pytest.mark.parametrize("name", POLES)
def test_derivatives_along_the_group_are_those_of_the_generators(name: str) -> None:
    R, l = SO3().from_euler(*POLES[name]), 3
    J = torch.autograd.functional.jacobian(lambda c: wigner_d(l, R @ SO3().exp(c)), torch.zeros(3).double())
    expected = wigner_d(l, R) @ SO3().differential(SO3().irrep(l))
    assert gap(J.permute(2, 0, 1), expected) < 1e-12


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: wigner_d(-1, torch.eye(3)), "wigner_d: expected l to be a whole number"),
        (lambda: wigner_ds(1.5, torch.eye(3)), "wigner_ds: expected lmax to be a whole number"),
        (lambda: wigner_d(2, torch.eye(2)), r"rotations: a tensor of shape \(\.\.\., 3, 3\); got shape \(2, 2\)"),
        (lambda: spherical_harmonics(2, torch.zeros(4)), r"vectors: a tensor of shape \(\.\.\., 3\)"),
        (lambda: spherical_harmonics(-2, torch.zeros(3)), "lmax to be a whole number"),
        (lambda: circular_harmonics(2, torch.zeros(3)), r"\(\.\.\., 2\)"),
    ],
)
def test_bad_input_is_named(call: object, text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()  # type: ignore[operator]


# -- harmonics ---------------------------------------------------------------------------------------------------------


def test_harmonics_are_orthonormal_on_the_sphere() -> None:
    g, w = SO3().haar_quadrature(16)  # the north pole, moved by all rotations, covers the sphere evenly
    Y = spherical_harmonics(8, g[:, :, 2])
    assert gap(4 * math.pi * torch.einsum("g,ga,gb->ab", w, Y, Y), torch.eye(81)) < 1e-13


@pytest.mark.usefixtures("double")
def test_e3nn_harmonics_agree() -> None:
    o3 = pytest.importorskip("e3nn.o3")
    x = torch.randn(30, 3)
    theirs = o3.spherical_harmonics(list(range(12)), x[:, ORDER], normalize=True, normalization="integral")
    assert gap(spherical_harmonics(11, x), theirs) < 1e-12


def test_scipy_harmonics_agree() -> None:
    special = pytest.importorskip("scipy.special")
    x = torch.randn(20, 3, dtype=torch.float64)
    theta, phi = torch.atan2(x[:, :2].norm(dim=1), x[:, 2]).numpy(), torch.atan2(x[:, 1], x[:, 0]).numpy()
    ours = spherical_harmonics(20, x)
    for l in (0, 1, 2, 5, 20):
        for m in range(l + 1):
            value = torch.from_numpy(special.sph_harm_y(l, m, theta, phi)) * (-1) ** m  # scipy keeps (-1)^m
            if m == 0:
                assert gap(ours[:, l * l + l], value.real) < 1e-12
            else:
                assert gap(ours[:, l * l + l + m], 2**0.5 * value.real) < 1e-12
                assert gap(ours[:, l * l + l - m], 2**0.5 * value.imag) < 1e-12


def test_solid_harmonics_are_homogeneous_polynomials() -> None:
    x = torch.randn(5, 3, dtype=torch.float64)
    r = x.norm(dim=-1, keepdim=True)
    solid, surface = spherical_harmonics(6, x, normalize=False), spherical_harmonics(6, x)
    degrees = torch.tensor([l for l in range(7) for _ in range(2 * l + 1)])
    assert gap(solid, r**degrees * surface) < 1e-11
    # Harmonic: the trace of the second derivative vanishes.
    for k in (5, 8, 12, 20, 40):
        second = torch.autograd.functional.hessian(lambda x, k=k: spherical_harmonics(6, x, normalize=False)[k], x[0])
        assert abs(float(second.trace())) < 1e-10


@pytest.mark.parametrize("x", [[0.0, 0.0, 1.0], [0.0, 0.0, -2.0], [1.0, 0.0, 0.0], [0.3, -0.4, 0.5]])
@pytest.mark.parametrize("normalize", [True, False])
def test_harmonics_have_derivatives_everywhere(x: list[float], normalize: bool) -> None:
    v = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: spherical_harmonics(5, v, normalize=normalize), v)


def test_at_the_origin_only_degree_zero_remains() -> None:
    zero = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    Y = spherical_harmonics(3, zero)
    assert gap(Y.detach()[1:], torch.zeros(())) == 0
    assert abs(float(Y[0].detach()) - (4 * math.pi) ** -0.5) < 1e-15
    Y.sum().backward()
    assert zero.grad is not None
    assert bool(torch.isfinite(zero.grad).all())
    assert gap(circular_harmonics(3, torch.zeros(2))[1:], torch.zeros(())) == 0


@given(st.floats(-4, 4), st.floats(-4, 4), st.floats(0.1, 3))
def test_circular_harmonics_are_cosines_and_sines_that_turn(phi: float, theta: float, r: float) -> None:
    x = r * torch.tensor([math.cos(phi), math.sin(phi)], dtype=torch.float64)
    b = circular_harmonics(5, x)
    expected = [1.0, *(f(m * phi) for m in range(1, 6) for f in (math.cos, math.sin))]
    assert gap(b, torch.tensor(expected, dtype=torch.float64)) < 1e-13
    g = SO2().from_angle(theta)
    rho = torch.block_diag(*(SO2().irrep(m)(g) for m in range(6)))
    assert gap(circular_harmonics(5, g @ x), rho @ b) < 1e-13
    solid = circular_harmonics(5, x, normalize=False)
    scale = torch.tensor([1.0, *(r**m for m in range(1, 6) for _ in range(2))], dtype=torch.float64)
    assert gap(solid, scale * b) < 1e-11
