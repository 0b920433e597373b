"""The filter of a layer between two field types, from unconstrained weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import product
from math import sqrt
from typing import Literal

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked, describe
from ...errors import EmptyKernelSpaceError, InputError
from ...kernels import BandLimit, solve
from ...spaces import FieldType, Grid, HomogeneousSpace
from ..basis._summands import is_trivial, summands
from ..basis._tables import TableModule
from . import _blocks
from ._blocks import Block, FilterBlock, block_table, block_way
from ._coset_block import CosetBlock
from ._harmonic_block import HarmonicBlock, harmonic_table, harmonic_values
from ._natural import channel_correlation
from ._sampling import Sampling, sampling_for

_MAX_STEPS = 500


class FilterExpansion(TableModule):
    """κ = Σ w_k κ_k: from one weight tensor ``(n2, n1, k)`` per pair of distinct summands to ``(d2, d1, *kernel)``.

    The result satisfies κ(hx) = ρ2(h) κ(x) ρ1(h)⁻¹ for all weights. Copies of a summand share tables, and so do layers
    between the same types.

    >>> from intertwine.groups import Cyclic
    >>> from intertwine.spaces import Grid2d
    >>> C4 = Cyclic(4); plane = Grid2d(C4)
    >>> expansion = FilterExpansion(plane.field(3 * C4.trivial), plane.field(8 * C4.regular), (5, 5))
    >>> [tuple(shape) for shape in expansion.shapes]
    [(8, 3, 25)]
    >>> expansion(expansion.initial_weights()).shape
    torch.Size([32, 3, 5, 5])
    """

    rows: Tensor
    columns: Tensor
    harmonics: Tensor

    @checked
    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        kernel_size: Sequence[int],
        *,
        rings: Sequence[float] | None = None,
        sigma: float | None = None,
        band_limit: BandLimit = None,
        method: Literal["free"] | None = None,
    ) -> None:
        super().__init__()
        sampling = sampling_for("FilterExpansion", in_type.space, rings, sigma, band_limit, method)
        if len(kernel_size) != getattr(in_type.space, "dimension", len(kernel_size)) or not kernel_size:
            raise InputError("FilterExpansion", expected="one kernel size per axis", got=describe(kernel_size))
        self.kernel_size = tuple(kernel_size)
        self._in, self._out = summands(in_type.rho), summands(out_type.rho)
        ins = [in_type.space.field(rho) for rho in self._in.kinds]
        outs = [out_type.space.field(rho) for rho in self._out.kinds]
        self.dims = out_type.dim, in_type.dim
        self.blocks = torch_nn.ModuleList(
            _block(i, j, self.kernel_size, (n2, n1), sampling)
            for (j, n2), (i, n1) in product(
                zip(outs, self._out.counts, strict=True), zip(ins, self._in.counts, strict=True)
            )
        )
        blocks, n = self._blocks(), len(ins)
        self._rows = [blocks[start : start + n] for start in range(0, len(blocks), n)]  # blocks by kind of output
        for name, order in (("rows", self._out.order), ("columns", self._in.order)):
            if order is not None:
                self.register_table(name, order)
        spectral = [block.spectral for block in blocks if block.weights]
        self._spectral = all(spectral)  # then one product with the harmonics serves the whole filter
        if isinstance(in_type.space, Grid) and any(spectral):
            self.register_table("harmonics", harmonic_values(in_type.space, self.kernel_size, sampling))
        self._require_maps(in_type)

    @property
    def shapes(self) -> list[tuple[int, int, int]]:
        """Shapes of the weights, one per pair of kinds that has a map between them."""
        return [(*block.copies, block.weights) for block in self._blocks() if block.weights]

    def forward(self, weights: Iterable[Tensor]) -> Tensor:
        """The filter ``(d2, d1, *kernel_size)``."""
        rest = iter(weights)
        rows = []
        for blocks in self._rows:
            rows.append(_beside([self._part(block, rest) if block.weights else block for block in blocks]))
        out = rows[0] if len(rows) == 1 else torch.cat(rows, 0)
        if self._out.order is not None:
            out = out.index_select(0, self.rows)
        if self._in.order is not None:
            out = out.index_select(1, self.columns)
        if self._spectral:
            out = out.flatten(0, 1) @ self.harmonics
        return out.view(*self.dims, *self.kernel_size)

    def _part(self, block: FilterBlock, weights: Iterator[Tensor]) -> Tensor:
        part: Tensor = block(next(weights))
        if block.spectral and not self._spectral:
            part = (part.flatten(0, 1) @ self.harmonics).view(*part.shape[:2], -1)
        return part

    def initial_weights(self, gain: float = 1.0, *, generator: torch.Generator | None = None) -> list[Tensor]:
        """Independent normal weights that give natural images a mean output variance of gain² in each field.

        All kernels of a pair of summands get equal weights, so every tap is used from the start, and every input
        channel that can reach an output field has the same share of the energy Σ E|κ|² of its filters. One factor per
        field then scales them: on an input of variance 1 whose samples are correlated as in natural images,
        exp(-|x - y| / 8), the variance is gain², in closed form. The channels of one regular or quotient field count as
        correlated too, because layers that make them from images and scalars make them similar.

        Unit variance on white noise would be the wrong goal. Kernels with tied taps add up similar values, and so do
        sampled kernels, which lack high frequencies: with unit variance on white noise, ten layers of scalars would
        amplify images by a factor of thousands, and ten layers of regular fields of C8 by a factor of 20.

        Args:
            gain: standard deviation of the output.
            generator: the source of random numbers; by default torch's.
        """
        weights, r = [], self._in_correlation()
        for blocks in self._rows:
            for block, std in zip(blocks, _deviations(blocks, r), strict=True):
                if block.weights:
                    weights.append(gain * std * torch.randn(*block.copies, block.weights, generator=generator))
        return weights

    def coordinates(self, filters: Tensor) -> list[Tensor]:
        """The weights whose filter is closest to ``filters`` ``(d2, d1, *kernel_size)``.

        Least squares by conjugate gradients, in float64. The kernels are close to orthogonal, so a few steps suffice.
        """
        if tuple(filters.shape) != (*self.dims, *self.kernel_size):
            raise InputError(
                "FilterExpansion.coordinates",
                expected=f"filters of shape {(*self.dims, *self.kernel_size)}",
                got=describe(filters),
            )
        exact = deepcopy(self).to(device=filters.device, dtype=torch.float64)
        target = filters.detach().double()
        with torch.enable_grad():
            free = [torch.zeros(s, dtype=torch.float64, device=filters.device).requires_grad_() for s in self.shapes]

            def onto(kernel: Tensor) -> Tensor:
                """⟨κ_k, kernel⟩ for every weight, flat."""
                return flat(torch.autograd.grad((exact(free) * kernel).sum(), free))

        def flat(parts: Iterable[Tensor]) -> Tensor:
            return torch.cat([part.flatten() for part in parts])

        def parts(flat_weights: Tensor) -> list[Tensor]:
            sizes = [torch.Size(shape).numel() for shape in self.shapes]
            return [part.view(shape) for part, shape in zip(flat_weights.split(sizes), self.shapes, strict=True)]

        with torch.enable_grad():
            weights, residual = torch.zeros_like(flat(free)).detach(), onto(target).detach()
            direction, norm = residual.clone(), residual.dot(residual)
            enough = 1e-30 * float(norm)
            for _ in range(_MAX_STEPS):
                if float(norm) <= enough:
                    break
                image = onto(exact(parts(direction)).detach()).detach()
                step = norm / direction.dot(image)
                weights, residual = weights + step * direction, residual - step * image
                before, norm = norm, residual.dot(residual)
                direction = residual + norm / before * direction
        return [part.to(filters.dtype) for part in parts(weights)]

    def extra_repr(self) -> str:
        """The way each block is made."""
        return "; ".join(block.extra_repr() for block in self._blocks())

    def _in_correlation(self) -> float:
        """The correlation of the channels of one input field; see :func:`channel_correlation`."""
        sizes = [(rho, n * rho.dim) for rho, n in zip(self._in.kinds, self._in.counts, strict=True)]
        scalars = sum(size for rho, size in sizes if is_trivial(rho))
        permuted = sum(size for rho, size in sizes if rho.is_permutation and not is_trivial(rho))
        return channel_correlation(scalars / self.dims[1], permuted / self.dims[1])

    def _blocks(self) -> list[FilterBlock]:
        return [block for block in self.blocks if isinstance(block, FilterBlock)]

    def _require_maps(self, in_type: FieldType) -> None:
        for rho2, blocks in zip(self._out.kinds, self._rows, strict=True):
            if not any(block.weights for block in blocks):
                raise EmptyKernelSpaceError(
                    "FilterExpansion",
                    expected=f"a nonzero equivariant map from {in_type} to {rho2.name}",
                    got=f"none on a filter of {' x '.join(map(str, self.kernel_size))} taps",
                    fix="Use a larger filter, or an input that shares an irreducible with the output.",
                )


def _deviations(blocks: Sequence[FilterBlock], r: float) -> list[float]:
    """The standard deviation of the weights of each block of a row that gives the output variance 1.

    Assumes an input of variance 1; r is the correlation of channels that the group exchanges.
    """
    shares = [b.d1 * b.d2 / float(b.norms.sum()) if b.weights else 0.0 for b in blocks]
    variance = sum(
        b.copies[1] * share * b.response.at_correlation(r) / b.d2 for b, share in zip(blocks, shares, strict=True)
    )
    return [sqrt(share / variance) for share in shares]


def _block(
    in_kind: FieldType, out_kind: FieldType, kernel_size: tuple[int, ...], copies: tuple[int, int], sampling: Sampling
) -> FilterBlock:
    if isinstance(in_kind.space, HomogeneousSpace):
        return CosetBlock(in_kind, out_kind, copies)
    taps = torch.Size(kernel_size).numel()
    steerable = sampling.method is None and block_way(in_kind, out_kind) == "dense"
    if isinstance(in_kind.space, Grid) and taps > 1 and steerable:
        harmonic = harmonic_table(in_kind, out_kind, kernel_size, sampling)
        entries = in_kind.dim * out_kind.dim * taps
        if harmonic is not None:
            dense = harmonic.weights * entries
            if dense > max(copies[0] * copies[1] * entries, harmonic.size, _blocks.DENSE_TABLE):
                if not in_kind.space.exact:
                    # raises if the taps alias
                    solve(in_kind, out_kind, kernel_size=kernel_size, allow_empty=True, **sampling.options)
                return HarmonicBlock(in_kind, out_kind, harmonic, copies)
    return Block(in_kind.rho, out_kind.rho, block_table(in_kind, out_kind, kernel_size, sampling), copies)


def _beside(parts: list[Tensor | FilterBlock]) -> Tensor:
    """Concatenate the filters of one row; a block without filters is zero."""
    if len(parts) == 1 and isinstance(parts[0], Tensor):
        return parts[0]
    some = next(part for part in parts if isinstance(part, Tensor))
    full = [
        some.new_zeros(len(some), part.copies[1] * part.d1, some.shape[2]) if isinstance(part, FilterBlock) else part
        for part in parts
    ]
    return torch.cat(full, 1)
