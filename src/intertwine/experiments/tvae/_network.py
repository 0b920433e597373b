"""The network of a row, its latents, and latents drawn from its prior."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ...groups import FiniteGroup, parse_finite
from ...models import VAE, NotCyclicWarning, TopographicVAE
from ...topographic import CayleyTopology, OffsetTopology, sample_topographic, shifting_topology, stationary_topology

Network = VAE | TopographicVAE

Moving = Callable[[Tensor], Tensor | None]
"""Maps the labels of sequences ``(batch, time, ...)`` to the elements that move them; None if the group has one
generator."""


def one_generator(labels: Tensor) -> None:
    """No elements: the only generator moves all sequences."""


def group_of(settings: Mapping[str, Any]) -> FiniteGroup:
    """The group that moves a capsule: a cycle of ``length`` places, or a product of ``axes`` such cycles."""
    return parse_finite(" x ".join([f"C{settings['length']}"] * settings.get("axes", 1)))


def topology_of(settings: Mapping[str, Any]) -> OffsetTopology | None:
    """The topology that the settings describe; None for the plain VAE.

    ``window`` is a share of the frames, and at least one frame; so is a ``width`` that is no whole number.
    """
    if settings["kind"] == "vae":
        return None
    frames, width = settings["frames"], settings["width"]
    window = max(1, round(settings["window"] * frames))
    if settings["kind"] == "shifting":
        return shifting_topology(window, band=settings["band"])
    return stationary_topology(window, width if isinstance(width, int) else max(1, round(width * frames)))


def build(settings: Mapping[str, Any], image: tuple[int, int, int]) -> Network:
    """The network of a row."""
    options: dict[str, Any] = {"capsules": settings["capsules"], "group": group_of(settings)}
    topology = topology_of(settings)
    if topology is None:
        return VAE(image, **options)
    return TopographicVAE(
        image,
        **options,
        topology=topology,
        shift=settings["shift"],
        eps=settings["eps"],
        standardize=settings.get("standardize", False),
    )


def prior_sampler(
    settings: Mapping[str, Any], sequences: int, moving: Tensor | None = None
) -> Callable[[torch.Generator], Tensor]:
    """A function that draws latents from the prior of a row's network."""
    neighbors, group = topology_of(settings), group_of(settings)
    time, capsules = settings["frames"], settings["capsules"]

    def sample(generator: torch.Generator) -> Tensor:
        if neighbors is None:
            return torch.randn(sequences, time, capsules, group.order, generator=generator)
        return sample_topographic(
            CayleyTopology(group, group.generators[0] if moving is None else moving, neighbors),
            sequences=sequences,
            time=time,
            capsules=capsules,
            length=group.order,
            shift=settings["shift"],
            eps=settings["eps"],
            generator=generator,
        )

    return sample


@torch.no_grad()
def latents_of(model: Network, frames: Tensor, *, seed: int, moving: Tensor | None = None) -> Tensor:
    """The latents t of sequences, in batches, with a seed."""
    generator = torch.Generator().manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCyclicWarning)
        parts = in_parts(frames, moving, 32)
        return torch.cat([model.latent(part, moving=part_moving, generator=generator) for part, part_moving in parts])


def in_parts(frames: Tensor, moving: Tensor | None, size: int) -> list[tuple[Tensor, Tensor | None]]:
    """Batches of sequences, with the elements that move them."""
    parts = frames.split(size)
    return list(zip(parts, [None] * len(parts) if moving is None else moving.split(size), strict=True))
