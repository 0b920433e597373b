"""Does moving a capsule show what comes next? Errors of images decoded from moved latents."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ..._checked import checked
from ...errors import InputError
from ...groups import FiniteGroup
from .._estimate import Estimate
from ._capsule_motion import CapsuleMotion
from ._metric import define

define(
    "reconstruction_error",
    "−log p(x_l | t_l), mean over frames l",
    "nats",
    "lower",
    "how badly a frame is described by its own latents",
)
define(
    "traversal_error",
    "−log p(x_δ | rho(s)^δ t_0), mean over frames δ",
    "nats",
    "lower",
    "how badly later frames are described by the latents of the first, moved as far as time went on",
)

LogLikelihood = Callable[[Tensor, Tensor], Tensor]
"""Frames ``(batch, time, ...)`` and latents ``(batch, time, capsules, length)`` to log p(x | t), ``(batch, time)``."""


@checked
def reconstruction_error(log_likelihood: LogLikelihood, frames: Tensor, t: Tensor) -> Estimate:
    """−log p(x_l | t_l), the mean over the frames of each sequence."""
    with torch.no_grad():
        return Estimate("reconstruction_error", -log_likelihood(frames, t).double().mean(1).cpu())


@checked
def traversal_error(
    log_likelihood: LogLikelihood,
    frames: Tensor,
    t: Tensor,
    *,
    only: Iterable[int] | None = None,
    group: FiniteGroup | str | None = None,
    moving: int | Tensor | None = None,
) -> Estimate:
    """−log p(x_δ | rho(s)^δ t_0), the mean over the frames δ of each sequence.

    The frames that had no share in t_0, ``only=held_out``, are the test: the others t_0 has seen.

    Args:
        log_likelihood: of frames given latents.
        frames: ``(batch, time, ...)``.
        t: their latents ``(batch, time, capsules, length)``; only the first frame's are used.
        only: which frames δ to look at; all unless given.
        group: the group whose elements are the places of a capsule, or its name; the cyclic one unless given, whose
            rho rolls.
        moving: s, the element by which a step of time moves capsules, for all sequences or one for each; the
            generator unless given, if there is only one.

    >>> x = torch.eye(4).view(1, 4, 4)  # frame δ has its one at place δ
    >>> t = x.view(1, 4, 1, 4)
    >>> same = lambda frames, latents: -(frames - latents[:, :, 0]).abs().sum(-1)
    >>> float(traversal_error(same, x, t))
    0.0
    """
    time = frames.shape[1]
    if t.ndim != 4 or t.shape[:2] != frames.shape[:2]:
        raise InputError(
            "traversal_error",
            expected=f"latents (batch, time, capsules, length) of {tuple(frames.shape[:2])} frames",
            got=f"shape {tuple(t.shape)}",
            fix="Give the latents of the same sequences.",
        )
    chosen = sorted(set(range(time)) if only is None else set(only))
    if not chosen or not set(chosen) <= set(range(time)):
        raise InputError(
            "traversal_error",
            expected=f"frames among 0 to {time - 1}",
            got=str(chosen) if chosen else "none",
            fix="A window as long as the sequence leaves no frame out.",
        )
    motion = CapsuleMotion.of("traversal_error", t, group, moving)
    moved = torch.stack([motion.moved(t[:, 0], k) for k in chosen], 1)
    with torch.no_grad():
        return Estimate("traversal_error", -log_likelihood(frames[:, chosen], moved).double().mean(1).cpu())
