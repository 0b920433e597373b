"""The unit of relaxation: the share of a position-dependent kernel outside the strict kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .._checked import checked
from ..groups import Element
from ..spaces import FieldType, Grid

TRANSLATION = "translation"


@checked
@dataclass(frozen=True)
class LocalKernels:
    """A linear layer on a grid as the kernel and the bias that it applies at every position.

    Attributes:
        weight: ``(*positions, out, in, *taps)``.
        bias: ``(*positions, out)``, or None.
    """

    weight: Tensor
    bias: Tensor | None = None

    @property
    def dimension(self) -> int:
        """The number of spatial axes."""
        return (self.weight.ndim - 2) // 2

    def parts(self) -> list[Tensor]:
        """Weight and bias, each ``(*positions, ...)``."""
        return [self.weight] if self.bias is None else [self.weight, self.bias]


@checked
def kernel_shares(kernels: LocalKernels, in_type: FieldType, out_type: FieldType) -> dict[str, Tensor]:
    """‖κ − P_S κ‖² / ‖κ‖² for the translations and for the stabilizer H, from every kernel of a layer.

    P averages over positions for the translations; for H it averages κ(x, y) ↦ ρ2(h) κ(h⁻¹x, h⁻¹y) ρ1(h)⁻¹. The bias
    counts as the weight of one more input that is 1 everywhere. This is the slow, obvious way, which
    stores every kernel; layers compute the same more cheaply.

    Only elements of H that map the pixel grid to itself count: for C8 or O(2), for example, the quarter turns and
    mirrors among them.

    >>> from intertwine.spaces import Grid2d
    >>> one = Grid2d("C1").field("1*trivial")
    >>> same = torch.ones(4, 4, 1, 1, 3, 3, dtype=torch.float64)
    >>> kernel_shares(LocalKernels(same), one, one)
    {'translation': tensor(0., dtype=torch.float64)}
    """
    d = kernels.dimension
    positions = tuple(range(d))
    shares = {TRANSLATION: _share([(part, part.mean(positions, keepdim=True)) for part in kernels.parts()])}
    space = in_type.space
    elements = space.lattice_elements if isinstance(space, Grid) else ()
    if isinstance(space, Grid) and len(elements) > 1:
        moved = [_moved(kernels, in_type, out_type, space, h) for h in elements]
        means = [torch.stack([each.parts()[k] for each in moved]).mean(0) for k in range(len(kernels.parts()))]
        shares[space.stabilizer.name] = _share(list(zip(kernels.parts(), means, strict=True)))
    return shares


def _share(pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Σ‖part − projection‖² / Σ‖part‖², 0 for a zero kernel."""
    outside = torch.stack([(part - projected).square().sum() for part, projected in pairs]).sum()
    whole = torch.stack([part.square().sum() for part, _ in pairs]).sum()
    return share(outside, whole)


def share(outside: Tensor, whole: Tensor) -> Tensor:
    """‖κ − Pκ‖² / ‖κ‖², 0 for a zero kernel."""
    return outside / whole.clamp_min(torch.finfo(whole.dtype).tiny)


def _moved(kernels: LocalKernels, in_type: FieldType, out_type: FieldType, space: Grid, h: Element) -> LocalKernels:
    """The kernels of π2(h) Φ π1(h)⁻¹."""
    motion = space.from_stabilizer(h)
    d = kernels.dimension
    scalar = space.field("trivial")

    def turned(values: Tensor) -> Tensor:
        """A centered array on the last d axes, moved by h."""
        flat = values.reshape(-1, 1, *values.shape[-d:])
        return scalar.transform(flat, motion).reshape(values.shape)

    rho_out, rho_in = out_type.rho(h).to(kernels.weight), in_type.rho(h).to(kernels.weight)
    taps_last = turned(kernels.weight)  # moves the taps
    positions_last = turned(taps_last.movedim(tuple(range(d)), tuple(range(-d, 0))))  # moves the positions
    weight = positions_last.movedim(tuple(range(-d, 0)), tuple(range(d)))
    back = torch.linalg.inv(rho_in)
    weight = torch.einsum("oa,pabt,bi->poit", rho_out, weight.flatten(0, d - 1).flatten(3), back).reshape(weight.shape)
    if kernels.bias is None:
        return LocalKernels(weight)
    bias = turned(kernels.bias.movedim(-1, 0)).movedim(0, -1)
    return LocalKernels(weight, bias @ rho_out.T)
