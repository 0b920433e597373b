"""Where in the network is the symmetry lost? The errors of all layers, in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ...errors import InputError
from .._batches import Fitting, Images, batches, measuring
from .._estimate import Estimate, estimate
from .._symmetry import Symmetry, SymmetryLike, parse_symmetry
from ._invariance import relative_difference
from ._metric import define
from ._taps import tapped

define(
    "layer_equivariance_error",
    "‖τ f(x) − P f(τx)‖ / (½‖τ f(x)‖ + ½‖f(τx)‖), mean over τ ≠ 1",
    "",
    "lower",
    "how far a layer's output is from moving with the input, its channels permuted by P (the identity unless given)",
)
define(
    "layer_invariance_error",
    "‖f(x) − f(τx)‖ / (½‖f(x)‖ + ½‖f(τx)‖), mean over τ ≠ 1",
    "",
    "lower",
    "how far a layer's output is from staying as it is",
)


@checked
@dataclass(frozen=True)
class LayerError:
    """The errors of one layer.

    Attributes:
        name: the name of the layer; ``name#2`` is the second call of a layer that is used twice.
        kind: the class of the module, or the name of the function.
        shape: the shape of its output, without the batch.
        equivariance: how far the output is from moving with the input; None if the output is not an image.
        invariance: how far the output is from staying the same.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    equivariance: Estimate | None
    invariance: Estimate


@checked
@dataclass(frozen=True)
class LayerErrors:
    """All layers in the order in which they ran.

    Attributes:
        layers: the errors of each layer.
        skipped: (name, reason) for layers whose output could not be compared.
    """

    layers: tuple[LayerError, ...]
    skipped: tuple[tuple[str, str], ...]


@checked
def layer_errors(
    model: nn.Module,
    data: Images,
    symmetry: SymmetryLike = "hflip",
    *,
    permutations: Mapping[str, Tensor] | None = None,
    batch_size: Positive = 64,
    max_images: Positive | None = None,
) -> LayerErrors:
    """Equivariance and invariance error at every layer, from one pass over the images.

    Feature maps ``(n, c, h, w)`` move as the images do, as scalars. Tokens ``(n, t, c)`` are taken as a square grid;
    extra tokens at the front stay in place. A layer of a group-equivariant network also permutes its channels: pass the
    ``permutations`` that :func:`match` returned, or each channel is compared with itself.

    Args:
        model: any network. Layers are modules without children, and function calls such as ``relu`` or ``cat``.
        data: as for :func:`invariance_error`.
        symmetry: a name, a space with its group, a field type or a :class:`Symmetry`.
        permutations: layer name → ``(order, channels)``: for each element g the index p, where τ_g f(x)[i] is compared
            with f(τ_g x)[p[i]].
        batch_size: images per batch; the network sees all transformed copies of a batch at once.
        max_images: the maximum number of images to use.

    >>> net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> [layer.name for layer in layer_errors(net, torch.rand(2, 1, 6, 6), "hflip").layers]
    ['0', '1', '2', '3']
    """
    group = parse_symmetry(symmetry)
    totals = LayerTotals(group)
    with measuring(model) as device:
        fit = Fitting("layer_errors", device)
        for images, *_ in batches(
            data, caller="layer_errors", batch_size=batch_size, max_images=max_images, rank=group.rank
        ):
            for batch in fit(lambda x: watch_layers(model, x, group, permutations), images):
                totals.add(batch)
    return totals.errors()


@dataclass(frozen=True)
class LayerBatch:
    """What one batch shows.

    Attributes:
        output: the output of the network for all moved copies of the batch, one after the other.
        seen: the errors of each layer.
        skipped: layers that cannot be compared, and why.
    """

    output: object
    seen: dict[str, _Seen]
    skipped: dict[str, str]


def watch_layers(
    model: nn.Module, x: Tensor, group: Symmetry, permutations: Mapping[str, Tensor] | None = None
) -> LayerBatch:
    """Run the network once on all moved copies of a batch, and compare the outputs of every layer."""
    copies, motions = _all_copies(group, x), _motions(group)
    seen: dict[str, _Seen] = {}
    skipped: dict[str, str] = {}

    def see(name: str, kind: str, out: Tensor) -> None:
        if out.ndim < 2 or len(out) % group.order:
            skipped[name] = f"{kind}: shape {tuple(out.shape)} has no batch of {group.order} x {len(x)} first"
            return
        order = None if permutations is None else permutations.get(name)
        seen[name] = _Seen(kind, tuple(out.shape[1:]), *_compared(group, motions, out.detach(), order))

    with tapped(model, see):
        output = model(copies)
    return LayerBatch(output, seen, skipped)


class LayerTotals:
    """The errors of all layers, gathered batch by batch.

    Args:
        group: the symmetry.
    """

    def __init__(self, group: Symmetry) -> None:
        self.group = group
        self.seen: dict[str, list[_Seen]] = {}
        self.skipped: dict[str, str] = {}

    def add(self, batch: LayerBatch) -> None:
        """Add the errors of one batch."""
        self.skipped |= batch.skipped
        for name, seen in batch.seen.items():
            self.seen.setdefault(name, []).append(seen)

    def add_all(self, other: LayerTotals) -> None:
        """Add what was gathered elsewhere from other images."""
        self.skipped |= other.skipped
        for name, seen in other.seen.items():
            self.seen.setdefault(name, []).extend(seen)

    def errors(self) -> LayerErrors:
        """The errors of each layer over all images so far."""
        seen = {name: values for name, values in self.seen.items() if name not in self.skipped}
        layers = tuple(_result(name, self.group.name, values) for name, values in seen.items())
        return LayerErrors(layers, tuple(self.skipped.items()))


@dataclass(frozen=True)
class _Seen:
    """The errors of one layer on one batch, one number per image."""

    kind: str
    shape: tuple[int, ...]
    still: Tensor
    moved: Tensor | None
    floor: Tensor | None


@dataclass(frozen=True)
class _Motion:
    """How an element moves feature maps, and back if it resamples them."""

    move: Callable[[Tensor], Tensor | None]
    back: Callable[[Tensor], Tensor | None] | None


def _motions(symmetry: Symmetry) -> list[_Motion]:
    """The motions of all elements but the identity."""
    action: Any = symmetry.action

    def motion(g: int) -> _Motion:
        element = symmetry.element(g)
        move = symmetry.axis_move(g) or partial(action.move_scalars, element)
        inverse: Any = symmetry.group.inverse(element)
        return _Motion(move, None if symmetry.is_exact(g) else partial(action.move_scalars, inverse))

    return [motion(g) for g in range(1, symmetry.order)]


def _compared(
    symmetry: Symmetry, motions: Sequence[_Motion], out: Tensor, permutations: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    still, moved, floors = [], [], []
    relative = _relative_to(out, len(motions) + 1)
    base, *others = out.chunk(len(motions) + 1)
    plane = symmetry.rank == 4
    maps = as_maps(base) if plane else base
    movable = maps is not None and symmetry.action.fits(maps)
    for g, (motion, part) in enumerate(zip(motions, others, strict=True), 1):
        still.append(relative(base, part, g))
        other = as_maps(part) if plane else part
        here = motion.move(maps) if maps is not None and movable else None
        if maps is None or other is None or here is None or here.shape != other.shape:
            continue  # a quarter turn of maps that are not square has no counterpart
        if permutations is not None:
            other = other[:, permutations[g].to(other.device)]
        # What only changes places keeps its norm, unless tokens at the front are left out.
        keeps = motion.back is None and here.numel() == base.numel()
        moved.append(relative(here, other, g) if keeps else relative_difference(here, other))
        if motion.back is not None:
            back = motion.back(here)
            floors += [] if back is None else [relative_difference(back, maps)]
    complete = len(moved) == len(motions)
    return (
        torch.stack(still).mean(0).cpu(),
        torch.stack(moved).mean(0).cpu() if complete else None,
        torch.stack(floors).mean(0).cpu() if complete and floors else None,
    )


def _relative_to(out: Tensor, count: int) -> Callable[[Tensor, Tensor, int], Tensor]:
    """As :func:`relative_difference` of copy 0 and copy g, with norms in the precision of the layer.

    This is several times faster, also because the norms of the copies are computed once.
    """
    if out.dtype == torch.float32:
        norms = torch.linalg.vector_norm(out.flatten(1), dim=1).double()
        # Squares of very large or very small numbers leave the range of float32.
        if bool(((norms < 1e15) & (norms > 1e-15)).all()):
            sizes = norms.unflatten(0, (count, -1))
            sizes = 0.5 * (sizes[:1] + sizes)

            def relative(a: Tensor, b: Tensor, g: int) -> Tensor:
                return torch.linalg.vector_norm((a - b).flatten(1), dim=1).double() / sizes[g]

            return relative
    return lambda a, b, g: relative_difference(a, b)


def _result(name: str, of: str, seen: list[_Seen]) -> LayerError:
    moved = [s.moved for s in seen if s.moved is not None]
    floors = [s.floor for s in seen if s.floor is not None]
    return LayerError(
        name,
        seen[0].kind,
        seen[0].shape,
        estimate("layer_equivariance_error", moved, floor=floors or None, of=of) if moved else None,
        estimate("layer_invariance_error", [s.still for s in seen], of=of),
    )


def as_maps(out: Tensor) -> Tensor | None:
    """A layer's output as feature maps ``(n, c, h, w)``; None if it is neither feature maps nor a square of tokens."""
    if out.ndim == 4:
        return out if out.shape[-1] > 1 or out.shape[-2] > 1 else None
    if out.ndim == 3:
        for extra in range(3):  # class and distillation tokens
            side = math.isqrt(max(out.shape[1] - extra, 0))
            if side > 1 and side * side == out.shape[1] - extra:
                return out[:, extra:].transpose(1, 2).unflatten(2, (side, side))
    return None


def _all_copies(group: Symmetry, x: Tensor) -> Tensor:
    copies = [group.apply(g, x) for g in range(group.order)]
    if any(copy.shape != x.shape for copy in copies):
        raise InputError(
            "layer_errors",
            expected=f"square images, whose shape {group.name} does not change",
            got=f"{x.shape[-2]} x {x.shape[-1]}",
            fix="Crop the images, or use a symmetry without rotations.",
        )
    return torch.cat(copies)
