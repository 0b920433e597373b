"""Free filters, rotated by interpolation: their number, their symmetry, and their error next to steerable ones."""

from __future__ import annotations

import pytest
import torch

from intertwine import testing
from intertwine.errors import InputError, TypeMismatchError
from intertwine.experiments.theory._checks import random_error
from intertwine.groups import Cyclic, Dihedral, FiniteGroup, Representation
from intertwine.kernels import RotatedKernelBasis, SteerableKernelBasis, solve
from intertwine.nn import Conv2d, Conv3d, FilterExpansion
from intertwine.spaces import Grid2d, Grid3d

C8, D8, C6 = Cyclic(8), Dihedral(8), Cyclic(6)


def table(rho: Representation) -> torch.Tensor:
    """Where each element sends each channel."""
    permutations = rho.permutation_table
    return torch.zeros(rho.group.order, 1, dtype=torch.int64) if permutations is None else permutations


def counted(group: FiniteGroup, rho1: Representation, rho2: Representation, k: int) -> int:
    """For the first pair of each orbit of pairs of channels, the orbits of taps under what fixes it, by Burnside.

    Taps are exchanged only by elements that map the lattice to itself.
    """
    plane = Grid2d(group)
    taps = plane.coordinates((k, k)).reshape(-1, 2)
    taps = taps[taps.norm(dim=1) <= k / 2 + 1e-9]
    p1, p2 = table(rho1), table(rho2)
    total = 0
    for a in range(rho2.dim):
        for b in range(rho1.dim):
            if min((int(p2[h, a]), int(p1[h, b])) for h in range(group.order)) < (a, b):
                continue
            fixing = [h for h in range(group.order) if p2[h, a] == a and p1[h, b] == b and plane.preserves_lattice(h)]
            fixed = [int(((plane.matrices(h) @ taps.T).T - taps).abs().amax(1).lt(1e-9).sum()) for h in fixing]
            total += sum(fixed) // len(fixing)
    return total


def _lattice_only(plane: Grid2d, a: int, b: int, p2: torch.Tensor, p1: torch.Tensor) -> bool:
    """Whether all elements that fix a pair of channels map the lattice to itself."""
    fixing = [h for h in range(len(p1)) if p2[h, a] == a and p1[h, b] == b]
    return all(plane.preserves_lattice(h) for h in fixing)


TYPES = [
    (C8, C8.regular, C8.regular, 168),
    (C8, C8.trivial, C8.regular, 21),
    (C8, 2 * C8.trivial, C8.regular + C8.trivial, None),
    (C8, C8.quotient(C8.subgroup([4])), C8.regular, 84),
    (C8, C8.quotient(C8.subgroup([4])), C8.quotient(C8.subgroup([4])), None),
    (D8, D8.trivial, D8.quotient(D8.subgroup([8])), None),
    (C6, C6.regular, C6.regular, 126),
]


@pytest.mark.parametrize(("group", "rho1", "rho2", "known"), TYPES, ids=lambda x: getattr(x, "name", str(x)))
def test_number_and_symmetry(group: FiniteGroup, rho1: Representation, rho2: Representation, known: int | None) -> None:
    plane = Grid2d(group)
    basis = RotatedKernelBasis(plane.field(rho1), plane.field(rho2), 5)
    predicted = counted(group, rho1, rho2, 5)
    exact = all(_lattice_only(plane, a, b, table(rho2), table(rho1)) for a, b in basis.orbits)
    # The mean over elements that resample makes some kernels dependent.
    assert basis.dim == predicted if exact else 0 < basis.dim <= predicted
    assert known is None or basis.dim == known
    assert int(torch.linalg.matrix_rank(basis.filters().flatten(1))) == basis.dim
    assert basis.residual < 1e-14


def test_all_taps_are_free_with_a_larger_radius() -> None:
    field = Grid2d("C8").field("regular")
    assert RotatedKernelBasis(field, field, 5, radius=3.0).dim == 8 * 25
    assert RotatedKernelBasis(field, field, 5, radius=0.0).dim == 8


def test_the_residual_finds_a_filter_that_is_not_rotated() -> None:
    field = Grid2d("C8").field("regular")
    basis = RotatedKernelBasis(field, field, 3)
    basis._kernels[0, 2] = basis._kernels[0, 0]
    del basis.residual
    assert basis.residual > 0.5


def test_on_a_group_of_the_lattice_these_are_the_orbits_of_the_disk() -> None:
    """For C4 nothing is interpolated: the kernels span those of the lattice basis without corners."""
    field = Grid2d("C4").field("regular")
    free, exact = RotatedKernelBasis(field, field, 5).filters(), solve(field, field, kernel_size=5).filters()
    both = torch.cat([free.flatten(1), exact.flatten(1)])
    assert len(free) == 84
    assert int(torch.linalg.matrix_rank(both)) == len(exact) == 100


@pytest.mark.parametrize(("k", "bound"), [(4, 0.01), (5, 0.02), (7, 0.02)])
def test_error_under_random_motions(k: int, bound: float) -> None:
    """Interpolating the field keeps the error near that of steerable filters; not rotating would give over 0.5."""
    plane, random = Grid2d("C8"), torch.Generator().manual_seed(0)
    field = plane.field("regular")
    basis = RotatedKernelBasis(field, field, k)
    filters = basis.filters(torch.randn(basis.dim, dtype=torch.float64, generator=random))
    assert max(random_error(plane, C8.regular, C8.regular, filters, random) for _ in range(16)) < bound
    still = filters[:1].expand_as(filters)
    assert max(random_error(plane, C8.regular, C8.regular, still, random) for _ in range(16)) > 0.5


def test_cubic_is_better_than_linear() -> None:
    plane, field = Grid2d("C8"), Grid2d("C8").field("regular")
    worst = {}
    for interpolation in ("linear", "cubic"):
        random = torch.Generator().manual_seed(0)
        basis = RotatedKernelBasis(field, field, 5, interpolation=interpolation)
        filters = basis.filters(torch.randn(basis.dim, dtype=torch.float64, generator=random))
        worst[interpolation] = max(random_error(plane, C8.regular, C8.regular, filters, random) for _ in range(8))
    assert worst["cubic"] < worst["linear"] / 2


def test_more_kernels_than_a_steerable_basis() -> None:
    field = Grid2d("C8").field("regular")
    free, steerable = solve(field, field, kernel_size=5, method="free"), solve(field, field, kernel_size=5)
    assert isinstance(free, RotatedKernelBasis)
    assert isinstance(steerable, SteerableKernelBasis)
    assert (free.dim, steerable.dim) == (168, 88)


# -- layers ---------------------------------------------------------------------------------------------------------


def test_the_layer_uses_these_filters() -> None:
    torch.manual_seed(0)
    plane = Grid2d(C8)
    scalar, regular = plane.field(C8.trivial), plane.field(C8.regular)
    layer = Conv2d(scalar, regular, 5, filters="free", bias=False).double()
    basis = RotatedKernelBasis(scalar, regular, 5)
    torch.testing.assert_close(layer.expand()[0].detach(), basis.filters(layer.weights[0].detach().flatten()))
    wide = Conv2d(regular, regular, 5, filters="free", bias=False).double()
    span = RotatedKernelBasis(regular, regular, 5).filters().flatten(1)
    kernel = wide.expand()[0].detach().flatten()
    assert wide.weights[0].shape == (1, 1, 168)
    assert float((kernel - torch.linalg.lstsq(span.T, kernel[:, None]).solution[:, 0] @ span).norm()) < 1e-10


def test_initial_weights_keep_the_variance_of_natural_images() -> None:
    torch.manual_seed(0)
    taps = torch.cartesian_prod(torch.arange(12.0), torch.arange(12.0)).double()
    root = torch.linalg.cholesky(torch.exp(-torch.cdist(taps, taps) / 8))
    images = (root @ torch.randn(144, 64 * 16, dtype=torch.float64)).T.reshape(64, 16, 12, 12)
    plane = Grid2d(C8)
    for filters in ("steerable", "free"):
        layer = Conv2d(plane.field(16 * C8.trivial), plane.field(8 * C8.regular), 5, filters=filters).double()
        assert 0.8 < float(layer(images).detach().std()) < 1.25


def test_layers_in_space_and_in_groups() -> None:
    plane = Grid2d(C8)
    field = plane.field(2 * C8.regular)
    assert testing.assert_equivariant(Conv2d(field, field, 3, padding=1, groups=2, filters="free")) < 1e-12
    axis = Cyclic(6)
    about_z = Grid3d(axis, action=_about_z(axis))
    volume = about_z.field(axis.regular)
    assert testing.assert_equivariant(Conv3d(about_z.field(axis.trivial), volume, 3, padding=1, filters="free")) < 1e-12


def _about_z(group: FiniteGroup) -> Representation:
    return group.irrep(1) + group.trivial


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda: _conv("D4", "regular", filters="free"), InputError, "free filters on Grid2d"),
        (lambda: _conv("C8", "regular", filters="free", rings=(0, 1)), InputError, "no rings"),
        (lambda: _conv("C8", "regular", filters="free", sigma=0.5), InputError, "no rings, sigma"),
        (lambda: _conv("C8", "irrep1", filters="free"), TypeMismatchError, "permutes"),
        (lambda: _conv("SO(2)", "irrep1", filters="free"), TypeMismatchError, "finite group"),
        (lambda: _conv("C8", "regular", filters="other"), InputError, "free"),
        (lambda: _solve("C8", band_limit=2), InputError, "band_limit"),
        (lambda: RotatedKernelBasis(*[Grid2d("C8").field("regular")] * 2, (3, 5)), InputError, "one size"),
        (lambda: FilterExpansion(*[Grid2d("C4").field("regular")] * 2, (3, 3), method="free"), InputError, "C4"),
    ],
)
def test_wrong_options(wrong, error, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=words):
        wrong()


def _conv(group: str, rho: str, **options: object) -> Conv2d:
    field = Grid2d(group).field(rho)
    return Conv2d(field, field, 5, **options)  # type: ignore[arg-type]


def _solve(group: str, **options: object) -> object:
    field = Grid2d(group).field("regular")
    return solve(field, field, kernel_size=5, method="free", **options)  # type: ignore[call-overload]
