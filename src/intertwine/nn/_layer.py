"""The base class of all layers: a map between two field types with a claim about its equivariance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import nn as torch_nn

from .._checked import checked, describe
from .._devices import on_cpu
from .._registry import Registry
from ..errors import InputError, TypeMismatchError
from ..spaces import Cloud, FieldType, Grid, HomogeneousSpace, Point, ScalePlane, ScaleSpace, Space, Tuples, Zooms


@checked
@dataclass(frozen=True)
class Exact:
    """The layer commutes with the group to rounding: Φ(π1(g) f) = π2(g) Φ(f)."""


@checked
@dataclass(frozen=True)
class Approximate:
    """The layer commutes exactly with motions that map the lattice to itself, and up to sampling with all others.

    Attributes:
        because: what is sampled, cut off or interpolated.
        bound: the largest relative error on smooth fields.
    """

    because: str
    bound: float = 0.1


Strict = Exact | Approximate


@checked
@dataclass(frozen=True)
class Relaxed:
    """The layer can break its symmetry; ``shares`` says how far it has, and ``strict`` what holds at 0.

    Attributes:
        shares: per relaxed subgroup, such as ``translation`` or ``D4``, the share of the kernel outside the strict
            kernels, ‖κ − Pκ‖ / ‖κ‖: 0 is strict, 1 has nothing strict left.
        strict: the claim at the equivariant point, where all shares are 0.

    >>> Relaxed({"translation": 0.25, "D4": 0.0})
    Relaxed(translation=0.25, D4=0.0)
    """

    shares: Mapping[str, float]
    strict: Strict = field(default_factory=Exact)

    def __repr__(self) -> str:
        return f"Relaxed({', '.join(f'{name}={round(share, 3)}' for name, share in self.shares.items())})"


Claim = Exact | Approximate | Relaxed


@checked
def combined_claim(claims: Sequence[Claim]) -> Claim:
    """The claim of a layer made of others: bounds add up, and the largest share per subgroup counts.

    >>> combined_claim([Exact(), Relaxed({"translation": 0.1}), Relaxed({"translation": 0.3, "C4": 0.2})])
    Relaxed(translation=0.3, C4=0.2)
    """
    strict = [claim.strict if isinstance(claim, Relaxed) else claim for claim in claims]
    inexact = [claim for claim in strict if isinstance(claim, Approximate)]
    reasons = dict.fromkeys(claim.because for claim in inexact)
    combined: Strict = Approximate("; ".join(reasons), bound=sum(c.bound for c in inexact)) if inexact else Exact()
    relaxed = [claim for claim in claims if isinstance(claim, Relaxed)]
    if not relaxed:
        return combined
    shares: dict[str, float] = {}
    for claim in relaxed:
        for name, share in claim.shares.items():
            shares[name] = max(share, shares.get(name, 0.0))
    return Relaxed(shares, combined)


def _unmoved(value: Tensor, g: Any) -> Tensor:
    return value


@dataclass(frozen=True)
class Companion:
    """An input of a layer beside the fields: positions, edges, a mask, a second field.

    Attributes:
        name: the name of the argument.
        draw: a random one for given fields, for the conformance suite.
        move: what an element of the group makes of it.
    """

    name: str
    draw: Callable[[Tensor, torch.Generator], Tensor]
    move: Callable[[Tensor, Any], Tensor] = _unmoved


def field_companion(name: str, field_type: FieldType) -> Companion:
    """A second field at the samples of the first, which motions move as they move the first."""
    return Companion(name, partial(_draw_field, field_type.dim), partial(_moved_field, field_type))


def _draw_field(channels: int, x: Tensor, noise: torch.Generator) -> Tensor:
    return torch.randn(len(x), channels, *x.shape[2:], dtype=x.dtype, generator=noise)


def _moved_field(field_type: FieldType, value: Tensor, g: Any) -> Tensor:
    moved: Tensor = field_type.transform(value, g)
    return moved


def companions_by_name(layer: Layer, values: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The companions of a layer, passed by position or by name; a name with the value None is left out."""
    names = [companion.name for companion in layer.companions]
    given = {**dict(zip(names, values, strict=False)), **{k: v for k, v in named.items() if v is not None}}
    count = len(values) + sum(value is not None for value in named.values())
    if count != len(names) or set(given) != set(names):
        extra = [name for name in given if name not in names]
        got = f"{', '.join(extra)} as well" if extra else f"{1 + count}"
        raise InputError(
            type(layer).__name__,
            expected=f"the arguments {', '.join(['x', *names])}" if names else "one argument, x",
            got=got,
        )
    return {name: given[name] for name in names}


class Layer(torch_nn.Module, ABC):
    """A map Φ between fields with Φ(π1(g) f) = π2(g) Φ(f), π1 and π2 induced by ``in_type`` and ``out_type``.

    Tensors stay plain, ``(batch, channels, height, width)`` in the plane; the types live on the layer. Derive your own
    layers from this class, state their claim, and test it with :func:`intertwine.testing.assert_equivariant`.

    Attributes:
        in_type: the fields it takes.
        out_type: the fields it returns.
        claim: :class:`Exact`, :class:`Approximate` or :class:`Relaxed`.
        fixed_sizes: the only spatial sizes it takes, if it has weights per position; None for any.
        needs_space: whether it takes only ``(batch, channels, *space)``, not ``(batch, channels)``.
        companions: the inputs it takes after the fields, such as positions and edges.
        keeps_space: whether the output has the spatial axes of the input.
    """

    in_type: FieldType
    out_type: FieldType
    fixed_sizes: tuple[int, ...] | None = None
    needs_space = False
    companions: tuple[Companion, ...] = ()
    keeps_space = True
    how_to_make = "Derive yours from intertwine.nn.Layer; put several layers in intertwine.nn.Sequential."

    @checked
    def __init__(self, in_type: FieldType, out_type: FieldType, claim: Claim) -> None:
        super().__init__()
        self.in_type, self.out_type, self._claim = in_type, out_type, claim

    @property
    def claim(self) -> Claim:
        """What the layer promises. Containers and relaxed layers derive it on every access."""
        return self._claim

    @classmethod
    @abstractmethod
    def examples(cls) -> Iterator[Layer]:
        """Small instances that cover what the layer can do, for the conformance suite."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Φ(x); layers with companions take them as further arguments."""

    @abstractmethod
    def to_plain(self) -> torch_nn.Module:
        """The same map for inference, built from ordinary torch modules that do not need this package."""

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The spatial sizes of the output; an :class:`InputError` for sizes on which the layer would not commute."""
        return tuple(sizes)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """The step by which translations of a periodic field commute with the layer; None if none do.

        Shifting the input by k steps shifts the output by k samples.
        """
        return 1

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """(step, margin): shifting the input by ``step`` shifts the output by 1, ``margin`` samples from its border.

        For layers whose border breaks translation symmetry, such as those with zero padding. None if nothing is
        promised.
        """
        return None

    def check_input(self, x: Tensor) -> None:
        """Raise an error that says what is wrong with the shape or type of ``x``."""
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise InputError(
                type(self).__name__, expected="a tensor of floating point numbers", got=describe(x), fix=_CONVERT
            )
        axes, d = axis_names(self.in_type.space), self.in_type.dim
        ranks = (2 + len(axes),) if self.needs_space else (2, 2 + len(axes))
        if x.ndim not in ranks or x.shape[1] != d:
            shape = f"(batch, {', '.join([str(d), *axes])})"
            raise InputError(
                type(self).__name__,
                expected=shape if self.needs_space else f"{shape} or (batch, {d})",
                got=f"shape {tuple(x.shape)}",
                fix=f"The {d} channels are those of {self.in_type}."
                if x.ndim in ranks
                else f"Add or remove axes: one for the batch, one for the channels, {len(axes)} for space.",
            )

    def extra_repr(self) -> str:
        """The types, as shown by ``print(layer)``."""
        same = self.in_type == self.out_type
        return f"{self.in_type.rho}" if same else f"{self.in_type.rho} → {self.out_type.rho.name}"


_CONVERT = "Convert images with x.float(), and scale them as in training."

LAYERS: Registry[type[Layer]] = Registry("layer")
"""All registered layers by name."""

L = TypeVar("L", bound=type[Layer])


@checked
def register_layer(layer: L) -> L:
    """Class decorator that lists a layer and runs the conformance suite over its ``examples()``."""
    LAYERS.add(layer.__name__, layer)
    return layer


def axis_names(space: Space) -> tuple[str, ...]:
    """The names of the spatial axes of a sampled field."""
    if isinstance(space, Grid):
        return ("depth", "height", "width")[-space.dimension :]
    if isinstance(space, Point | Cloud):
        return ()
    if isinstance(space, Tuples):
        return ("elements",) * space.order
    if isinstance(space, ScaleSpace):
        return "scales", "height", "width"
    if isinstance(space, ScalePlane):
        return "height", "width"
    return ("points",) if isinstance(space, HomogeneousSpace) else ("rings", "azimuths")


@on_cpu
def pointwise_claim(space: Space) -> Strict:
    """The claim of a layer that acts on every sample in the same way, linear or not."""
    if isinstance(space, HomogeneousSpace | Point | Cloud | Tuples) or (isinstance(space, Grid) and space.exact):
        return Exact()
    if isinstance(space, Zooms):
        return Approximate("scalings resample a field")
    if not isinstance(space, Grid):
        return Approximate("acting on samples raises the degree of a field on the sphere", bound=0.2)
    return Approximate("fields are sampled on a lattice that the group does not map to itself")


def statistics_claim(space: Space) -> Strict:
    """The claim of a layer that takes means over space, which every group here leaves alone except scalings."""
    if isinstance(space, Zooms):
        return Approximate("a scaling changes means over the plane, as it changes areas", bound=float("inf"))
    return pointwise_claim(space)


def require_grid(caller: str, *types: FieldType, dimension: int | None = None) -> Grid:
    """The grid that all types live on, of the given dimension if any, or an error that names them."""
    space, name = types[0].space, {1: "line", 2: "plane", 3: "3-space"}
    fits = isinstance(space, Grid) and dimension in (None, space.dimension)
    if not isinstance(space, Grid) or not fits or any(t.space != space for t in types[1:]):
        maker = f"Grid{dimension}d" if dimension else "Grid2d or Grid3d"
        raise TypeMismatchError(
            caller,
            expected=f"field types on one {name[dimension] if dimension else 'plane or 3-space'}",
            got=" and ".join(map(str, types)),
            fix=f"Build them from the same {maker}: space.field(rho).",
        )
    return space
