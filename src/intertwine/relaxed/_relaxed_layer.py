"""What every relaxed layer is: a layer that can be anywhere between strictly equivariant and unconstrained."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Self

import torch
from torch import Tensor, nn

from .._checked import checked
from ..errors import InputError
from ..nn import Approximate, Claim, Exact, Relaxed, Strict, TracedLayer
from ..spaces import FieldType, Grid, Grid2d
from ._kernel_shares import LocalKernels


class RelaxedLayer(TracedLayer):
    """A layer whose symmetry is a dial. It claims :class:`~intertwine.nn.Relaxed`, with the share of its kernel
    outside the strict kernels for each subgroup that it can leave: ``translation``, or the stabilizer's name.

    At the equivariant point, which :meth:`to_equivariant_` sets, all shares are 0 and the layer is held to its strict
    claim like any other; subgroups that it does not relax are held to it always.

    Attributes:
        surrogate_gradients: parameters whose gradient is an estimate on purpose, such as one passed straight through a
            rounding.
        shape_from_weights: whether the output's shape depends on learned numbers, which no compiler can know.
    """

    surrogate_gradients: tuple[str, ...] = ()
    shape_from_weights = False

    @checked
    def __init__(self, in_type: FieldType, out_type: FieldType, strict: Strict | None = None) -> None:
        super().__init__(in_type, out_type, strict_claim(in_type) if strict is None else strict)

    @property
    def claim(self) -> Claim:
        """The shares as they are now, and what holds where they are 0."""
        strict = self._claim
        return Relaxed(self.relaxation(), strict if isinstance(strict, Exact | Approximate) else Exact())

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """None: at the border of the image translations are broken at the equivariant point too."""
        return None

    def require_fixed_sizes(self, sizes: Sequence[int]) -> None:
        """Refuse sizes other than those for which the layer has weights."""
        if self.fixed_sizes is not None and tuple(sizes) != self.fixed_sizes:
            raise InputError(
                type(self).__name__,
                expected=f"inputs of {self.fixed_sizes}, for which it has weights",
                got=str(tuple(sizes)),
            )

    @torch.no_grad()
    def relaxation(self) -> Mapping[str, float]:
        """‖κ − P_S κ‖ / ‖κ‖ for each subgroup S that can be relaxed: 0 is strict, 1 has nothing strict left."""
        return {name: max(0.0, float(share)) ** 0.5 for name, share in self.squared_shares().items()}

    @abstractmethod
    def squared_shares(self) -> Mapping[str, Tensor]:
        """The squares of :meth:`relaxation`, differentiable: a penalty that means the same for all relaxed layers."""

    @abstractmethod
    def local_kernels(self, sizes: Sequence[int]) -> LocalKernels:
        """The kernel and the bias at every position, for an input of these sizes: slow, and the oracle of the rest."""

    @abstractmethod
    def dial(self) -> Mapping[str, float]:
        """The method's own numbers that say how far it is from its equivariant point, such as ‖ω'‖ or 1 − extent."""

    @abstractmethod
    def penalty(self) -> Tensor:
        """The method's own penalty, as published: differentiable, growing with the freedom to leave the symmetry."""

    @abstractmethod
    def to_equivariant_(self) -> Self:
        """Move to the equivariant point, in place: afterwards all of :meth:`relaxation` is 0."""

    @abstractmethod
    def perturb_(self, scale: float, *, generator: torch.Generator | None = None) -> Self:
        """Move away from the equivariant point at random, in place, in all relaxed subgroups."""


def strict_claim(in_type: FieldType) -> Strict:
    """What a relaxed layer claims at its equivariant point."""
    space = in_type.space
    if isinstance(space, Grid) and space.exact:
        return Exact()
    because = "a kernel of any frequency is sampled on a lattice that the group does not map to itself"
    return Approximate(because, bound=math.inf)


@torch.no_grad()
def add_noise_(values: Tensor, scale: float, generator: torch.Generator | None) -> None:
    """Add Gaussian noise of this standard deviation in place."""
    values.add_(torch.randn(values.shape, generator=generator, dtype=values.dtype).to(values.device), alpha=scale)


@checked
def scalars(caller: str, name: str, channels: int | FieldType) -> FieldType:
    """A field type, or an int as shorthand for that many scalars on the plane with the trivial group.

    >>> scalars("SoftConv2d", "in_type", 3)
    Field(3 trivial on Grid2d(C1))
    """
    if isinstance(channels, FieldType):
        return channels
    if channels < 1:
        raise InputError(caller, expected=f"{name}: a field type, or 1 or more channels", got=repr(channels))
    return _scalars(channels)


@lru_cache(256)
def _scalars(channels: int) -> FieldType:
    return Grid2d("C1").field(f"{channels}*trivial")


@checked
def relaxed_layers(model: nn.Module) -> Iterator[tuple[str, RelaxedLayer]]:
    """The relaxed layers of a model with their names."""
    return ((name, module) for name, module in model.named_modules() if isinstance(module, RelaxedLayer))


@checked
def to_equivariant_(model: nn.Module) -> nn.Module:
    """Move every relaxed layer of a model to its equivariant point, in place.

    >>> from intertwine.relaxed import SoftConv2d
    >>> net = to_equivariant_(nn.Sequential(SoftConv2d(1, 2, 3, softness=0.5), nn.ReLU()))
    >>> net[0].claim
    Relaxed(translation=0.0)
    """
    for _, layer in relaxed_layers(model):
        layer.to_equivariant_()
    return model


@checked
def relaxation_penalty(
    model: nn.Module, *, weight: float = 1.0, kind: Literal["published", "share"] = "published"
) -> Tensor:
    """λ Σ penalty over the relaxed layers of a model, to be added to a loss; λ is ``weight``.

    With the penalty ‖ω'‖² of soft layers, λ is the precision of a Gaussian prior on the frequencies ω', up to a factor
    2. A model without relaxed layers has the penalty 0.

    Args:
        model: any network.
        weight: λ.
        kind: ``published``, each method's own penalty; ``share``, the squared relaxation, in one unit for all.
    """
    total: Tensor | None = None
    for _, layer in relaxed_layers(model):
        terms = [layer.penalty()] if kind == "published" else list(layer.squared_shares().values())
        for term in terms:
            total = term if total is None else total + term
    return weight * total if total is not None else torch.zeros(())


@checked
@dataclass(frozen=True)
class RelaxationTable:
    """One row for each relaxed layer of a model: its name, its kind, the share of its kernel outside the strict ones
    for each subgroup, and the method's own dial."""

    rows: tuple[tuple[str, str, Mapping[str, float], Mapping[str, float]], ...]

    def __str__(self) -> str:
        columns = list(dict.fromkeys(name for _, _, shares, _ in self.rows for name in shares))
        table = [["layer", "kind", *columns, "dial"]]
        for name, kind, shares, dial in self.rows:
            cells = [f"{shares[c]:.4g}" if c in shares else "–" for c in columns]
            own = ", ".join(f"{what} {value:.4g}" for what, value in dial.items())
            table.append([name or "(model)", kind, *cells, own])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in table)
        return "\n".join(line.rstrip() for line in lines)


@checked
def relaxation_table(model: nn.Module) -> RelaxationTable:
    """How far each relaxed layer of a model is from its equivariant point, in the order of the model."""
    return RelaxationTable(
        tuple(
            (name, type(layer).__name__, dict(layer.relaxation()), dict(layer.dial()))
            for name, layer in relaxed_layers(model)
        )
    )
