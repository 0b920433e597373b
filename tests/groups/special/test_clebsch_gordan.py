"""Clebsch-Gordan coefficients against their laws and against two other libraries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from intertwine.errors import InputError
from intertwine.groups import SO3, clebsch_gordan, wigner_ds
from intertwine.groups.special._clebsch_gordan import complex_to_real

o3 = pytest.importorskip("e3nn.o3")


def triples(lmax: int) -> Iterator[tuple[int, int, int]]:
    for l1 in range(lmax + 1):
        for l2 in range(lmax + 1):
            for l3 in range(abs(l1 - l2), l1 + l2 + 1):
                yield l1, l2, l3


def gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def intertwining_error(C: Tensor, D1: Tensor, D2: Tensor, D3: Tensor) -> float:
    return gap(torch.einsum("gpi,gqj,ijk->gpqk", D1, D2, C), torch.einsum("pqn,gnk->gpqk", C, D3))


def test_they_are_isometries_that_together_fill_the_product() -> None:
    for l1 in range(6):
        for l2 in range(6):
            parts = [clebsch_gordan(l1, l2, l3).flatten(0, 1) for l3 in range(abs(l1 - l2), l1 + l2 + 1)]
            Q = torch.cat(parts, dim=1)
            assert gap(Q.T @ Q, torch.eye(Q.shape[0])) < 1e-14


def test_they_intertwine() -> None:
    D = wigner_ds(8, SO3().sample(3))
    for l1, l2, l3 in triples(4):
        assert intertwining_error(clebsch_gordan(l1, l2, l3), D[l1], D[l2], D[l3]) < 1e-13


def test_the_law_notices_a_wrong_tensor() -> None:
    D = wigner_ds(2, SO3().sample(3))
    assert intertwining_error(clebsch_gordan(1, 2, 2).abs(), D[1], D[2], D[2]) > 1e-2


def test_they_agree_with_e3nn_up_to_sign() -> None:
    for l1, l2, l3 in triples(5):
        if l3 > 8:
            continue
        ours = clebsch_gordan(l1, l2, l3)
        theirs = (2 * l3 + 1) ** 0.5 * o3.wigner_3j(l1, l2, l3, dtype=torch.float64)
        assert min(gap(ours, theirs), gap(ours, -theirs)) < 1e-12


@pytest.mark.parametrize(("l1", "l2", "l3"), [(1, 1, 2), (2, 1, 2), (3, 2, 4), (10, 9, 3), (12, 12, 12)])
def test_the_complex_ones_agree_with_sympy(l1: int, l2: int, l3: int) -> None:
    cg = pytest.importorskip("sympy.physics.quantum.cg").CG
    # Back to the complex basis, by the unitary matrices alone.
    u1, u2, u3 = complex_to_real(l1), complex_to_real(l2), complex_to_real(l3)
    C = torch.einsum("ai,bj,ck,abc->ijk", u1, u2, u3.conj(), clebsch_gordan(l1, l2, l3).to(torch.complex128))
    C = (C if (l1 + l2 + l3) % 2 == 0 else 1j * C).real
    for m1 in (-l1, -1, 0, 1):
        for m2 in (l2 - 1, 0, 1):
            m3 = m1 + m2
            if abs(m3) <= l3:
                exact = float(cg(l1, m1, l2, m2, l3, m3).doit())
                assert abs(float(C[l1 + m1, l2 + m2, l3 + m3]) - exact) < 1e-14


def test_the_stated_signs() -> None:
    for l in range(6):
        assert gap(clebsch_gordan(l, 0, l)[:, 0], torch.eye(2 * l + 1)) < 1e-15
        assert gap(clebsch_gordan(0, l, l)[0], torch.eye(2 * l + 1)) < 1e-15
    a, b = torch.randn(2, 3, dtype=torch.float64)
    order = [1, 2, 0]  # (x, y, z) to (y, z, x)
    crossed = torch.einsum("ijk,i,j->k", clebsch_gordan(1, 1, 1), a[order], b[order])
    assert gap(crossed, torch.linalg.cross(a, b)[order] / 2**0.5) < 1e-15


def test_high_degrees_stay_exact() -> None:
    C = clebsch_gordan(20, 20, 20).flatten(0, 1)
    assert gap(C.T @ C, torch.eye(41)) < 1e-13
    C = clebsch_gordan(1, 60, 61).flatten(0, 1)  # factorials far beyond the range of floats
    assert gap(C.T @ C, torch.eye(123)) < 1e-13


def test_the_cache_cannot_be_spoiled() -> None:
    clebsch_gordan(1, 1, 2).zero_()
    assert float(clebsch_gordan(1, 1, 2).abs().max()) > 0.5


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((1, 1, 3), r"l3 from \|l1 - l2\| = 0 to l1 \+ l2 = 2; got l3 = 3"),
        ((4, 1, 2), r"has no component of degree 2"),
        ((-1, 1, 1), "l1 to be a whole number of 0 or more; got -1"),
        ((1, 1.0, 1), "l2 to be a whole number"),
    ],
)
def test_bad_degrees_are_refused(arguments: tuple[int, int, int], text: str) -> None:
    with pytest.raises(InputError, match=text):
        clebsch_gordan(*arguments)
