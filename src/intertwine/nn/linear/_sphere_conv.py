"""Convolution of scalar, vector and tensor fields on the sphere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import pi

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ..._devices import on_cpu
from ...errors import EmptyKernelSpaceError, InputError, TypeMismatchError
from ...groups import SO2, Representation
from ...kernels import SphereKernelBasis
from ...spaces import FieldType, Sphere, SphereGrid, SpinTables, spin_decomposition, spin_tables
from .._layer import Exact, Layer, register_layer
from .._traced import TracedLayer
from ..basis._invariants import Invariants
from ..basis._tables import TableModule


@register_layer
class SphereConv(TracedLayer):
    r"""out_a2^l = Σ_a1 K^l[a2, a1] f_a1^l: the general linear map of fields on the sphere that commutes with SO(3).

    Takes fields of any SO(2) type: scalars, tangent vectors (spin 1), tensors (higher spins) and sums of them. The f^l
    are the coefficients of the field in spin-weighted harmonics of degree l ≤ L
    (:class:`~intertwine.spaces.SpinTransform`), and the K^l are free matrices over the channels that exist at that
    degree. In space the same map is the cross-correlation with a kernel that is rotated and twisted to every point,
    :meth:`correlate`.

    Shapes: ``(batch, d1, *in_grid.shape)`` to ``(batch, d2, *out_grid.shape)``. Equivariance: exact for fields of
    degree at most the band limit of ``in_grid``. A coarser ``out_grid`` pools and a finer one upsamples, exactly as
    well. Nonlinearities that act on the samples raise the degree; see ``docs/layers.md``.

    Args:
        in_type: fields on a ``Sphere``.
        out_type: fields on a ``Sphere``.
        in_grid: where the input is sampled, ``Sphere().grid(kind, band_limit=L)``.
        out_grid: where the output is sampled; by default as the input.
        band_limit: the largest degree L of the kernels; by default as large as both grids allow.
        anchors: interpolate the K^l between the values at this many degrees, evenly spaced from 0 to L; by default
            each degree has its own. Few anchors make kernels smooth in the degree, and so local in space.
        bias: whether to add a bias, one per scalar component of the output.
        gain: ratio of the standard deviations of output and input, on fields with independent coefficients.

    >>> sphere, H = Sphere(), SO2()
    >>> grid = sphere.grid("gauss-legendre", band_limit=6)
    >>> wind, height = sphere.field(H.irrep(1)), sphere.field(H.trivial)
    >>> layer = SphereConv(wind, height, grid)
    >>> layer(torch.randn(3, 2, *grid.shape)).shape
    torch.Size([3, 1, 7, 13])
    >>> layer.weight.shape
    torch.Size([12])
    """

    needs_space = True

    @checked
    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        in_grid: SphereGrid,
        *,
        out_grid: SphereGrid | None = None,
        band_limit: int | None = None,
        anchors: int | None = None,
        bias: bool = True,
        gain: float = 1.0,
    ) -> None:
        _require_sphere(in_type, out_type)
        super().__init__(in_type, out_type, Exact())
        self.in_grid, self.out_grid = in_grid, in_grid if out_grid is None else out_grid
        self.band_limit = _band_limit(band_limit, self.in_grid, self.out_grid)
        self.gain, self.fixed_sizes = gain, self.in_grid.shape
        self.spectrum = _Spectrum(in_type, out_type, self.band_limit, anchors)
        self.analysis = _Transform(self.in_grid, in_type.rho, self.band_limit)
        self.synthesis = _Transform(self.out_grid, out_type.rho, self.band_limit)
        self.invariants = Invariants(out_type.rho)
        self.weight = torch_nn.Parameter(torch.empty(self.spectrum.size))
        self.bias = torch_nn.Parameter(torch.empty(self.invariants.size)) if bias and self.invariants.size else None
        self.reset_parameters()

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        sphere, H = Sphere(), SO2()
        grid, fine = sphere.grid("gauss-legendre", band_limit=5), sphere.grid("equiangular", band_limit=6)
        scalars, vectors = sphere.field(2 * H.trivial), sphere.field(2 * H.irrep(1))
        mixed = sphere.field(H.irrep(1) + H.trivial + H.irrep(2) + H.trivial + H.irrep(1))
        yield cls(scalars, scalars, grid)
        yield cls(scalars, vectors, grid, out_grid=fine, band_limit=4)
        yield cls(vectors, vectors, fine, out_grid=grid, anchors=3)
        yield cls(mixed, mixed, fine)

    def reset_parameters(self) -> None:
        """Draw weights that give each output coefficient gain² times the mean variance of the input coefficients."""
        with torch.no_grad():
            self.weight.copy_(self.gain * self.spectrum.initial())
            if self.bias is not None:
                self.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks: analysis, one matrix per degree, synthesis."""
        waves = self.analysis.tables().analysis(x)
        out = torch.einsum("lij,bjlks->bilks", self.spectrum(self.weight), waves)
        f = self.synthesis.tables().synthesis(out)
        return f if self.bias is None else f + self.invariants(self.bias)[:, None, None]

    def matrices(self) -> Tensor:
        """K^l for all degrees, ``(L+1, d2, d1)``; 0 if either channel does not exist at that degree."""
        return self.spectrum(self.weight)

    def correlate(self, x: Tensor) -> Tensor:
        """The same map by its definition in space, the twisted cross-correlation over the points of the grid.

        Slow, O(points²), and needs no transform. Input and output must share one grid.
        """
        if self.in_grid != self.out_grid:
            raise InputError(
                "SphereConv.correlate",
                expected="the same grid for input and output",
                got=f"{self.in_grid} and {self.out_grid}",
            )
        self.check_input(x)
        basis = SphereKernelBasis(self.in_type, self.out_type, self.band_limit)
        l, a2, a1 = basis.index.T
        scale = ((2 * l.to(torch.float64) + 1) / (4 * pi)).sqrt()
        f = basis.correlate(self.matrices().detach().double()[l, a2, a1] * scale, x, self.in_grid)
        return f if self.bias is None else f + self.invariants(self.bias)[:, None, None]

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The shape of ``out_grid``; an error unless the input has the shape of ``in_grid``."""
        if tuple(sizes) != self.in_grid.shape:
            raise InputError(
                "SphereConv",
                expected=f"the {self.in_grid.shape[0]} rings of {self.in_grid.shape[1]} points of {self.in_grid}",
                got=f"sizes {tuple(sizes)}",
                fix="Sample the field at grid.points, or build the layer for the grid of the data.",
            )
        return self.out_grid.shape

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """None: there are no translations."""
        return None

    def extra_repr(self) -> str:
        """Types, grids and the band limit."""
        grids = f"on {self.in_grid}" + ("" if self.in_grid == self.out_grid else f" → {self.out_grid}")
        return f"{self.in_type.rho} → {self.out_type.rho.name} {grids}, band_limit={self.band_limit}"


class _Transform(TableModule):
    """The tables of a spin-weighted transform, as constants that move with the layer."""

    def __init__(self, grid: SphereGrid, rho: Representation, band_limit: int) -> None:
        super().__init__()
        tables = spin_tables(grid, rho, band_limit)
        self._spins = tables.spins
        self._slices = tables.channels
        self._has = {}
        named = {"order": tables.order, "circle": tables.circle, "weights": tables.weights}
        named |= {"basis": tables.basis, "inverse": tables.inverse}
        for number, channels in enumerate(tables.channels):
            named[f"channels{number}"] = None if isinstance(channels, slice) else channels
            named[f"even{number}"], named[f"odd{number}"] = tables.even[number], tables.odd[number]
        for name, value in named.items():
            self._has[name] = value is not None
            if value is not None:
                self.register_table(name, value)

    def _table(self, name: str) -> Tensor | None:
        return self.get_buffer(name) if self._has[name] else None

    def tables(self) -> SpinTables:
        """The tables in the current precision."""
        numbers = range(len(self._spins))
        return SpinTables(
            self._spins,
            tuple(self.get_buffer(f"channels{n}") if self._has[f"channels{n}"] else self._slices[n] for n in numbers),
            self._table("order"),
            self.get_buffer("circle"),
            tuple(self.get_buffer(f"even{n}") for n in numbers),
            tuple(self.get_buffer(f"odd{n}") for n in numbers),
            self.get_buffer("weights"),
            self._table("basis"),
            self._table("inverse"),
        )


class _Spectrum(TableModule):
    """The matrices K^l, ``(L+1, d2, d1)``, from free weights."""

    place: Tensor
    between: Tensor
    exists: Tensor

    def __init__(self, in_type: FieldType, out_type: FieldType, band_limit: int, anchors: int | None) -> None:
        super().__init__()
        self._shape = (band_limit + 1, out_type.dim, in_type.dim)
        exists = _existing(in_type, out_type, band_limit)
        self._inputs = exists.any(1).sum(-1)  # input channels that reach the outputs of a degree
        self._interpolated = anchors is not None
        if anchors is None:
            self.register_table("place", torch.nonzero(exists.flatten()).flatten())
            self.size = len(self.place)
        else:
            between = _interpolation(band_limit, anchors)
            # Without this mask an anchor would be a dead weight for pairs of channels that exist at none of its
            # degrees.
            reached = torch.einsum("la,lij->aij", between, exists.to(between)) > 0
            self.register_table("between", between)
            self.register_table("exists", exists.to(torch.float64))
            self.register_table("place", torch.nonzero(reached.flatten()).flatten())
            self.size = len(self.place)
        if not self.size:
            raise EmptyKernelSpaceError(
                "SphereConv",
                expected="a nonzero kernel",
                got=f"none from {in_type} to {out_type} up to degree {band_limit}",
                fix="A field of spin m has degrees from m on: use a larger band_limit.",
            )

    def forward(self, weight: Tensor) -> Tensor:
        l, d2, d1 = self._shape
        if not self._interpolated:
            return weight.new_zeros(l * d2 * d1).index_copy(0, self.place, weight).view(self._shape)
        rows = self.between.shape[1]
        at_anchors = weight.new_zeros(rows * d2 * d1).index_copy(0, self.place, weight)
        return (self.between @ at_anchors.view(rows, -1)).view(self._shape) * self.exists

    def initial(self) -> Tensor:
        """Independent weights with Σ_a1 E|K^l[a2, a1]|² = 1 at each degree, up to interpolation."""
        with torch.device("cpu"):
            scale = self._inputs.clamp_min(1).to(torch.float64).rsqrt()
            if self._interpolated:
                between = self._originals["between"]
                scale = (between.T @ scale) / between.sum(0)
            l, d2, d1 = len(scale), *self._shape[1:]
            deviations = scale[:, None, None].expand(l, d2, d1).flatten()[self._originals["place"]]
            return deviations.to(torch.get_default_dtype()) * torch.randn(self.size)


@on_cpu
def _existing(in_type: FieldType, out_type: FieldType, band_limit: int) -> Tensor:
    """Which entries of the K^l connect channels that exist, ``(L+1, d2, d1)``."""
    l = torch.arange(band_limit + 1)[:, None]
    into, out = (spin_decomposition(t.rho).channel_spins <= l for t in (in_type, out_type))
    return out[:, :, None] & into[:, None, :]


@on_cpu
def _interpolation(band_limit: int, anchors: int) -> Tensor:
    """``(L+1, anchors)``: linear interpolation between anchors evenly spaced over the degrees."""
    if not 1 <= anchors <= band_limit + 1:
        raise InputError(
            "SphereConv",
            expected=f"anchors from 1 to {band_limit + 1}, the number of degrees",
            got=repr(anchors),
            fix="Omit it to give every degree its own matrix.",
        )
    if anchors == 1:
        return torch.ones(band_limit + 1, 1, dtype=torch.float64)
    position = torch.linspace(0, anchors - 1, band_limit + 1, dtype=torch.float64)
    return (1 - (position[:, None] - torch.arange(anchors, dtype=torch.float64)).abs()).clamp_min(0)


def _band_limit(value: int | None, *grids: SphereGrid) -> int:
    largest = min(grid.band_limit for grid in grids)
    if value is None:
        return largest
    if not 0 <= value <= largest:
        raise InputError(
            "SphereConv",
            expected=f"a band limit of 0 to {largest}, up to which both grids are exact",
            got=str(value),
            fix="Use finer grids or a lower band limit.",
        )
    return value


def _require_sphere(*types: FieldType) -> None:
    if not all(isinstance(t.space, Sphere) for t in types):
        raise TypeMismatchError(
            "SphereConv",
            expected="field types on the sphere",
            got=" and ".join(map(str, types)),
            fix="Build them from Sphere(): Sphere().field(SO2().irrep(1)).",
        )
