"""Live checks of the classification: the number of kernels against characters, the maps against group elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb

import torch
from torch import Tensor
from torch.nn.functional import conv1d, conv2d, conv3d, pad

from ..._checked import checked
from ...groups import SO2, SO3, CompactLieGroup, FiniteGroup, LieGroup, Representation, Symmetric, degree_of
from ...kernels import (
    HermiteKernelBasis,
    LatticeKernelBasis,
    RotatedKernelBasis,
    SphereKernelBasis,
    SteerableKernelBasis,
    solve,
)
from ...nn import Layer, Linear, PointConv, TupleLinear
from ...spaces import Cloud3d, FieldType, Grid, HomogeneousSpace, Motion, Point, Sphere, Tuples
from ...testing import equivariance_errors

SAMPLED = 0.01
"""The largest relative error of filters sampled at the taps, under random motions of smooth fields."""

INTERPOLATED = 0.05
"""The same for free filters, which are rotated by interpolation."""


@checked
@dataclass(frozen=True)
class Check:
    """The result of one live instance of a row.

    Attributes:
        instance: the field types.
        dim: the number of kernels.
        mackey: the number predicted from characters.
        wider_dim: the number of kernels for a larger filter or another band limit.
        wider_mackey: the prediction for ``wider_dim``.
        residual: the largest violation of the kernel constraint; None if only the layer is checked.
        error: the equivariance error under a motion of the lattice on a random field, relative to the output; None if
            there is no lattice.
        random_error: the largest such error under random elements of the row's group, on a smooth field.
        bound: the largest ``random_error`` allowed for rounding or for sampling the filter.
    """

    instance: str
    dim: int
    mackey: int
    wider_dim: int
    wider_mackey: int
    residual: float | None
    error: float | None
    random_error: float
    bound: float = 1e-10

    @property
    def passed(self) -> bool:
        """Whether the numbers of kernels agree and the errors are within their bounds."""
        counted = self.dim == self.mackey > 0 and self.wider_dim == self.wider_mackey
        exact = max(self.residual or 0.0, self.error or 0.0) < 1e-10
        return counted and exact and self.random_error < self.bound


def on_a_grid(
    space: Grid, rho1: Representation, rho2: Representation, rotation: int | Tensor, *, free: bool = False
) -> Callable[[], Check]:
    """A check of a random filter: on a periodic random field under one step and a rotation that maps the lattice to
    itself, and on a smooth field under random elements of the group. ``free`` selects filters rotated by interpolation.
    """

    def check() -> Check:
        in_type, out_type = space.field(rho1), space.field(rho2)
        size = 3 if space.dimension == 3 else 5
        basis = _solved(in_type, out_type, size, free)
        random = torch.Generator().manual_seed(0)
        weights = torch.randn(basis.dim, dtype=torch.float64, generator=random)
        filters = basis.filters(weights if isinstance(basis, RotatedKernelBasis) else basis.combine(weights))
        f = torch.randn(1, rho1.dim, *[9] * space.dimension, dtype=torch.float64, generator=random)
        convolve = {1: conv1d, 2: conv2d, 3: conv3d}[space.dimension]

        def layer(f: Tensor) -> Tensor:
            return convolve(pad(f, (size // 2,) * (2 * space.dimension), mode="circular"), filters)

        g = Motion(torch.tensor([1.0] + [0.0] * (space.dimension - 1), dtype=torch.float64), rotation)
        moved = layer(in_type.transform(f, g)), out_type.transform(layer(f), g)
        wider = size + 2
        other = _solved(in_type, out_type, wider, free, band_limit=2 if space.dimension == 3 else 3)
        return Check(
            _instance(in_type, out_type),
            *(basis.dim, count(basis), other.dim, count(other)),
            basis.residual,
            _difference(*moved),
            max(random_error(space, rho1, rho2, filters, random) for _ in range(8)),
            1e-10 if space.exact else INTERPOLATED if free else SAMPLED,
        )

    return check


def _solved(
    in_type: FieldType, out_type: FieldType, size: int, free: bool, band_limit: int | None = None
) -> LatticeKernelBasis | SteerableKernelBasis | RotatedKernelBasis:
    if free:
        return solve(in_type, out_type, kernel_size=size, method="free")
    exact = isinstance(in_type.space, Grid) and in_type.space.exact
    return solve(in_type, out_type, kernel_size=size, band_limit=None if exact else band_limit)


def count(basis: LatticeKernelBasis | SteerableKernelBasis | RotatedKernelBasis) -> int:
    """The number of kernels from characters: the mean over the group of χ1 χ2 χ, χ the character of functions on taps.

    If filters are sampled, the functions are the harmonics up to the band limit on each ring; their character has a
    closed form. Free filters have all taps of the disk for each orbit of pairs of channels, if only the identity fixes
    a pair.
    """
    rho1, rho2 = basis.in_type.rho, basis.out_type.rho
    g, weights = _average(rho1, rho2, _band_limit(basis) if isinstance(basis, SteerableKernelBasis) else 0)
    both = weights * rho1.character(g) * rho2.character(g)
    if isinstance(basis, RotatedKernelBasis):
        points = basis.space.coordinates(basis.kernel_size)
        return round(float(both.sum())) * int((points.norm(dim=-1) <= basis.kernel_size[0] / 2).sum())
    if isinstance(basis, LatticeKernelBasis):
        taps = basis.coordinates
        fixed = (basis.space.matrices(g) @ taps.T - taps.T).abs().amax(1) < 1e-9
        return round(float((both * fixed.sum(1)).sum()))
    motions = basis.space.action(g)
    by_degree = [round(float((both * _harmonic_character(motions, j)).sum())) for j in range(1 + _band_limit(basis))]
    return sum(sum(by_degree[: ring.band_limit + 1]) for ring in basis.rings)


def _average(rho1: Representation, rho2: Representation, degree: int = 0) -> tuple[Tensor, Tensor]:
    """Elements and weights for the mean over the group of a product of both representations and this degree."""
    group = rho1.group
    if isinstance(group, CompactLieGroup):
        return group.haar_quadrature(degree_of(rho1) + degree_of(rho2) + degree)
    return group.elements, torch.full((len(group.elements),), 1 / len(group.elements), dtype=torch.float64)


def _band_limit(basis: SteerableKernelBasis) -> int:
    return max(ring.band_limit for ring in basis.rings)


def _harmonic_character(m: Tensor, degree: int) -> Tensor:
    """The trace of orthogonal matrices on the harmonics of one degree, from their rotation angles."""
    n = m.shape[-1]
    det = torch.linalg.det(m)
    if n == 2:
        angle = torch.atan2(m[..., 1, 0], m[..., 0, 0])
        turned = 2 * (degree * angle).cos() if degree else torch.ones_like(angle)
        return torch.where(det > 0, turned, 0.0 if degree else 1.0)
    trace = torch.einsum("...ii->...", m) * det  # an improper rotation is -1 times a proper one
    angle = ((trace - 1) / 2).clamp(-1, 1).acos()
    turned = 1 + 2 * torch.stack([(k * angle).cos() for k in range(1, degree + 1)]).sum(0) if degree else det * det
    return turned * det**degree


def random_error(
    space: Grid, rho1: Representation, rho2: Representation, filters: Tensor, random: torch.Generator
) -> float:
    """The error under one random motion, on a sum of Gaussians of width 2, which needs no interpolation.

    If the group maps the lattice to itself, translations are lattice vectors; otherwise they are arbitrary.
    """
    d = space.dimension
    taps = space.coordinates(filters.shape[2:]).reshape(-1, d) @ space.lattice_basis.T
    kernel = filters.flatten(2)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=random)

    centers, values, points = 3 * normal(12, d), normal(rho1.dim, 12), 3 * normal(40, d)

    def field(x: Tensor) -> Tensor:
        return torch.exp(-torch.cdist(x.reshape(-1, d), centers).square() / 8).unflatten(0, x.shape[:-1]) @ values.T

    h = space.stabilizer
    if isinstance(h, FiniteGroup):
        r: int | Tensor = int(torch.randint(h.order, (), generator=random))
    elif isinstance(h, LieGroup):
        r = h.sample(1, random)[0]
    steps = 2 * normal(d)
    t = space.lattice_basis @ (steps.round() if space.exact else steps)
    turn = space.action(r)

    def back(x: Tensor) -> Tensor:
        return (x - t) @ turn  # the inverse of an orthogonal matrix is its transpose

    of_moved = torch.einsum("ijk,pkj->pi", kernel, field(back(points[:, None] + taps)) @ rho1(r).T)
    moved = torch.einsum("ijk,pkj->pi", kernel, field(back(points)[:, None] + taps)) @ rho2(r).T
    return _difference(of_moved, moved)


def on_scales(*, order: int) -> Callable[[], Check]:
    """A check of random Gauss-Hermite filters under random translations and scalings.

    The field is a sum of Gaussians and the filters can be sampled at every scale, so nothing is interpolated. The
    filters are counted by their rank, and predicted as the polynomials of their degree.
    """

    def check() -> Check:
        basis, other = HermiteKernelBasis(order=order, sigma=1.0), HermiteKernelBasis(order=order + 1, sigma=1.0)
        random = torch.Generator().manual_seed(0)
        weights = torch.randn(basis.dim, dtype=torch.float64, generator=random)
        f = torch.randn(1, 1, 31, 31, dtype=torch.float64, generator=random)
        filters = torch.tensordot(weights, basis.filters(1.0), 1)[None, None]

        def layer(f: Tensor) -> Tensor:
            return conv2d(pad(f, (basis.radius(1.0),) * 4, mode="circular"), filters)

        return Check(
            f"Gauss-Hermite functions up to degree {order}",
            *(_rank(basis), comb(order + 2, 2), _rank(other), comb(order + 3, 2)),
            basis.residual,
            _difference(layer(f.roll((1, 2), (2, 3))), layer(f).roll((1, 2), (2, 3))),
            max(random_zoom_error(basis, weights, random) for _ in range(8)),
            SAMPLED,
        )

    return check


def _rank(basis: HermiteKernelBasis) -> int:
    return int(torch.linalg.matrix_rank(basis.filters(1.0).flatten(1)))


def random_zoom_error(basis: HermiteKernelBasis, weights: Tensor, random: torch.Generator) -> float:
    """The error under one random translation and scaling by up to 2, on a sum of Gaussians of width 2."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=random)

    centers, values, points, t = 3 * normal(12, 2), normal(12), 3 * normal(40, 2), 2 * normal(2)
    s = 1 + float(torch.rand((), generator=random))

    def response(x: Tensor, scale: float, zoom: float) -> Tensor:
        """The response at this scale to the field enlarged by ``zoom``, at x."""
        axis = torch.arange(-basis.radius(scale), basis.radius(scale) + 1, dtype=torch.float64)
        taps = torch.cartesian_prod(axis, axis)
        seen = (x[:, None] + taps) / zoom
        field = torch.exp(-torch.cdist(seen.flatten(0, 1), centers).square() / 8) @ values
        return field.view(len(x), -1) @ torch.tensordot(weights, basis.filters(scale), 1).flatten()

    # (π(t, s)f)(x) = f((x − t)/s)
    return _difference(response(points - t, s, s), response((points - t) / s, 1.0, 1.0))


def on_the_sphere(rho1: Representation, rho2: Representation) -> Callable[[], Check]:
    """A check of a random kernel on a random band-limited field, applied in the spectrum, under random rotations."""

    def check() -> Check:
        space = Sphere()
        in_type, out_type = space.field(rho1), space.field(rho2)
        basis = solve(in_type, out_type, band_limit=6)
        other = solve(in_type, out_type, band_limit=9)
        random = torch.Generator().manual_seed(0)
        grid = space.grid("gauss-legendre", band_limit=6)
        noise = torch.randn(rho1.dim, *grid.shape, dtype=torch.float64, generator=random)
        f = in_type.transform(noise, SO3().identity, grid=grid)  # analysis and synthesis restrict the noise to the band
        weights = torch.randn(basis.dim, dtype=torch.float64, generator=random)

        def error(g: Tensor) -> float:
            left = basis.apply(weights, in_type.transform(f, g, grid=grid), grid)
            return _difference(left, out_type.transform(basis.apply(weights, f, grid), g, grid=grid))

        about_z = SO3().from_euler(2 * torch.pi / grid.shape[1], 0.0, 0.0)  # maps the sample points to themselves
        return Check(
            _instance(in_type, out_type),
            *(basis.dim, _count_spins(basis), other.dim, _count_spins(other)),
            basis.residual,
            error(about_z),
            max(error(g) for g in SO3().sample(4, random)),
        )

    return check


def _count_spins(basis: SphereKernelBasis) -> int:
    """Σ_l m1(l) m2(l), m(l) the mean over rotations about the axis of the character of rho times that of degree l."""
    rho1, rho2 = basis.in_type.rho, basis.out_type.rho
    g, weights = SO2().haar_quadrature(max(map(degree_of, (rho1, rho2))) + basis.band_limit)
    angle = torch.atan2(g[:, 1, 0], g[:, 0, 0])
    total, character = 0, torch.ones_like(angle)
    for l in range(basis.band_limit + 1):
        character = character + 2 * (l * angle).cos() if l else character
        m1, m2 = (round(float((weights * rho.character(g) * character).sum())) for rho in (rho1, rho2))
        total += m1 * m2
    return total


def on_cosets(group: FiniteGroup, subgroup: FiniteGroup, rho: Representation) -> Callable[[], Check]:
    """A check of a random map between fields on the cosets, under every element."""

    def check() -> Check:
        field = HomogeneousSpace(group, subgroup).field(rho)
        basis = solve(field, field)
        doubled = field.space.field(rho + rho)
        other = solve(field, doubled)
        random = torch.Generator().manual_seed(0)
        kappa = basis.combine(torch.randn(basis.dim, dtype=torch.float64, generator=random))
        f = torch.randn(rho.dim, basis.points, dtype=torch.float64, generator=random)
        errors = [
            _difference(basis.correlate(kappa, field.transform(f, g)), field.transform(basis.correlate(kappa, f), g))
            for g in range(group.order)
        ]
        counts = [_count_maps(group, field, out) for out in (field, doubled)]
        return Check(
            _instance(field, field),
            basis.dim,
            counts[0],
            other.dim,
            counts[1],
            basis.residual,
            max(errors),
            max(errors),
        )

    return check


def _count_maps(group: FiniteGroup, in_type: FieldType, out_type: FieldType) -> int:
    """The mean over the group of the product of the characters of the two spaces of fields."""
    traces = [[float(t.induced(g).trace()) for g in range(group.order)] for t in (in_type, out_type)]
    return round(sum(a * b for a, b in zip(*traces, strict=True)) / group.order)


def on_points(rho1: Representation, rho2: Representation) -> Callable[[], Check]:
    """A check of a convolution on a random cloud, under random motions and permutations of its points.

    The kernels at one radius are the maps that commute with the rotations about an edge; the mean over those rotations
    of the product of the characters counts them.
    """

    def check() -> Check:
        space = Cloud3d(rho1.group)
        layers = [PointConv(space.field(rho1), space.field(out), radius=2.0) for out in (rho2, rho2 + rho2)]
        expected = [_count_about_an_edge(rho1, out) for out in (rho2, rho2 + rho2)]
        return _of_a_layer(layers[0], [layer.kernels for layer in layers], expected)

    return check


def _count_about_an_edge(rho1: Representation, rho2: Representation) -> int:
    angles, weights = SO2().haar_quadrature(degree_of(rho1) + degree_of(rho2))
    turns = SO3().embed(SO2(), angles)
    return round(float((weights * rho1.character(turns) * rho2.character(turns)).sum()))


def on_tuples(order: int) -> Callable[[], Check]:
    """A check of the map between fields on tuples, under random permutations; counted by enumerating a small group."""

    def check() -> Check:
        field = Tuples(order).field("trivial")
        layer = TupleLinear(field, field, bias=False)
        wider = TupleLinear(field, Tuples(order).field("2*trivial"), bias=False)
        group = Symmetric(2 * order + 1)
        fixed = group.quotient(group.fixing(0)).character(group.elements)
        count = round(float((fixed ** (2 * order)).mean()))
        return _of_a_layer(layer, [layer.weight.numel(), wider.weight.numel()], [count, 2 * count])

    return check


def at_a_point(rho1: Representation, rho2: Representation) -> Callable[[], Check]:
    """A check of the linear map between vectors that carry representations, under random elements."""

    def check() -> Check:
        space = Point(rho1.group)
        layers = [Linear(space.field(rho1), space.field(out), bias=False) for out in (rho2, rho2 + rho2)]
        counts = [sum(weight.numel() for weight in layer.weights) for layer in layers]
        expected = _count_intertwiners(rho1, rho2)
        return _of_a_layer(layers[0], counts, [expected, 2 * expected])

    return check


def _count_intertwiners(rho1: Representation, rho2: Representation) -> int:
    g, weights = _average(rho1, rho2)
    return round(float((weights * rho1.character(g) * rho2.character(g)).sum()))


def _of_a_layer(layer: Layer, counts: list[int], expected: list[int]) -> Check:
    """The check of a layer without a lattice: its kernels and those of a wider one, and its error."""
    numbers = counts[0], expected[0], counts[1], expected[1]
    error = max(equivariance_errors(layer).values())  # under random elements of its group
    return Check(_instance(layer.in_type, layer.out_type), *numbers, residual=None, error=None, random_error=error)


def _instance(in_type: FieldType, out_type: FieldType) -> str:
    return f"{in_type.rho.name} → {out_type.rho.name} on {in_type.space.name}"


def _difference(left: Tensor, right: Tensor) -> float:
    return float((left - right).norm() / right.norm())
