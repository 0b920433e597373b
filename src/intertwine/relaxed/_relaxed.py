"""The dial: what every relaxed layer offers, whichever way it leaves its symmetry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

import torch
from torch import Tensor, nn

from .._checked import checked
from .._registry import Registry


def _all(y: Tensor) -> Tensor:
    return y


@checked
@dataclass(frozen=True)
class SampleMotion:
    """One element of a subgroup, as it acts on the input and on the output of a layer.

    Attributes:
        on_input: moves an input.
        on_output: moves the output of the input that was not moved.
        inside: the part of an output where the two must agree at the equivariant point, away from the border.
    """

    on_input: Callable[[Tensor], Tensor]
    on_output: Callable[[Tensor], Tensor]
    inside: Callable[[Tensor], Tensor] = _all


class Relaxed(nn.Module, ABC):
    """A layer that can be anywhere between strictly equivariant and unconstrained.

    The layer is an ordinary module on plain tensors. Its symmetry is a group with named subgroups, such as
    ``translation`` and ``rotation``, each of which is kept or relaxed by itself.
    """

    @classmethod
    @abstractmethod
    def examples(cls) -> Iterator[Relaxed]:
        """Small instances that show what the layer can do, for the conformance suite."""

    @abstractmethod
    def to_equivariant_(self) -> Self:
        """Move to the exactly equivariant point, in place: afterwards all of :meth:`relaxation` is 0."""

    @abstractmethod
    def relaxation(self) -> Mapping[str, float]:
        """How far the layer is from its equivariant point, one number of 0 or more for each relaxed subgroup."""

    @abstractmethod
    def penalty(self) -> Tensor:
        """A differentiable number that is 0 at the equivariant point and grows away from it, such as ‖ω'‖²."""

    @abstractmethod
    def perturb_(self, scale: float, generator: torch.Generator | None = None) -> Self:
        """Move away from the equivariant point at random, in place, in all relaxed subgroups."""

    @abstractmethod
    def sample_input(self, generator: torch.Generator | None = None) -> Tensor:
        """A random input that the layer accepts, in its own precision."""

    @abstractmethod
    def sample_motions(self) -> Mapping[str, SampleMotion]:
        """For each subgroup of the symmetry, relaxed or not, one motion that commutes with the equivariant layer."""


RELAXED: Registry[type[Relaxed]] = Registry("relaxed layer")
"""All registered relaxed layers by name."""

R = TypeVar("R", bound=type[Relaxed])


@checked
def register_relaxed(layer: R) -> R:
    """Class decorator: the layer is listed, and the conformance suite runs over its ``examples()``."""
    RELAXED.add(layer.__name__, layer)
    return layer


@checked
@torch.no_grad()
def motion_error(layer: Relaxed, motion: SampleMotion, x: Tensor) -> float:
    """|Φ(g x) - g Φ(x)| relative to |g Φ(x)|, where the motion says that the two must agree."""
    left, right = motion.inside(layer(motion.on_input(x))), motion.inside(motion.on_output(layer(x)))
    return float((left - right).norm() / right.norm().clamp_min(1e-300))


@checked
def relaxed_layers(model: nn.Module) -> Iterator[tuple[str, Relaxed]]:
    """The relaxed layers of a model with their names."""
    return ((name, module) for name, module in model.named_modules() if isinstance(module, Relaxed))


@checked
def relaxation_penalty(model: nn.Module, *, weight: float = 1.0) -> Tensor:
    """λ Σ penalty over the relaxed layers of a model, to be added to a loss; λ is ``weight``.

    With the penalty ‖ω'‖² of soft layers, λ is the precision of a Gaussian prior on the frequencies ω', up to a factor
    2. A model without relaxed layers has the penalty 0.
    """
    total: Tensor | None = None
    for _, layer in relaxed_layers(model):
        own = layer.penalty()
        total = own if total is None else total + own
    return weight * total if total is not None else torch.zeros(())


@checked
@dataclass(frozen=True)
class RelaxationTable:
    """One row for each relaxed layer of a model: its name, its kind, and how far each subgroup is relaxed."""

    rows: tuple[tuple[str, str, Mapping[str, float]], ...]

    def __str__(self) -> str:
        columns = list(dict.fromkeys(name for *_, values in self.rows for name in values))
        table = [["layer", "kind", *columns]]
        for name, kind, values in self.rows:
            table.append([name or "(model)", kind, *(f"{values[c]:.4g}" if c in values else "–" for c in columns)])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in table)
        return "\n".join(line.rstrip() for line in lines)


@checked
def relaxation_table(model: nn.Module) -> RelaxationTable:
    """How far each relaxed layer of a model is from its equivariant point, in the order of the model."""
    found = relaxed_layers(model)
    return RelaxationTable(tuple((name, type(layer).__name__, dict(layer.relaxation())) for name, layer in found))
