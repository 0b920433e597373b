"""Symmetries of images: a finite group and one map of images for each element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor

from .._checked import Positive, checked
from .._registry import Registry
from ..errors import GroupLawError, InputError
from ..groups import Cyclic, Dihedral, FiniteGroup, direct_product

ImageMap: TypeAlias = Callable[[Tensor], Tensor]


@checked
@dataclass(frozen=True)
class PlaneMap:
    """One of the eight motions of an image: exchange left and right if ``flip``, then turn by ``turns`` times 90°.

    Turns are counterclockwise. ``PlaneMap(k, f)`` moves an image as element k + 4f of ``Dihedral(4)`` does. It acts on
    the last two axes of any tensor. A convolution kernel is moved in the same way as an image: τ(ψ ⋆ x) = (τψ) ⋆ (τx).

    >>> PlaneMap(turns=1)(torch.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """

    turns: int = 0
    flip: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """The moved tensor; height and width change places for odd ``turns``."""
        if not self.swaps:
            dims = [d for d, mirrored in ((-2, self.mirrors_height), (-1, self.mirrors_width)) if mirrored]
            return x.flip(dims) if dims else x
        return torch.rot90(x.flip(-1) if self.flip else x, self.turns, (-2, -1))

    @property
    def swaps(self) -> bool:
        """Whether height and width change places."""
        return self.turns % 2 == 1

    @property
    def mirrors_height(self) -> bool:
        """Whether the row number (before a change of places) is reversed somewhere; only for maps that do not swap."""
        return self.turns == 2

    @property
    def mirrors_width(self) -> bool:
        """The same for columns."""
        return (self.turns == 2) != self.flip


PLANE_MAPS = tuple(PlaneMap(turns, flip) for flip in (False, True) for turns in range(4))


@checked
@dataclass(frozen=True, eq=False)
class Symmetry:
    """A finite group of maps of images, τ_g : (N, C, H, W) → (N, C, H, W), with τ_gh = τ_g τ_h.

    It also serves for other tensors: signals (N, C, T), volumes (N, C, D, H, W), vectors or sets (N, C); ``sizes`` then
    says how many axes there are behind the channels.

    Args:
        name: what to call it.
        group: the abstract group.
        maps: one map for each element, ``maps[0]`` the identity.
        channels: of the random input on which the law is checked.
        sizes: of its other axes.

    Maps that only move pixels of the square grid (flips, turns) and rearrange color channels can also be
    carried over to the filters of a network, see :func:`transform_network`; others can only be applied to images.

    >>> swap = Symmetry("swap colors", Cyclic(2), [lambda x: x, lambda x: x.flip(1)])
    >>> swap.order, swap.channel_order(1, 3)
    (2, (2, 1, 0))
    >>> Symmetry("reversed signals", Cyclic(2), [lambda x: x, lambda x: x.flip(-1)], channels=1, sizes=(16,)).rank
    3
    """

    name: str
    group: FiniteGroup
    maps: Sequence[ImageMap]
    channels: Positive = 3
    sizes: tuple[int, ...] = (5, 5)
    how_to_make = 'Give a name such as "hflip" or "c4", or an intertwine.measure.Symmetry.'

    def __post_init__(self) -> None:
        if len(self.maps) != self.group.order:
            raise InputError(
                f"Symmetry {self.name!r}",
                expected=f"{self.group.order} maps, one for each element of {self.group.name}",
                got=str(len(self.maps)),
                fix="Give the maps in the order of the elements; element 0 is the identity.",
            )
        self._require_law()

    def _require_law(self) -> None:
        shape = 2, self.channels, *self.sizes
        x = torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        try:
            images = [m(x) for m in self.maps]
        except (RuntimeError, IndexError, TypeError, AttributeError) as error:  # whatever somebody's map raises
            raise InputError(
                f"Symmetry {self.name!r}", expected=f"maps of a tensor of shape {shape}", got=str(error)
            ) from error
        if not torch.equal(images[0], x):
            raise GroupLawError(
                f"Symmetry {self.name!r}", expected="the identity first", got="another map", fix="Reorder the maps."
            )
        for a in range(self.order):
            for b in range(self.order):
                product = int(self.group.compose(a, b))
                if not torch.allclose(self.maps[a](images[b]), images[product], atol=1e-9, rtol=0):
                    raise GroupLawError(
                        f"Symmetry {self.name!r}",
                        expected=f"map {a} after map {b} to be map {product}",
                        got="another image",
                        fix="The maps must multiply as the elements of the group do.",
                    )

    @property
    def order(self) -> int:
        """Number of elements of the group."""
        return self.group.order

    @property
    def rank(self) -> int:
        """The number of axes of a batch."""
        return 2 + len(self.sizes)

    def apply(self, g: int, x: Tensor) -> Tensor:
        """τ_g x."""
        self.require_element(g, who=f"Symmetry {self.name!r}")
        return self.maps[g](x)

    def require_element(self, g: int, *, who: str) -> None:
        """An error if there is no element of this number."""
        if not 0 <= g < self.order:
            raise InputError(who, expected=f"an element of {self.group.name}, 0 to {self.order - 1}", got=str(g))

    @cached_property
    def plane_maps(self) -> tuple[PlaneMap | None, ...]:
        """How each element moves pixels; None where it is not a motion of the square grid."""
        return tuple(self._plane_map(m) for m in self.maps)

    def _plane_map(self, image_map: ImageMap) -> PlaneMap | None:
        if len(self.sizes) != 2:
            return None
        probe = torch.arange(25, dtype=torch.float64).reshape(1, 1, 5, 5).expand(1, self.channels, 5, 5)
        found = image_map(probe)
        return next((p for p in PLANE_MAPS if torch.equal(found, p(probe))), None)

    def channel_order(self, g: int, channels: int) -> tuple[int, ...] | None:
        """The index p with (τ_g x)[:, i] = moved x[:, p[i]], or None where channels are mixed otherwise."""
        plane = self.plane_maps[g]
        probe = torch.arange(channels * 25, dtype=torch.float64).reshape(1, channels, 5, 5)
        if plane is None:
            return None
        try:
            found = self.maps[g](probe)
        except (RuntimeError, IndexError):  # a map made for another number of channels
            return None
        moved = plane(probe)
        order = tuple(
            next((j for j in range(channels) if torch.equal(found[:, i], moved[:, j])), -1) for i in range(channels)
        )
        return order if sorted(order) == list(range(channels)) else None

    def require_plane_map(self, g: int, *, who: str) -> PlaneMap:
        """The motion of the grid that element ``g`` is, or an error."""
        self.require_element(g, who=who)
        plane = self.plane_maps[g]
        if plane is None:
            raise InputError(
                who,
                expected="maps that move pixels of the square grid by flips and quarter turns",
                got=f"element {g} of {self.name}",
                fix="Filters cannot be moved by such a map; measure the network from outside instead.",
            )
        return plane

    def __repr__(self) -> str:
        return f"Symmetry({self.name}, {self.group.name})"


SYMMETRIES = Registry[Callable[[], Symmetry]]("symmetry")


def _hflip() -> Symmetry:
    return Symmetry("hflip", Cyclic(2), [PlaneMap(), PlaneMap(flip=True)])


def _vflip() -> Symmetry:
    return Symmetry("vflip", Cyclic(2), [PlaneMap(), PlaneMap(turns=2, flip=True)])


def _flips() -> Symmetry:
    maps = [PlaneMap(), PlaneMap(flip=True), PlaneMap(turns=2, flip=True), PlaneMap(turns=2)]  # across, then down
    return Symmetry("flips", direct_product(Cyclic(2), Cyclic(2)), maps)


def _c2() -> Symmetry:
    return Symmetry("c2", Cyclic(2), [PlaneMap(), PlaneMap(turns=2)])


def _c4() -> Symmetry:
    return Symmetry("c4", Cyclic(4), [PlaneMap(turns=k) for k in range(4)])


def _d4() -> Symmetry:
    return Symmetry("d4", Dihedral(4), [PlaneMap(turns=k, flip=f) for f in (False, True) for k in range(4)])


for _name, _make in (
    ("hflip", _hflip),
    ("vflip", _vflip),
    ("flips", _flips),
    ("c2", _c2),
    ("c4", _c4),
    ("d4", _d4),
):
    SYMMETRIES.add(_name, _make)


@checked
def parse_symmetry(symmetry: str | Symmetry) -> Symmetry:
    """The symmetry of this name: hflip (left-right), vflip (up-down), flips (both), c2, c4 (90° turns), d4 (turns and
    flips).

    >>> parse_symmetry("c4").order
    4
    >>> parse_symmetry("hflop")
    Traceback (most recent call last):
        ...
    intertwine.errors.InputError: symmetry: expected one of hflip, vflip, flips, c2, c4, d4; got 'hflop'. ...
    """
    return symmetry if isinstance(symmetry, Symmetry) else SYMMETRIES[symmetry.strip().lower()]()
