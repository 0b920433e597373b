"""Checks that a layer commutes with its group, as it claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

from .._checked import Positive, checked
from ..errors import InputError
from ..nn import Approximate, Layer, Relaxed, Strict
from ..relaxed import TRANSLATION, to_equivariant_
from ..spaces import Cloud, Grid, HomogeneousSpace, Point, Space, Sphere, Tuples, Zooms
from ._coset_trial import coset_trial
from ._grid_trial import grid_trial
from ._scale_trial import scale_trial
from ._scattered_trial import scattered_trial
from ._sphere_trial import sphere_trial
from ._trial import Move, Trial
from ._tuples_trial import tuples_trial

_ZERO_SHARE = 1e-9  # shares up to this count as zero


@checked
def assert_equivariant(
    layer: Layer,
    *,
    tolerance: float | None = None,
    size: Positive | None = None,
    training: bool = False,
    seed: int = 0,
) -> float:
    """Check a layer's claim: Φ(π1(g) f) = π2(g) Φ(f) for random fields f, in float64.

    The layer's types determine the rest. On a grid, the elements of H that map the lattice to itself must commute to
    ``tolerance``, and so must translations if the layer is periodic. On a finite G/H, all elements of G must commute,
    on the sphere random rotations. For a layer that claims to be :class:`~intertwine.nn.Approximate`, the other
    elements must commute on smooth fields, within the bound of the claim. A layer or network that claims to be
    :class:`~intertwine.nn.Relaxed` must pass at its equivariant point, which is tested on a copy. In its current state,
    it must commute with the subgroups of share 0. The layer itself is not changed.

    Args:
        layer: any :class:`~intertwine.nn.Layer`, registered or your own.
        tolerance: the maximum error, relative to the largest output; default: 1e-10.
        size: the size of the fields along every axis of a grid; default: one that the layer accepts.
        training: test the layer in training mode.
        seed: the seed of the random fields.

    Returns:
        The largest relative error over the elements that must commute exactly.

    Raises:
        AssertionError: with the layer, the element and the error.

    >>> from intertwine.groups import Cyclic
    >>> from intertwine.nn import Conv2d
    >>> from intertwine.spaces import Grid2d
    >>> C4 = Cyclic(4); plane = Grid2d(C4)
    >>> assert_equivariant(Conv2d(plane.field(C4.trivial), plane.field(C4.regular), 3)) < 1e-12
    True
    """
    tolerance = 1e-10 if tolerance is None else tolerance
    if not tolerance >= 0:
        raise InputError("assert_equivariant", expected="a tolerance of 0 or more", got=str(tolerance))
    return require_claim(layer, tolerance=tolerance, size=size, modes=(training,), seed=seed)


@checked
def equivariance_errors(layer: Layer, *, size: Positive | None = None, seed: int = 0) -> dict[str, float]:
    """The largest error per subgroup, |Φ(π1(g) f) − π2(g) Φ(f)| relative to the output, in the layer's current state.

    For a relaxed layer, this measures its effect, while its claim describes its kernel. Only elements that map the
    samples to themselves are tested. ``translation`` is included if the layer says where it must hold.

    >>> from intertwine.relaxed import SoftConv2d
    >>> layer = SoftConv2d(1, 2, 3, softness=0.5)
    >>> equivariance_errors(layer)["translation"] > 0.01
    True
    >>> equivariance_errors(layer.to_equivariant_())["translation"] < 1e-12
    True
    """
    trial = _trial(layer, size, torch.Generator().manual_seed(seed))
    layer = deepcopy(layer).double().eval()
    worst: dict[str, float] = {}
    output = _run(layer, trial.inputs, trial.companions)
    for move in trial.exact:
        (error,) = _errors([layer], [output], trial, move)
        worst[move.subgroup] = max(worst.get(move.subgroup, 0.0), error)
    return worst


class _State(NamedTuple):
    """A layer in one mode, as it is or at its equivariant point, with what it claims and the subgroups it breaks."""

    layer: Layer
    claim: Strict
    broken: tuple[str, ...]


def require_claim(
    layer: Layer, *, tolerance: float, modes: Sequence[bool], size: int | None = None, seed: int = 0
) -> float:
    """As :func:`assert_equivariant`, in training mode (True), evaluation mode (False) or both, on the same fields."""
    trial = _trial(layer, size, torch.Generator().manual_seed(seed))
    states = [state for training in modes for state in _states(deepcopy(layer).double().train(training))]
    worst = _check_exact(states, trial, tolerance)
    _check_inexact([state for state in states if isinstance(state.claim, Approximate)], trial)
    return worst


def _states(layer: Layer) -> Iterator[_State]:
    claim = layer.claim
    if not isinstance(claim, Relaxed):
        yield _State(layer, claim, ())
        return
    yield _State(layer, claim.strict, tuple(name for name, share in claim.shares.items() if share > _ZERO_SHARE))
    yield _State(_at_equivariant_point(layer), claim.strict, ())


def _check_exact(states: Sequence[_State], trial: Trial, tolerance: float) -> float:
    """The largest error over the elements that must commute exactly, without those of broken subgroups."""
    worst = 0.0
    outputs = [_run(state.layer, trial.inputs, trial.companions) for state in states]
    for move in trial.exact:
        kept = [number for number, state in enumerate(states) if move.subgroup not in state.broken]
        layers = [states[number].layer for number in kept]
        for layer, error in zip(layers, _errors(layers, [outputs[n] for n in kept], trial, move), strict=True):
            _require(error, tolerance, layer, move, trial)
            worst = max(worst, error)
    return worst


def _check_inexact(states: Sequence[_State], trial: Trial) -> None:
    """The other elements must commute on smooth fields, within the bound of the claim."""
    if trial.smooth is None:
        return
    companions = trial.companions if trial.smooth_companions is None else trial.smooth_companions
    outputs: dict[int, Tensor] = {}
    for move in trial.inexact:
        kept = [number for number, state in enumerate(states) if move.subgroup not in state.broken]
        if not kept:
            continue
        for number in kept:
            if number not in outputs:
                outputs[number] = _run(states[number].layer, trial.smooth, companions)
        f, beside = move.on_input(trial.smooth), move.on_companions(companions)
        for number, right in zip(kept, _moved(move, [outputs[number] for number in kept]), strict=True):
            layer, claim, _ = states[number]
            if isinstance(claim, Approximate):
                _require(_mean_error(_run(layer, f, beside), right, trial), claim.bound, layer, move, trial)


def _at_equivariant_point(layer: Layer) -> Layer:
    strict = deepcopy(layer)
    to_equivariant_(strict)
    return strict


def _trial(layer: Layer, size: int | None, noise: torch.Generator) -> Trial:
    space = layer.in_type.space
    if isinstance(space, Grid):
        return grid_trial(layer, space, size, noise)
    if isinstance(space, HomogeneousSpace):
        return coset_trial(layer, space, noise)
    if isinstance(space, Sphere):
        return sphere_trial(layer, noise)
    if isinstance(space, Point | Cloud):
        return scattered_trial(layer, space, noise)
    if isinstance(space, Tuples):
        return tuples_trial(layer, space, noise)
    if isinstance(space, Zooms):
        return scale_trial(layer, space, size, noise)
    raise InputError(
        "assert_equivariant",
        expected="a layer on a grid, a cloud, a point, a finite space G/H or the sphere",
        got=space.name,
    )


def _run(layer: Layer, f: Tensor, companions: tuple[Tensor, ...]) -> Tensor:
    # Both sides use the same random numbers: a layer with random draws must satisfy its claim for each draw.
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # torch.manual_seed records a stack trace for each other device
        statistics = {name: value.clone() for name, value in layer.named_buffers()}
        out = layer(f, *companions)
        for name, value in layer.named_buffers():  # a call may change running statistics
            if name in statistics:
                value.copy_(statistics[name])
    return _as_field(out, layer.out_type.space)


def _as_field(out: Tensor, space: Space) -> Tensor:
    """Outputs without spatial axes as a field of one sample, at the origin of a grid."""
    return out[(..., *[None] * space.dimension)] if isinstance(space, Grid) and out.ndim == 2 else out


def _errors(layers: Sequence[Layer], outputs: Sequence[Tensor], trial: Trial, move: Move) -> list[float]:
    """The error of each layer, given its output. The input and the outputs are moved once for all."""
    if not layers:
        return []
    f, companions = move.on_input(trial.inputs), move.on_companions(trial.companions)
    lefts = [_run(layer, f, companions) for layer in layers]
    # Layers that lost some of their channels commute with translations only.
    whole = [
        right.shape[1] == layer.out_type.dim or move.subgroup == TRANSLATION
        for layer, right in zip(layers, outputs, strict=True)
    ]
    rights = iter(_moved(move, [right for right, every in zip(outputs, whole, strict=True) if every]))
    return [_error(left, next(rights), move) if every else inf for left, every in zip(lefts, whole, strict=True)]


def _error(left: Tensor, right: Tensor, move: Move) -> float:
    left, right = move.where(left), move.where(right)
    error = float((left - right).abs().max() / right.abs().max().clamp_min(1e-300)) if right.numel() else 0.0
    return error if error == error else inf


def _moved(move: Move, outputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """Outputs after a move. It acts on each item of a batch by itself, so those of one shape are moved together."""
    if len({(out.shape, out.dtype) for out in outputs}) != 1:
        return [move.on_output(out) for out in outputs]
    return move.on_output(torch.cat(list(outputs))).split(len(outputs[0]))


def _mean_error(left: Tensor, right: Tensor, trial: Trial) -> float:
    """The relative root mean square error, on the part of the output that the trial selects."""
    difference, total = (trial.where(part).square().sum() for part in (left - right, right))
    return float((difference / total.clamp_min(1e-300)).sqrt())


def _require(error: float, tolerance: float, layer: Layer, move: Move, trial: Trial) -> None:
    if not error <= tolerance:
        mode = "training" if layer.training else "evaluation"
        sizes = " x ".join(map(str, trial.sizes))
        raise AssertionError(
            f"{type(layer).__name__} from {layer.in_type} to {layer.out_type} does not commute with {move.name}: "
            f"relative error {error:.2g}, allowed {tolerance:.2g} (inputs of {sizes}, {mode} mode)"
        )
