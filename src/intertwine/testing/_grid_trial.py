"""Trials of layers on the line, the plane and 3-space."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import pi

import torch
from torch import Tensor
from torch.nn.functional import conv1d

from ..errors import InputError
from ..groups import Element, FiniteGroup, Group, LieGroup
from ..nn import Layer
from ..relaxed import TRANSLATION
from ..spaces import FieldType, Grid, Motion
from ._trial import Move, Trial, everywhere, moving

Named = tuple[str, Element]

_SIZES = {
    1: (33, 32, 31, 34, 35, 36, 37, 40, 41, 64, 65),
    2: (33, 32, 31, 34, 35, 36, 37, 29, 28, 40, 41, 48, 49, 64, 65),
    3: (9, 8, 10, 11, 12, 13, 16, 17, 18, 19, 20, 24, 25),
}
_RANDOM = 3  # number of random elements per component of a Lie group
_MIN_SMOOTH_SIZE = {1: 28, 2: 28, 3: 16}  # leaves room for a smooth field inside a ball


def grid_trial(layer: Layer, space: Grid, size: int | None, noise: torch.Generator) -> Trial:
    """Elements that map the lattice to itself, one translation, and other elements from every component."""
    sizes = _sizes(layer, space.dimension, size)
    f = torch.randn(2, layer.in_type.dim, *sizes, dtype=torch.float64, generator=noise)
    candidates = _pairs(layer, _random_elements(_group(layer), noise))
    others = [pair for pair in candidates if not space.preserves_lattice(pair[1])]
    others = others[:1] if isinstance(_group(layer), FiniteGroup) else others  # one of a finite group is enough
    n = sizes[0]
    if others and size is None and layer.fixed_sizes is None:
        n = _size_that_fits(layer, space.dimension, min_size=_MIN_SMOOTH_SIZE[space.dimension])
    smooth = _smooth_field(layer.in_type, n, space.dimension, noise) if others else None
    inexact = [_turn(layer, *pair, padding="zeros") for pair in others]
    companions = tuple(part.draw(f, noise) for part in layer.companions)
    exact = list(_exact_moves(layer, space, sizes))
    beside = None if smooth is None else tuple(_smoothed(part.draw(smooth, noise)) for part in layer.companions)
    return Trial(sizes, f, exact, smooth, inexact, _inside_the_ball(space.dimension), companions, beside)


def _exact_moves(layer: Layer, space: Grid, sizes: tuple[int, ...]) -> Iterator[Move]:
    after = layer.out_type.space
    elements = after.lattice_elements if isinstance(after, Grid) else ()
    for pair in _pairs(layer, [(f"{_name(h, k)} of {_group(layer).name}", h) for k, h in enumerate(elements)]):
        yield _turn(layer, *pair, padding="circular")
    step = layer.shift_step(sizes)
    if step is not None:
        yield _shift(layer, space, step, (2.0, -1.0, 1.0))
    inside = layer.interior(sizes) if step is None else None
    if inside is not None and min(layer.output_sizes(sizes)) > 2 * inside[1] + 2:
        yield _shift(layer, space, inside[0], (1.0, -1.0, 1.0), margin=inside[1] + 1)


def _shift(layer: Layer, space: Grid, step: int, by: Sequence[float], *, margin: int = 0) -> Move:
    """A translation of the input by ``by`` steps and of the output by ``by`` samples, compared outside a margin."""
    there = torch.tensor(by[: space.dimension], dtype=torch.float64)
    on_input = space.motion(step * there, space.stabilizer.identity)
    after = layer.out_type.space
    on_output = _motion(layer.out_type, there, after.stabilizer.identity)

    def inside(f: Tensor) -> Tensor:
        for axis in range(-space.dimension, 0):
            f = f.narrow(axis, margin, f.shape[axis] - 2 * margin)
        return f

    return Move(
        f"the translation by {tuple(int(step * t) for t in there)}",
        TRANSLATION,
        lambda f: layer.in_type.transform(f, on_input),
        # Count the channels of f, because a partial layer may have lost some.
        lambda f: after.field(f"{f.shape[1]}*trivial").transform(f, on_output),
        inside if margin else everywhere,
        moving(layer, on_input),
    )


def _sizes(layer: Layer, dimension: int, size: int | None) -> tuple[int, ...]:
    if size is not None:
        return (size,) * dimension
    return layer.fixed_sizes or (_size_that_fits(layer, dimension, min_size=0),) * dimension


def _turn(layer: Layer, name: str, h_in: Element, h_out: Element, *, padding: str) -> Move:
    g_in, g_out = _motion(layer.in_type, None, h_in), _motion(layer.out_type, None, h_out)
    return Move(
        name,
        _group(layer).name,
        lambda f: layer.in_type.transform(f, g_in, padding=padding),
        lambda f: layer.out_type.transform(f, g_out, padding=padding),
        on_companions=moving(layer, g_in),
    )


def _motion(field: FieldType, translation: Tensor | None, h: Element) -> Motion:
    space = field.space
    if not isinstance(space, Grid):
        raise InputError(
            "assert_equivariant",
            expected="a layer from fields on a grid to fields on a grid",
            got=str(field),
            fix="Test the parts before and after it leaves the grid separately.",
        )
    return space.motion(torch.zeros(space.dimension) if translation is None else translation, h)


def _pairs(layer: Layer, elements: Sequence[Named]) -> list[tuple[str, Element, Element]]:
    """Elements of the output's group, as elements of the groups of the input and the output.

    The two groups are equal, except for a layer that restricts fields to a subgroup.
    """
    before, after = layer.in_type.space.stabilizer, _group(layer)
    return [(name, h if before == after else before.embed(after, h), h) for name, h in elements]


def _group(layer: Layer) -> Group:
    return layer.out_type.space.stabilizer


def _name(h: Element, number: int) -> str:
    """A name: the number of an element of a finite group, or the list index of an element of a Lie group."""
    return f"element {h}" if isinstance(h, int) else f"turn {number} of the lattice, an element"


def _random_elements(group: Group, noise: torch.Generator) -> list[Named]:
    """The elements of a finite group in random order, or a few random elements per component of a Lie group.

    A single element is not enough, because it may be close to one that maps the lattice to itself.
    """
    if not isinstance(group, LieGroup):
        order = group.order if isinstance(group, FiniteGroup) else 0
        return [(f"element {h} of {group.name}", h) for h in torch.randperm(order, generator=noise).tolist()]
    angles = pi * (2 * torch.rand(_RANDOM, group.algebra_dim, dtype=torch.float64, generator=noise) - 1)
    return _with_components(group, [("a random turn", turn) for turn in group.exp(angles)])


def _with_components(group: LieGroup, turns: Sequence[tuple[str, Tensor]]) -> list[Named]:
    return [
        (f"{name}{' after a reflection' if number else ''} in {group.name}", turn @ component)
        for name, turn in turns
        for number, component in enumerate(group.component_representatives)
    ]


def _size_that_fits(layer: Layer, dimension: int, *, min_size: int) -> int:
    candidates = [n for n in _SIZES[dimension] if n >= min_size]
    for n in candidates:
        try:
            layer.output_sizes((n,) * dimension)
        except InputError:
            continue
        return n
    raise InputError(
        "assert_equivariant",
        expected=f"a layer that accepts equal sizes of {min(candidates)} to {max(candidates)} samples along every axis",
        got=f"{type(layer).__name__}, which accepts none of {', '.join(map(str, sorted(candidates)))}",
        fix="Pass a size that it accepts: assert_equivariant(layer, size=...).",
    )


def _inside_the_ball(dimension: int) -> Callable[[Tensor], Tensor]:
    def inside(f: Tensor) -> Tensor:
        """The values inside the ball that stays in the array under all rotations."""
        n = f.shape[-1]
        return f[..., _radius(n, dimension) < 0.8] if n > 1 else f

    return inside


def _radius(n: int, dimension: int) -> Tensor:
    """The distance from the center, scaled to 1 at the middle of the faces."""
    axis = (torch.arange(n, dtype=torch.float64) - (n - 1) / 2) / (n / 2)
    mesh = torch.meshgrid(*[axis] * dimension, indexing="ij")
    return torch.stack(mesh).square().sum(0).sqrt()


def _smooth_field(field: FieldType, n: int, dimension: int, noise: torch.Generator) -> Tensor:
    return _smoothed(torch.randn(2, field.dim, *[n] * dimension, dtype=torch.float64, generator=noise))


def _smoothed(f: Tensor) -> Tensor:
    """Noise smoothed by a Gaussian with a width of 2 samples, tapered to zero at the border."""
    n, dimension = f.shape[-1], f.ndim - 2
    axis = torch.arange(-6, 7, dtype=torch.float64)
    bell = torch.exp(-axis.square() / 8)
    bell = (bell / bell.square().sum().sqrt()).view(1, 1, -1)
    for along in range(2, 2 + dimension):
        lines = f.movedim(along, -1)
        f = conv1d(lines.reshape(-1, 1, n), bell, padding=6).view(lines.shape).movedim(-1, along)
    return f * torch.exp(-((_radius(n, dimension) / 0.7) ** 8))
