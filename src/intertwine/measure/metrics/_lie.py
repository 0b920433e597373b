"""The derivative of a network's output along a smooth motion of its input, by forward-mode differentiation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ..._numerics import is_memory
from ..._warn import warn_caller
from ...errors import InputError
from .._batches import Fitting, Images, as_tensor, batches, measuring, require_finite
from .._estimate import Estimate, estimate
from .._flows import FLOWS, Flow, using
from ._layers import as_maps
from ._metric import define

define(
    "lie_derivative",
    "mean over outputs k of |d/dt f_k(g_t x)| at t = 0; for images as outputs |d/dt (g_−t f(g_t x))_k|",
    "1 / unit of t",
    "lower",
    "speed at which the output changes when the input begins to move; 0 if the network is equivariant",
)

Output = Literal["probabilities", "scores", "images"]


@checked
def lie_derivative(
    model: nn.Module,
    data: Images,
    flow: str = "rotation",
    *,
    output: Output | None = None,
    batch_size: Positive = 16,
    max_images: Positive | None = 128,
) -> Estimate:
    """(L f)(x) = d/dt g_t⁻¹ f(g_t x) at t = 0, absolute values averaged over outputs, for each image.

    The motion is exact to first order on a cubic interpolation of the image, and the network is differentiated in
    forward mode, so there is no step size to choose. The ``floor`` is the derivative along the difference between this
    motion and the same motion with quintic interpolation: how much of the value may be due to interpolation.

    Args:
        model: any network. If an operation has no forward-mode derivative, the measurement falls back, with a warning,
            to a central difference along the same direction.
        data: as for :func:`invariance_error`.
        flow: translation_x, translation_y, rotation, scale, shear_x, shear_y, hue or brightness. Units of t: the longer
            side of the image for translations, radians for rotation and hue, the logarithm of the factor for scale and
            brightness, the slope for shears.
        output: what f is: ``probabilities``, the softmax of the scores (the usual choice); ``scores``; or ``images``,
            which move back. By default, images if the output is images, else probabilities.
        batch_size: images per batch, for data given as one tensor.
        max_images: the maximum number of images to use.

    References: Gruver, Finzi, Goldblum, Wilson, *The Lie derivative for measuring learned equivariance*, 2023.

    >>> mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> lie_derivative(mean, torch.rand(2, 3, 9, 9, dtype=torch.float64), "hue").mean > 0
    True
    """
    return lie_derivatives(model, data, [flow], output=output, batch_size=batch_size, max_images=max_images)[0]


def lie_derivatives(
    model: nn.Module,
    data: Images,
    flows: Sequence[str],
    *,
    output: Output | None = None,
    batch_size: Positive = 16,
    max_images: Positive | None = 128,
) -> list[Estimate]:
    """As :func:`lie_derivative` for several flows, which share the pass through the network itself."""
    moves = [FLOWS[flow] for flow in flows]
    seen: list[tuple[Tensor, Tensor]] = []
    with measuring(model) as device:

        def run(x: Tensor) -> tuple[Tensor, Tensor]:
            out = require_finite(as_tensor(model(x), caller="lie_derivative"), caller="lie_derivative")
            kind = _checked_output(output, out)
            velocities, finer = (
                torch.stack([_velocity(move, x) for move in each])
                for each in (moves, [using(move, "quintic") for move in moves])
            )
            directions = torch.cat([velocities, velocities - finer])
            # Fewer images at once the more directions there are, so that as much is in memory as for one direction.
            size = max(1, 2 * len(x) // len(directions))
            pieces = zip(x.split(size), directions.split(size, 1), strict=True)
            changes, floors = torch.cat([_changes(model, *piece, kind) for piece in pieces], 1).split(len(moves))
            if kind == "images":  # they move back
                changes = changes - torch.stack([_velocity(move, out) for move in moves])
            return _size(changes), _size(floors)

        fit = Fitting("lie_derivative", device)
        for images, *_ in batches(data, caller="lie_derivative", batch_size=batch_size, max_images=max_images):
            seen += fit(run, images)
    values, floors = (torch.cat(parts, 1) for parts in zip(*seen, strict=True))
    return [
        estimate("lie_derivative", [value], floor=[floor], of=flow)
        for flow, value, floor in zip(flows, values, floors, strict=True)
    ]


def _size(changes: Tensor) -> Tensor:
    """The mean of |d/dt f| over outputs, for each flow and image."""
    return changes.abs().flatten(2).mean(2)


def _checked_output(output: Output | None, out: Tensor) -> Output:
    kind = output or ("images" if as_maps(out) is not None and out.ndim == 4 else "probabilities")
    fits = {"probabilities": out.ndim == 2, "scores": out.ndim >= 2, "images": out.ndim == 4}
    if not fits.get(kind, False):
        raise InputError(
            "lie_derivative",
            expected="output 'probabilities' for scores (n, classes), 'scores' for any, 'images' for (n, c, h, w)",
            got=f"{kind!r} for shape {tuple(out.shape)}",
        )
    return kind


def _velocity(move: Flow, x: Tensor) -> Tensor:
    """d/dt g_t x at t = 0."""
    zero = torch.zeros((), dtype=x.dtype, device=x.device)
    return _jvp(lambda t: move(x, t), zero, torch.ones_like(zero))


def _changes(model: nn.Module, x: Tensor, velocities: Tensor, kind: Output) -> Tensor:
    """d/dt f along each of the velocities."""

    def f(images: Tensor) -> Tensor:
        scores = as_tensor(model(images), caller="lie_derivative")
        return scores.softmax(1) if kind == "probabilities" else scores

    try:
        # All directions at once: the network itself then runs once rather than once per direction.
        with _plain_attention():
            return torch.func.vmap(lambda v: _jvp(f, x, v))(velocities)
    except (NotImplementedError, RuntimeError) as error:  # an operation that cannot do this, or no forward mode
        if is_memory(error):
            raise
    return torch.stack([_directional(f, x, v) for v in velocities])


def _plain_attention() -> AbstractContextManager[None]:
    """The fused attention kernels have no forward-mode derivative; the plain one does."""
    return torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)


def _directional(f: Callable[[Tensor], Tensor], x: Tensor, v: Tensor) -> Tensor:
    """J v in forward mode; by a central difference if an operation has no forward-mode derivative."""
    try:
        with _plain_attention():
            return _jvp(f, x, v)
    except (NotImplementedError, RuntimeError) as error:
        if is_memory(error) or not _lacks_forward(error):
            raise
        warn_caller(
            f"lie_derivative: using a central difference instead of forward mode: {str(error).splitlines()[0]}",
            RuntimeWarning,
        )
    size = float(v.abs().amax()) or 1.0
    # The cube root of the machine precision balances rounding against the error of the difference.
    step = torch.finfo(x.dtype).eps ** (1 / 3) * max(float(x.abs().amax()), 1.0) / size
    return (f(x + step * v) - f(x - step * v)) / (2 * step)


def _lacks_forward(error: Exception) -> bool:
    text = str(error)
    return isinstance(error, NotImplementedError) or "forward AD" in text or "forward-mode" in text or "jvp" in text


def _jvp(f: Callable[[Tensor], Tensor], x: Tensor, v: Tensor) -> Tensor:
    with torch.enable_grad():
        pair: tuple[Tensor, ...] = torch.func.jvp(f, (x.detach(),), (v.detach(),))
    return pair[1].detach()
