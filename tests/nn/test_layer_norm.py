"""Normalization of single samples against torch's own and against the formula."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError, TypeMismatchError
from intertwine.groups import SO2, SO3, Cyclic, Dihedral
from intertwine.nn import GroupNorm, InstanceNorm, LayerNorm
from intertwine.spaces import Grid2d, Grid3d, Sphere
from intertwine.testing import assert_equivariant

C4, D4 = Cyclic(4), Dihedral(4)
PLANE = Grid2d(D4)
MIXED = PLANE.field(D4.irrep(1) + D4.regular + D4.trivial + D4.irrep(1) @ D4.irrep(1))
REGULAR = PLANE.field(4 * D4.regular)
SCALARS = PLANE.field(6 * D4.trivial)


def with_random_affine(layer):
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.randn_like(p))
    return layer.double()


def by_the_formula(layer, x: torch.Tensor, groups: list[list[int]], axes: tuple[int, ...]) -> torch.Tensor:
    """Field by field; e is found as the sum of all invariant directions by averaging over the group."""
    rho = layer.in_type.rho
    starts = [sum(atom.dim for atom in rho.atoms[:k]) for k in range(len(rho.atoms))]
    e = layer.center.double()
    assert torch.allclose(rho.matrices @ e, e.expand(rho.group.order, -1), atol=1e-12)
    out = torch.empty_like(x)
    beta = layer.invariants(layer.bias)
    for group in groups:
        channels = [starts[k] + i for k in group for i in range(rho.atoms[k].dim)]
        v, u = x[:, channels], e[channels].view(1, -1, 1, 1)
        square = u.square().sum()
        if square > 0:
            mean = (v * u).sum(1, keepdim=True)
            v = v - (mean.mean(axes, keepdim=True) if axes else mean) / square * u
        out[:, channels] = v / (v.square().mean((1, *axes), keepdim=True) + layer.eps).sqrt()
    gamma = torch.cat([w.expand(atom.dim) for w, atom in zip(layer.weight, rho.atoms, strict=True)])
    return out * gamma.view(1, -1, 1, 1) + beta.view(1, -1, 1, 1)


@pytest.mark.parametrize("field", [MIXED, REGULAR], ids=["mixed", "regular"])
def test_by_the_formula(field):
    x = 3 + 2 * torch.randn(3, field.dim, 4, 4, dtype=torch.float64)
    with torch.no_grad():
        layer = with_random_affine(LayerNorm(field))
        assert torch.allclose(layer(x), by_the_formula(layer, x, [[0, 1, 2, 3]], ()), atol=1e-10)
        layer = with_random_affine(InstanceNorm(field))
        assert torch.allclose(layer(x), by_the_formula(layer, x, [[0], [1], [2], [3]], (2, 3)), atol=1e-10)
        layer = with_random_affine(GroupNorm(field, 2))
        assert torch.allclose(layer(x), by_the_formula(layer, x, [[0, 1], [2, 3]], (2, 3)), atol=1e-10)


def test_on_scalars_they_are_those_of_torch():
    x = 3 + 2 * torch.randn(3, 6, 4, 5)
    layer_norm = torch.nn.LayerNorm(6)
    assert torch.allclose(LayerNorm(SCALARS)(x), layer_norm(x.movedim(1, -1)).movedim(-1, 1), atol=1e-5)
    assert torch.allclose(LayerNorm(SCALARS)(x[:, :, 0, 0]), layer_norm(x[:, :, 0, 0]), atol=1e-5)
    assert torch.allclose(GroupNorm(SCALARS, 3)(x), torch.nn.GroupNorm(3, 6)(x), atol=1e-5)
    assert torch.allclose(InstanceNorm(SCALARS)(x), torch.nn.InstanceNorm2d(6)(x), atol=1e-5)


@pytest.mark.parametrize("make", [LayerNorm, InstanceNorm, lambda field: GroupNorm(field, 2)])
def test_the_short_way_is_the_long_way(make):
    short, long = make(REGULAR), make(REGULAR)
    assert short._plain
    long._plain = False
    x = 3 + 2 * torch.randn(4, REGULAR.dim, 5, 5)
    assert torch.allclose(short(x), long(x), atol=1e-5)


def test_vectors_have_no_mean():
    so3 = SO3()
    field = Grid3d(so3).field(2 * so3.irrep(1))
    x = 3 + torch.randn(2, 6, 2, 2, 2)
    y = LayerNorm(field)(x)
    assert torch.allclose(y, x / x.square().mean(1, keepdim=True).sqrt(), atol=1e-4)
    assert not list(LayerNorm(field, affine=False).parameters())


def test_a_mean_of_vectors_would_break_it():
    layer = LayerNorm(REGULAR)
    layer.in_type = layer.out_type = PLANE.field(16 * D4.irrep(1))
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(layer)


class TestRefusals:
    def test_the_sphere_has_unequal_places(self):
        for make in (InstanceNorm, lambda field: GroupNorm(field, 1)):
            with pytest.raises(TypeMismatchError, match="Use LayerNorm"):
                make(Sphere().field(SO2().trivial))

    def test_groups_divide(self):
        for groups, text in ((3, "divisor of the 4 fields"), (0, "divisor of the 4 fields"), (2.0, "a whole number")):
            with pytest.raises(InputError, match=text):
                GroupNorm(REGULAR, groups)

    def test_orthogonal(self):
        C2 = Cyclic(2)
        skew = C2.representation([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [0.0, -1.0]]])
        for make in (LayerNorm, InstanceNorm):
            with pytest.raises(TypeMismatchError, match="orthogonal"):
                make(Grid2d(C2).field(skew))
