"""Do moved capsules predict later frames? Errors of images decoded from moved latents."""

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
    "how poorly a frame is described by its own latents",
)
define(
    "traversal_error",
    "−log p(x_δ | rho(s)^δ t_0), mean over frames δ",
    "nats",
    "lower",
    "how poorly later frames are described by the latents of the first frame, moved by the elapsed time",
)

LogLikelihood = Callable[[Tensor, Tensor], Tensor]
"""Maps frames ``(batch, time, ...)`` and latents ``(batch, time, capsules, length)`` to log p(x | t)."""


@checked
def reconstruction_error(log_likelihood: LogLikelihood, frames: Tensor, t: Tensor) -> Estimate:
    """−log p(x_l | t_l), averaged over the frames of each sequence.

    >>> x = torch.eye(4).view(1, 4, 4)
    >>> same = lambda frames, latents: -(frames - latents[:, :, 0]).abs().sum(-1)
    >>> float(reconstruction_error(same, x, x.view(1, 4, 1, 4)))
    0.0
    """
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
    """−log p(x_δ | rho(s)^δ t_0), averaged over the frames δ of each sequence.

    The real test is on frames that t_0 was not computed from, ``only=held_out``.

    Args:
        log_likelihood: the log-likelihood of frames given latents.
        frames: ``(batch, time, ...)``.
        t: their latents ``(batch, time, capsules, length)``; only those of the first frame are used.
        only: the frames δ to measure; all by default.
        group: the group whose elements index the entries of a capsule, or its name; cyclic by default.
        moving: s, the element by which a time step moves capsules, for all sequences or one per sequence; by default
            the generator, if there is only one.

    >>> x = torch.eye(4).view(1, 4, 4)  # frame δ has its one at entry δ
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
        )
    chosen = sorted(set(range(time)) if only is None else set(only))
    if not chosen or not set(chosen) <= set(range(time)):
        raise InputError(
            "traversal_error",
            expected=f"frames from 0 to {time - 1}",
            got=str(chosen) if chosen else "none",
            fix="" if chosen else "A window as long as the sequence leaves no frame out.",
        )
    motion = CapsuleMotion.of("traversal_error", t, group, moving)
    moved = torch.stack([motion.moved(t[:, 0], k) for k in chosen], 1)
    with torch.no_grad():
        return Estimate("traversal_error", -log_likelihood(frames[:, chosen], moved).double().mean(1).cpu())
