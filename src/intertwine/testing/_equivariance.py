"""Does a layer commute with its group, as it claims?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from math import pi

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from ..errors import InputError
from ..groups import Element, FiniteGroup, LieGroup
from ..nn import Approximate, Layer
from ..spaces import FieldType, Grid

_SIZES = (33, 32, 31, 34, 35, 36, 37, 29, 28, 40, 41, 48, 49, 64, 65)


def assert_equivariant(
    layer: Layer,
    *,
    tolerance: float | None = None,
    size: int | None = None,
    training: bool = False,
    seed: int = 0,
) -> float:
    """Hold a layer to its claim: Φ(π1(g) f) = π2(g) Φ(f) for random fields f, in float64.

    The layer knows its types, so nothing else need be given. Elements of H that keep the lattice must commute to
    ``tolerance``, and so must translations where the layer is periodic. The other elements, for a layer that claims to
    be :class:`~intertwine.nn.Approximate`, must commute on smooth fields within the bound of the claim. The layer is
    not changed.

    Args:
        layer: any :class:`~intertwine.nn.Layer` on the plane, registered or your own.
        tolerance: largest error, relative to the largest output; 1e-10 unless given.
        size: height and width of the fields; by default one that the layer accepts.
        training: whether to try it in training mode.
        seed: of the random fields.

    Returns:
        The largest relative error of the elements that must commute exactly.

    Raises:
        AssertionError: naming the layer, the element and the error.

    >>> from intertwine.groups import Cyclic
    >>> from intertwine.nn import Conv2d
    >>> from intertwine.spaces import Grid2d
    >>> C4 = Cyclic(4); plane = Grid2d(C4)
    >>> assert_equivariant(Conv2d(plane.field(C4.trivial), plane.field(C4.regular), 3)) < 1e-12
    True
    """
    space = layer.in_type.space if isinstance(layer, Layer) else None
    if not isinstance(space, Grid) or space.dimension != 2:
        raise InputError(
            "assert_equivariant",
            expected="a layer of intertwine.nn on the plane",
            got=type(layer).__name__ if space is None else space.name,
            fix="Derive it from intertwine.nn.Layer; put several in intertwine.nn.Sequential.",
        )
    tolerance = 1e-10 if tolerance is None else tolerance
    layer = deepcopy(layer).double().train(training)
    n = size if size is not None else _size_that_fits(layer)
    noise = torch.Generator().manual_seed(seed)
    f = torch.randn(2, layer.in_type.dim, n, n, dtype=torch.float64, generator=noise)
    worst = 0.0
    for name, h in _lattice_elements(space):
        error = _error(layer, f, space.motion([0, 0], h), space.motion([0, 0], h))
        _require(error, tolerance, layer, name, (n, n))
        worst = max(worst, error)
    step = layer.shift_step((n, n))
    if step is not None:
        e = space.stabilizer.identity
        error = _error(layer, f, space.motion([2 * step, -step], e), space.motion([2, -1], e))
        _require(error, tolerance, layer, f"the translation by ({2 * step}, {-step})", (n, n))
        worst = max(worst, error)
    if isinstance(layer.claim, Approximate):
        smooth = _smooth_field(layer.in_type, n, noise)
        for name, h in _other_elements(space):
            motion = space.motion([0, 0], h)
            _require(_disc_error(layer, smooth, motion), layer.claim.bound, layer, name, (n, n))
    return worst


def _size_that_fits(layer: Layer) -> int:
    for n in _SIZES:
        try:
            layer.output_sizes((n, n))
        except InputError:
            continue
        return n
    raise InputError(
        "assert_equivariant",
        expected="a layer that accepts a square input of 28 to 65 samples",
        got=f"{type(layer).__name__}, which accepts none of {', '.join(map(str, sorted(_SIZES)))}",
        fix="Give one that it accepts: assert_equivariant(layer, size=...).",
    )


def _run(layer: Layer, f: Tensor) -> Tensor:
    with torch.no_grad():
        out = deepcopy(layer)(f)  # a copy: running statistics are part of the map
    return out if out.ndim == 4 else out[..., None, None]


def _error(layer: Layer, f: Tensor, g_in: object, g_out: object) -> float:
    left = _run(layer, layer.in_type.transform(f, g_in))
    right = layer.out_type.transform(_run(layer, f), g_out)
    error = float((left - right).abs().max() / right.abs().max().clamp_min(1e-300)) if right.numel() else 0.0
    return error if error == error else float("inf")


def _disc_error(layer: Layer, f: Tensor, g: object) -> float:
    """Relative error inside the disc that stays in the array under all turns."""
    left = _run(layer, layer.in_type.transform(f, g, padding="zeros"))
    right = layer.out_type.transform(_run(layer, f), g, padding="zeros")
    inside = _radius(left.shape[-1]) < 0.8 if left.shape[-1] > 1 else torch.ones(1, 1, dtype=torch.bool)
    difference = (left - right)[..., inside].square().sum()
    return float((difference / right[..., inside].square().sum().clamp_min(1e-300)).sqrt())


def _radius(n: int) -> Tensor:
    """Distance from the center, 1 at the middle of the sides."""
    axis = (torch.arange(n, dtype=torch.float64) - (n - 1) / 2) / (n / 2)
    return (axis[:, None].square() + axis.square()).sqrt()


def _smooth_field(field: FieldType, n: int, noise: torch.Generator) -> Tensor:
    """Noise that a Gaussian of 2 samples has smoothed, tapered to nothing at the border."""
    f = torch.randn(2 * field.dim, 1, n, n, dtype=torch.float64, generator=noise)
    axis = torch.arange(-6, 7, dtype=torch.float64)
    bell = torch.exp(-axis.square() / 8)
    bell = bell / bell.square().sum().sqrt()
    f = conv2d(conv2d(f, bell.view(1, 1, 1, -1), padding=(0, 6)), bell.view(1, 1, -1, 1), padding=(6, 0))
    return (f * torch.exp(-((_radius(n) / 0.7) ** 8))).view(2, field.dim, n, n)


def _lattice_elements(space: Grid) -> Iterator[tuple[str, Element]]:
    """Elements of H that map the lattice to itself."""
    for name, h in _elements(space, 4):
        matrix = space.matrices(h)
        if torch.equal(matrix, matrix.round()):
            yield name, h


def _other_elements(space: Grid) -> Iterator[tuple[str, Element]]:
    for name, h in _elements(space, 8):
        matrix = space.matrices(h)
        if not torch.equal(matrix, matrix.round()):
            yield name, h
            return  # turns are alike: one is enough


def _elements(space: Grid, turns: int) -> Sequence[tuple[str, Element]]:
    """All elements of a finite group; for a Lie group turns by 360°/turns, with a reflection where it has one."""
    group = space.stabilizer
    if isinstance(group, FiniteGroup):
        return [(f"element {h} of {group.name}", h) for h in range(group.order)]
    if not isinstance(group, LieGroup):
        return []
    found: list[tuple[str, Element]] = []
    for k in range(turns):
        quarter = torch.tensor([2 * pi * k / turns], dtype=torch.float64)
        for number, component in enumerate(group.component_representatives):
            name = f"the turn by {360 * k / turns:g}°" + (" after a reflection" if number else "")
            found.append((f"{name} in {group.name}", group.exp(quarter) @ component))
    return found


def _require(error: float, tolerance: float, layer: Layer, element: str, sizes: tuple[int, int]) -> None:
    if not error <= tolerance:
        mode = "training" if layer.training else "evaluation"
        raise AssertionError(
            f"{type(layer).__name__} from {layer.in_type} to {layer.out_type} does not commute with {element}: "
            f"relative error {error:.2g}, allowed {tolerance:.2g} (inputs of {sizes[0]} x {sizes[1]}, {mode} mode)"
        )
