"""Errors of capsules and traversals, and bounds on the likelihood."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...measure.metrics import capsule_equivariance_error, reconstruction_error, traversal_error
from ...models import NotCyclicWarning, TopographicVAE
from ._metrics import ELBO, ERROR, ERROR_CENTERED, ERROR_PRINTED, GAP, HELD, LIKELIHOOD, PUBLISHED_FORM, RECONSTRUCTION
from ._network import Network, in_parts


def measured(model: Network, frames: Tensor, t: Tensor, moving: Tensor | None = None) -> dict[str, float]:
    """Errors of capsules and traversals on sequences and their latents."""
    motion: dict[str, Any] = {"group": model.group, "moving": moving}
    reconstruction = reconstruction_error(_likelihood(model), frames, t).mean
    errors = {
        **equivariance_errors(t, **motion),
        RECONSTRUCTION.name: reconstruction,
        GAP.name: traversal_gap(model, frames, t, moving),
    }
    held = held_out(model, frames.shape[1])
    if held:
        errors[HELD.name] = traversal_error(_likelihood(model), frames, t, only=held, **motion).mean - reconstruction
    return errors


def equivariance_errors(t: Tensor, **motion: Any) -> dict[str, float]:
    """The equivariance error of latents: as in the published code, as printed, and of centered capsules."""
    return {
        ERROR.name: capsule_equivariance_error(t, **motion).mean,
        ERROR_PRINTED.name: capsule_equivariance_error(t, unit="frame", **motion).mean,
        ERROR_CENTERED.name: capsule_equivariance_error(t, centered=True, **motion).mean,
    }


def traversal_gap(model: Network, frames: Tensor, t: Tensor, moving: Tensor | None = None) -> float:
    """How much worse all frames are described by the moved latents of the first frame than by their own latents."""
    likelihood = _likelihood(model)
    moved = traversal_error(likelihood, frames, t, group=model.group, moving=moving)
    return moved.mean - reconstruction_error(likelihood, frames, t).mean


def _likelihood(model: Network) -> Callable[[Tensor, Tensor], Tensor]:
    def likelihood(x: Tensor, latents: Tensor) -> Tensor:
        parts = zip(x.split(32), latents.split(32), strict=True)
        return torch.cat([model.log_likelihood(a, model.decode(b)) for a, b in parts])

    return likelihood


def held_out(model: Network, time: int) -> list[int]:
    """Frames that the latents of frame 0 do not depend on."""
    reach = model.topology.reach(time) if isinstance(model, TopographicVAE) else frozenset({0})
    return sorted(set(range(time)) - reach)


@torch.no_grad()
def likelihoods(model: Network, frames: Tensor, *, seed: int, moving: Tensor | None = None) -> dict[str, float]:
    """The ELBO and the two importance-sampled estimates with ten samples."""
    generator = torch.Generator().manual_seed(seed)
    totals: dict[str, list[Tensor]] = {ELBO.name: [], LIKELIHOOD.name: [], PUBLISHED_FORM.name: []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCyclicWarning)
        for part, part_moving in in_parts(frames, moving, 16):
            totals[ELBO.name].append(model(part, moving=part_moving, generator=generator).elbo * len(part))
            totals[LIKELIHOOD.name].append(model.importance_bound(part, moving=part_moving, generator=generator).sum())
            other = model.importance_bound(part, moving=part_moving, form="published", generator=generator)
            totals[PUBLISHED_FORM.name].append(other.mean(1).sum())
    return {name: float(torch.stack(values).sum()) / len(frames) for name, values in totals.items()}
