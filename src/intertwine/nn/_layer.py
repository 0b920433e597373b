"""What every layer is: a map between two field types that states a claim about its equivariance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor
from torch import nn as torch_nn

from .._registry import Registry
from ..errors import InputError, TypeMismatchError
from ..spaces import FieldType, Grid, Space


@dataclass(frozen=True)
class Exact:
    """The layer commutes with the group to rounding: Φ(π1(g) f) = π2(g) Φ(f)."""


@dataclass(frozen=True)
class Approximate:
    """The layer commutes exactly with the motions of the lattice, and up to sampling with the others.

    Attributes:
        because: what is sampled, cut off or interpolated.
        bound: relative error on smooth fields that is not exceeded.
    """

    because: str
    bound: float = 0.1


Claim = Exact | Approximate


class Layer(torch_nn.Module, ABC):
    """A map Φ between fields with Φ(π1(g) f) = π2(g) Φ(f), π1 and π2 induced by ``in_type`` and ``out_type``.

    Tensors stay plain, ``(batch, channels, height, width)``; the types live on the layer. A layer of your own derives
    from this class, states its claim, and can be held to it by :func:`intertwine.testing.assert_equivariant`.

    Attributes:
        in_type: the fields it takes.
        out_type: the fields it returns.
        claim: :class:`Exact` or :class:`Approximate`.
        needs_space: whether it takes only ``(batch, channels, height, width)``, not ``(batch, channels)``.
        keeps_space: whether the spatial axes of the input are there in the output.
    """

    in_type: FieldType
    out_type: FieldType
    claim: Claim
    needs_space = False
    keeps_space = True

    def __init__(self, in_type: FieldType, out_type: FieldType, claim: Claim) -> None:
        super().__init__()
        self.in_type, self.out_type, self.claim = in_type, out_type, claim

    @classmethod
    @abstractmethod
    def examples(cls) -> Iterator[Layer]:
        """Small instances that show what the layer can do, for the conformance suite."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Φ(x)."""

    @abstractmethod
    def to_plain(self) -> torch_nn.Module:
        """The same map in inference, of ordinary torch modules that do not need this package."""

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The spatial sizes of the output; an :class:`InputError` for sizes on which the layer would not commute."""
        return tuple(sizes)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """Translations of a periodic field by multiples of this commute with the layer; None if none do.

        They move the output by so many fewer steps.
        """
        return 1

    def check_input(self, x: Tensor) -> None:
        """Raise an error that says what is wrong with the shape of ``x``."""
        ranks = (4,) if self.needs_space else (2, 4)
        if x.ndim not in ranks or x.shape[1] != self.in_type.dim:
            shape = f"(batch, {self.in_type.dim}, height, width)"
            raise InputError(
                type(self).__name__,
                expected=shape if self.needs_space else f"{shape} or (batch, {self.in_type.dim})",
                got=f"shape {tuple(x.shape)}",
                fix=f"The {self.in_type.dim} channels are those of {self.in_type}."
                if x.ndim in ranks
                else "Add or remove axes: one for the batch, one for the channels, two for space.",
            )

    def extra_repr(self) -> str:
        """The types, as shown by ``print(layer)``."""
        same = self.in_type == self.out_type
        return f"{self.in_type.rho}" if same else f"{self.in_type.rho} → {self.out_type.rho.name}"


LAYERS: Registry[type[Layer]] = Registry("layer")
"""All registered layers by name."""

L = TypeVar("L", bound=type[Layer])


def register_layer(layer: L) -> L:
    """Class decorator: the layer is listed, and the conformance suite runs over its ``examples()``."""
    LAYERS.add(layer.__name__, layer)
    return layer


def pointwise_claim(space: Space) -> Claim:
    """The claim of a layer that acts at each sample alike."""
    if isinstance(space, Grid) and space.exact:
        return Exact()
    return Approximate("fields are sampled on a lattice that the group does not keep")


def require_plane(who: str, *types: FieldType) -> Grid:
    """The plane on which all the types live, or an error that names them."""
    space = types[0].space
    if not isinstance(space, Grid) or space.dimension != 2 or any(t.space != space for t in types[1:]):
        raise TypeMismatchError(
            who,
            expected="field types on one plane",
            got=" and ".join(map(str, types)),
            fix="Build them from the same Grid2d: plane.field(rho).",
        )
    return space
