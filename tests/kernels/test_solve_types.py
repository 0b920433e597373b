"""The overloads of ``solve``. mypy checks the ``assert_type`` calls, pytest checks that they are true."""

from __future__ import annotations

from typing import assert_type

import pytest

from intertwine.errors import InputError
from intertwine.groups import Cyclic
from intertwine.kernels import (
    KernelBasis,
    LatticeKernelBasis,
    SphereKernelBasis,
    SteerableKernelBasis,
    solve,
)
from intertwine.spaces import FieldType, Grid2d, HomogeneousSpace, Sphere


def point_field() -> FieldType:
    group = Cyclic(4)
    return HomogeneousSpace(group, group.whole).field(group.whole.trivial)


def plane_field(group: str) -> FieldType:
    return Grid2d(group).field("trivial")


def test_finite_spaces() -> None:
    basis = solve(point_field(), point_field())
    assert_type(basis, KernelBasis)
    assert isinstance(basis, KernelBasis)


def test_sphere() -> None:
    field = Sphere().field("trivial")
    basis = solve(field, field, band_limit=2, allow_empty=True)
    assert_type(basis, SphereKernelBasis)
    assert isinstance(basis, SphereKernelBasis)


def test_named_method() -> None:
    field = plane_field("C4")
    lattice = solve(field, field, kernel_size=3, method="lattice")
    assert_type(lattice, LatticeKernelBasis)
    assert isinstance(lattice, LatticeKernelBasis)
    steerable = solve(field, field, kernel_size=(3, 3), method="steerable", band_limit=1)
    assert_type(steerable, SteerableKernelBasis)
    assert isinstance(steerable, SteerableKernelBasis)


@pytest.mark.parametrize(("group", "kind"), [("C4", LatticeKernelBasis), ("C8", SteerableKernelBasis)])
def test_the_group_of_a_grid_decides(group: str, kind: type) -> None:
    field = plane_field(group)
    basis = solve(field, field, kernel_size=3)
    assert_type(basis, LatticeKernelBasis | SteerableKernelBasis)
    assert isinstance(basis, kind)


def test_mypy_finds_a_wrong_type() -> None:
    # mypy rejects unused ignores, so this fails if the wrong type below ever passes.
    assert_type(solve(point_field(), point_field()), LatticeKernelBasis)  # type: ignore[assert-type]


def test_options_that_do_not_apply() -> None:
    plane, sphere, point = plane_field("C4"), Sphere().field("trivial"), point_field()
    with pytest.raises(InputError, match="expected no kernel_size for fields on finite spaces; got kernel_size=3"):
        solve(point, point, kernel_size=3)
    with pytest.raises(InputError, match="expected no sigma for filters on a lattice; got sigma="):
        solve(plane, plane, kernel_size=3, sigma=1.0)
    with pytest.raises(InputError, match="expected no rings for fields on the sphere"):
        solve(sphere, sphere, band_limit=2, rings=[1.0])  # type: ignore[call-overload]
    with pytest.raises(InputError, match="expected in_type to be a FieldType; got 3"):
        solve(3, 4)  # type: ignore[call-overload]
