"""The base class of convolutions: free weights, the filter made from them, and the bias."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._devices import without_autocast
from ..._kept import Kept
from ...errors import InputError, TypeMismatchError
from ...groups import FiniteGroup, direct_sum
from ...kernels import BandLimit
from ...spaces import Cloud, FieldType, Grid, Grid1d, Grid2d, Grid3d, Point
from .._layer import Approximate, Claim, Exact, Layer, Strict
from ..basis._invariants import Invariants
from ..basis._summands import permutes
from ..filters._expansion import FilterExpansion
from ..filters._sampling import sampling_for


class FilterLayer(Layer):
    """A layer with a filter κ, κ(hy) = ρ2(h) κ(y) ρ1(h)⁻¹, and an invariant bias, both linear in free weights.

    The filter is recomputed from the weights on every call. In evaluation mode without gradients (``torch.no_grad()``,
    or frozen weights) it is kept until a weight changes, however it changes. Checkpoints hold only the weights. A
    compiled layer cannot detect changes and recomputes the filter on every call: for inference, compile what
    :func:`~intertwine.nn.to_plain` returns.

    Args:
        in_type: fields on a grid.
        out_type: fields on the same grid.
        claim: the claim of the layer.
        kernel_size: one size per axis.
        groups: splits the fields into this many parts that do not mix.
        bias: whether to add a bias, one per trivial component of the output.
        gain: standard deviation of the output on natural images of variance 1.
        rings: radii of the rings of a sampled filter.
        sigma: their width.
        band_limit: the largest degree on them.
        method: ``free`` for free filters, rotated by interpolation.
    """

    needs_space = True

    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        claim: Claim,
        *,
        kernel_size: Sequence[int],
        groups: int,
        bias: bool,
        gain: float,
        rings: Sequence[float] | None = None,
        sigma: float | None = None,
        band_limit: BandLimit = None,
        method: Literal["free"] | None = None,
    ) -> None:
        super().__init__(in_type, out_type, claim)
        self.groups, self.gain = groups, gain
        in_type, out_type = at_one_point(in_type), at_one_point(out_type)
        part = _one_group(type(self).__name__, in_type, out_type, groups)
        sampling = sampling_for(type(self).__name__, in_type.space, rings, sigma, band_limit, method)
        self.expansion = FilterExpansion(part, out_type, kernel_size, **sampling.options)
        self.invariants = Invariants(out_type.rho)
        self.weights = torch_nn.ParameterList([torch.empty(shape) for shape in self.expansion.shapes])
        self.bias = torch_nn.Parameter(torch.empty(self.invariants.size)) if bias and self.invariants.size else None
        self._cache = Kept[tuple[Tensor, Tensor | None]]()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights that map natural images of variance 1 to outputs of variance gain²; set the bias to zero.

        See :meth:`FilterExpansion.initial_weights`.
        """
        if self.weights[0].is_meta:
            return  # nothing to fill, and torch takes its slowest way to do it
        with torch.no_grad():
            for weight, value in zip(self.weights, self.expansion.initial_weights(self.gain), strict=True):
                weight.copy_(value)
            if self.bias is not None:
                self.bias.zero_()

    def expand(self) -> tuple[Tensor, Tensor | None]:
        """The filter ``(d2, d1 / groups, *kernel_size)`` and the bias ``(d2,)``, differentiable in the weights."""
        weights = list(self.weights)
        with without_autocast(weights[0]):  # autocast would round the filter here, and again in the convolution
            return self.expansion(weights), None if self.bias is None else self.invariants(self.bias)

    def filter_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """The result of :meth:`expand`, kept in evaluation mode while no gradient of the weights can be needed."""
        if self.training:
            return self.expand()
        free = [*self.weights] if self.bias is None else [*self.weights, self.bias]
        return self._cache.get(self.expand, free)

    def train(self, mode: bool = True) -> Self:
        """Set training mode and drop the kept filter."""
        self._cache.forget()
        super().train(mode)
        return self

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        self._cache.forget()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


def at_one_point(field: FieldType) -> FieldType:
    """A type on a grid whose filters of one tap are the equivariant maps of the values of ``field``.

    At one point it does not matter how the group moves the others, so any grid of the group will do: for a finite group
    a line that it leaves alone, for a group of rotations the space in which it turns.
    """
    space = field.space
    if not isinstance(space, Point | Cloud):
        return field
    group = space.stabilizer
    if isinstance(group, FiniteGroup):
        return Grid1d(group, action=group.trivial).field(field.rho)
    dimension = getattr(getattr(group, "standard", None), "dim", None)
    if dimension not in (2, 3):
        raise InputError("Linear", expected="a finite group, SO(2), O(2), SO(3) or O(3)", got=f"fields of {group.name}")
    return (Grid2d(group) if dimension == 2 else Grid3d(group)).field(field.rho)


def filter_claim(space: Grid, allow_asymmetric: bool, *, free: bool = False) -> Strict:
    """The claim of a layer whose filter is equivariant up to sampling."""
    if allow_asymmetric:
        return Approximate("sizes and strides that break the symmetry are allowed", bound=float("inf"))
    if space.exact:
        return Exact()
    if free:
        return Approximate("the filter is rotated by interpolation", bound=0.2)
    return Approximate(f"the filter is sampled on a lattice that {space.stabilizer.name} does not map to itself")


def _one_group(caller: str, in_type: FieldType, out_type: FieldType, groups: int) -> FieldType:
    """The part of the input that one group of output fields sees; all parts have the same type."""
    if groups == 1:
        return in_type
    atoms, outs = in_type.rho.atoms, out_type.rho.atoms
    n, m = len(atoms) // max(groups, 1), len(outs) // max(groups, 1)
    fits = groups >= 1 and n * groups == len(atoms) and m * groups == len(outs)
    if fits:
        parts = [atoms[g * n : (g + 1) * n] for g in range(groups)]
        dims = {sum(atom.dim for atom in outs[g * m : (g + 1) * m]) for g in range(groups)}
        fits = all(part == parts[0] for part in parts) and len(dims) == 1
    if not fits and groups == in_type.dim and in_type == out_type and permutes(in_type.rho):
        return in_type.space.field(in_type.rho.group.trivial)  # each channel sees itself: κ(hy)[hi, hi] = κ(y)[i, i]
    if not fits:
        raise TypeMismatchError(
            caller,
            expected=f"fields that split into groups={groups} equal parts",
            got=f"{in_type.rho.name} → {out_type.rho.name}",
            fix="Choose numbers of fields that groups divides, and repeat the summands in the same order in each part.",
        )
    return in_type.space.field(direct_sum(atoms[:n]))
