"""Clebsch-Gordan coefficients of SO(3) in the basis of real spherical harmonics.

In the complex basis, the coefficients are square roots of rational numbers, computed with integers and rounded once
(Racah's formula). A sparse unitary matrix converts them to the real basis.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import factorial, isqrt

import torch
from torch import Tensor

from ..._checked import checked
from ...errors import InputError
from ._checks import require_whole


@checked
def clebsch_gordan(l1: int, l2: int, l3: int) -> Tensor:
    """The isometric intertwiner from degree l3 to the tensor product of degrees l1 and l2.

    With C = ``clebsch_gordan(l1, l2, l3)`` of shape ``(2*l1+1, 2*l2+1, 2*l3+1)`` and D the real Wigner matrices,

        Σ_ij C[i,j,k] C[i,j,n] = δ_kn,    Σ_ij D^l1[p,i] D^l2[q,j] C[i,j,k] = Σ_n C[p,q,n] D^l3[n,k].

    Each index runs over m = -l..l, where m < 0 are the sines and m > 0 the cosines of the azimuth about z. So degree 1
    is ordered (y, z, x).

    The intertwiner is unique up to sign. The sign here comes from the complex coefficients with Condon-Shortley phases,
    converted to the real basis. If l1 + l2 + l3 is odd, they are imaginary there and are multiplied by -i. So (l, 0, l)
    and (0, l, l) are identity matrices, and (1, 1, 1) is the cross product over √2.

    Args:
        l1: degree of the first factor.
        l2: degree of the second factor.
        l3: degree of the component, from ``abs(l1 - l2)`` to ``l1 + l2``.

    >>> e1, e2 = torch.eye(3, dtype=torch.float64)[:2]
    >>> torch.einsum("ijk,i,j->k", clebsch_gordan(1, 1, 1), e1, e2)
    tensor([0.0000, 0.0000, 0.7071], dtype=torch.float64)
    """
    for name, l in (("l1", l1), ("l2", l2), ("l3", l3)):
        require_whole(l, caller="clebsch_gordan", name=name)
    if not abs(l1 - l2) <= l3 <= l1 + l2:
        raise InputError(
            "clebsch_gordan",
            expected=f"l3 from |l1 - l2| = {abs(l1 - l2)} to l1 + l2 = {l1 + l2}",
            got=f"l3 = {l3}",
            fix=f"The product of degrees {l1} and {l2} has no component of degree {l3}.",
        )
    return _real(l1, l2, l3).clone()  # a copy protects the cached tensor from in-place changes


def complex_to_real(l: int) -> Tensor:
    """The unitary U with Y_real = U Y_complex, for complex harmonics with Condon-Shortley phases.

    Y_m = (-1)^m √2 Re Y^m for m > 0 and (-1)^m √2 Im Y^|m| for m < 0, which removes all signs from the real harmonics.

    >>> complex_to_real(1).shape
    torch.Size([3, 3])
    """
    u = torch.zeros(2 * l + 1, 2 * l + 1, dtype=torch.complex128)
    u[l, l] = 1
    half = 0.5**0.5
    for m in range(1, l + 1):
        sign = (-1) ** m
        u[l + m, l + m], u[l + m, l - m] = sign * half, half
        u[l - m, l + m], u[l - m, l - m] = -1j * sign * half, 1j * half
    return u


@cache
def _real(l1: int, l2: int, l3: int) -> Tensor:
    c = torch.zeros(2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1, dtype=torch.complex128)
    for m1 in range(-l1, l1 + 1):
        for m2 in range(max(-l2, -l3 - m1), min(l2, l3 - m1) + 1):
            c[l1 + m1, l2 + m2, l3 + m1 + m2] = _complex(l1, m1, l2, m2, l3)
    u1, u2, u3 = complex_to_real(l1), complex_to_real(l2), complex_to_real(l3)
    c = torch.einsum("ai,bj,ck,ijk->abc", u1.conj(), u2.conj(), u3, c)
    return (c.real if (l1 + l2 + l3) % 2 == 0 else c.imag).contiguous()


def _complex(l1: int, m1: int, l2: int, m2: int, l3: int) -> float:
    """⟨l1 m1 l2 m2 | l3 m1+m2⟩ by Racah's formula, exact until the last square root."""
    m3, f = m1 + m2, factorial
    total = Fraction(0)
    for k in range(max(0, l2 - l3 - m1, l1 - l3 + m2), min(l1 + l2 - l3, l1 - m1, l2 + m2) + 1):
        below = f(k) * f(l1 + l2 - l3 - k) * f(l1 - m1 - k) * f(l2 + m2 - k) * f(l3 - l2 + m1 + k) * f(l3 - l1 - m2 + k)
        total += Fraction((-1) ** k, below)
    square = (
        total**2
        * Fraction((2 * l3 + 1) * f(l1 + l2 - l3) * f(l1 - l2 + l3) * f(l2 - l1 + l3), f(l1 + l2 + l3 + 1))
        * (f(l1 + m1) * f(l1 - m1) * f(l2 + m2) * f(l2 - m2) * f(l3 + m3) * f(l3 - m3))
    )
    return _sqrt(square) if total >= 0 else -_sqrt(square)


def _sqrt(q: Fraction) -> float:
    """√q, rounded from at least 100 bits. Numerator and denominator of q may exceed the range of floats."""
    shift = 2 * max(0, 100 - (q.numerator.bit_length() - q.denominator.bit_length()) // 2)
    return float(Fraction(isqrt((q.numerator << shift) // q.denominator), 1 << (shift // 2)))
