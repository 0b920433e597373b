"""Change of basis to irreducibles and back."""

from __future__ import annotations

import pytest
import torch

from intertwine.groups import SO3, Cyclic, Dihedral, MatrixRepresentation, Quaternion
from intertwine.nn import FromIrreps, ToIrreps
from intertwine.spaces import Grid2d, Grid3d, HomogeneousSpace

C2, D4, Q8 = Cyclic(2), Dihedral(4), Quaternion()
so3 = SO3()
SKEW = MatrixRepresentation(C2, torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [0.0, -1.0]]]), name="skew")


def on_a_point(rho):
    return HomogeneousSpace(rho.group, rho.group.whole).field(rho.restrict(rho.group.whole))


TYPES = {
    "mixed": Grid2d(D4).field(D4.irrep(1) + D4.regular + D4.trivial + 2 * D4.regular + D4.irrep(1)),
    "Q8": on_a_point(2 * Q8.regular + Q8.irreps[4]),
    "skew": Grid2d(C2).field(2 * SKEW + C2.irreps[1]),
    "products": Grid3d(so3).field(so3.irrep(1) @ so3.irrep(2) + so3.trivial + so3.irrep(1) @ so3.irrep(2)),
    "irreducible": Grid2d(D4).field(D4.irrep(1) + D4.trivial + D4.irrep(1)),
}


def matrix_of(layer) -> torch.Tensor:
    return layer.double()(torch.eye(layer.in_type.dim, dtype=torch.float64)).T


@pytest.mark.parametrize("name", TYPES)
def test_it_intertwines(name):
    field = TYPES[name]
    layer = ToIrreps(field)
    q = matrix_of(layer)
    group = field.rho.group
    some = group.elements if group.is_finite else group.sample(3, torch.Generator().manual_seed(0))
    assert (q @ field.rho(some) - layer.out_type.rho(some) @ q).abs().max() < 1e-10
    if field.rho.is_orthogonal:
        assert torch.allclose(q @ q.T, torch.eye(len(q), dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize("name", TYPES)
def test_the_type_is_sorted_and_irreducible(name):
    field = TYPES[name]
    atoms = ToIrreps(field).out_type.rho.atoms
    assert list(atoms) == list(field.rho.decompose().irreps)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("with_space", [True, False])
def test_there_and_back(name, with_space):
    field = TYPES[name]
    layer = ToIrreps(field)
    back = layer.inverse()
    assert isinstance(back, FromIrreps)
    assert back.inverse().in_type == field
    sizes = {"Q8": (1,), "products": (2, 3, 2)}.get(name, (2, 3)) if with_space else ()
    x = torch.randn(2, field.dim, *sizes, dtype=torch.float64)
    assert torch.allclose(back.double()(layer.double()(x)), x, atol=1e-12)
    assert torch.allclose(matrix_of(layer) @ matrix_of(back), torch.eye(field.dim, dtype=torch.float64), atol=1e-12)


def test_irreducibles_are_only_sorted():
    layer = ToIrreps(TYPES["irreducible"])
    assert torch.equal(layer(torch.arange(5.0)[None]), torch.tensor([[2.0, 0.0, 1.0, 3.0, 4.0]]))
