"""Keller & Welling, "Topographic VAEs learn equivariant capsules", NeurIPS 2021: what its experiments share.

Every number that says something about capsules has a null beside it: the same on latents drawn from the prior, and on
the latents of the network before it was trained. Where the three agree, nothing was learned.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from ...groups import FiniteGroup, parse_finite
from ...measure import (
    capsule_equivariance_error,
    reconstruction_error,
    traversal_error,
)
from ...models import VAE, NotCyclicWarning, TopographicVAE, VAEOutput
from ...topographic import CayleyTopology, OffsetTopology, sample_topographic, shifting, stationary
from ...train import TrainConfig, deterministic_loader, fit, seed_all
from ..lab._experiment import FinishedRun, Job, Metric
from ..lab._figures import Figure, Panel, Panels, load_arrays, save_arrays

ERROR = Metric("e_eq", "", "lower", "sum over pairs of frames of |rho(s)^δ t̂ − t̂'|, capsules with norm 1")
ERROR_CENTERED = Metric("e_eq_centered", "", "lower", "the same with the mean of each capsule taken off")
ELBO = Metric("elbo", "nats", "higher", "lower bound of log p(x) of a frame")
LIKELIHOOD = Metric(
    "log_p", "nats", "higher", "importance-sampled bound of log p(x) of a frame, whole sequences weighted"
)
PUBLISHED_FORM = Metric(
    "log_p_published", "nats", "higher", "the paper's estimate: frame by frame, log 10 = 2.3 nats too high, no bound"
)
RECONSTRUCTION = Metric("reconstruction", "nats", "lower", "−log p(x_l | t_l) of a frame given its own latents")
GAP = Metric("traversal_gap", "nats", "lower", "−log p(x_δ | rho(s)^δ t_0), all frames, less the reconstruction error")
HELD = Metric("held_out_gap", "nats", "lower", "the same for the frames that had no share in t_0")


def with_nulls(metric: Metric, *, prior: bool = False) -> tuple[Metric, ...]:
    """The metric, and beside it the same where nothing was learned."""
    untrained = replace(metric, name=f"{metric.name}_untrained", meaning="null: before training", beside=metric.name)
    drawn = replace(
        metric, name=f"{metric.name}_prior", meaning="null: on latents drawn from the prior", beside=metric.name
    )
    return (metric, drawn, untrained) if prior else (metric, untrained)


METRICS = (
    *with_nulls(ERROR, prior=True),
    *with_nulls(ERROR_CENTERED, prior=True),
    *with_nulls(GAP),
    *with_nulls(HELD),
    *with_nulls(RECONSTRUCTION),
    *with_nulls(ELBO),
    *with_nulls(LIKELIHOOD),
    *with_nulls(PUBLISHED_FORM),
)
"""What every row reports, whatever the data."""


Network = VAE | TopographicVAE

Moving = Callable[[Tensor], Tensor | None]
"""The labels of sequences ``(batch, time, ...)`` to the elements that move them, None where the group has one
generator."""


def not_told(labels: Tensor) -> None:
    """All sequences move by the only generator."""


def group_of(settings: Mapping[str, Any]) -> FiniteGroup:
    """The places of a capsule: a cycle of ``length`` places, or a product of such cycles, one for each of ``axes``."""
    return parse_finite(" x ".join([f"C{settings['length']}"] * settings.get("axes", 1)))


def topology_of(settings: Mapping[str, Any]) -> OffsetTopology | None:
    """From ``kind``, the ``window`` as a share of the frames, ``width`` and ``band``; None for the plain VAE.

    A window of less than one frame is one frame; a width of None is as wide as the window.
    """
    if settings["kind"] == "vae":
        return None
    window = max(1, round(settings["window"] * settings["frames"]))
    if settings["kind"] == "shifting":
        return shifting(window, band=settings["band"])
    return stationary(window, window if settings["width"] is None else settings["width"])


def build(settings: Mapping[str, Any], image: tuple[int, int, int]) -> Network:
    """The network of a row."""
    options: dict[str, Any] = {"capsules": settings["capsules"], "group": group_of(settings)}
    topology = topology_of(settings)
    if topology is None:
        return VAE(image, **options)
    return TopographicVAE(image, **options, topology=topology, shift=settings["shift"], eps=settings["eps"])


def train(job: Job, model: nn.Module, sequences: Dataset[Any], moving: Moving = not_told) -> None:
    """Maximize the ELBO."""
    wanted = job.settings
    config = TrainConfig(
        max_steps=wanted["steps"],
        batch_size=wanted["batch_size"],
        optimizer=wanted["optimizer"],
        lr=wanted["lr"],
        momentum=0.9,
        schedule="constant",
        seed=job.seed,
        log_every=50,
        checkpoint_every=500,
    )
    batches = deterministic_loader(sequences, wanted["batch_size"], seed=job.seed, shuffle=True)
    with warnings.catch_warnings():
        # Positions jump from the last value to the first; the published topology is cyclic all the same.
        warnings.simplefilter("ignore", NotCyclicWarning)
        fit(
            model,
            partial(negative_elbo, moving=moving),
            batches,
            config,
            folder=job.folder / "fit",
            loggers=job.loggers(),
            about={"row": job.row, **wanted},
            progress=job.progress,
        )


def negative_elbo(
    model: nn.Module, batch: tuple[Tensor, Tensor], *, moving: Moving = not_told
) -> tuple[Tensor, dict[str, float]]:
    """The loss, and its parts."""
    frames, labels = batch
    out: VAEOutput = model(frames, moving=moving(labels))
    parts = {"reconstruction": float(-out.likelihood.detach().mean()), "kl": float(out.kl.detach().mean())}
    return -out.elbo, parts


def prior_sampler(
    settings: Mapping[str, Any], sequences: int, moving: Tensor | None = None
) -> Callable[[torch.Generator], Tensor]:
    """Draws latents from the prior of a row's network."""
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
    """t of sequences, some at a time, drawn from the seed."""
    generator = torch.Generator().manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCyclicWarning)
        parts = _split(frames, moving, 32)
        return torch.cat([model.latent(part, moving=own, generator=generator) for part, own in parts])


def _split(frames: Tensor, moving: Tensor | None, size: int) -> list[tuple[Tensor, Tensor | None]]:
    """Some sequences at a time, with what moves them."""
    parts = frames.split(size)
    return list(zip(parts, [None] * len(parts) if moving is None else moving.split(size), strict=True))


def measured(model: Network, frames: Tensor, t: Tensor, moving: Tensor | None = None) -> dict[str, float]:
    """Errors of capsules and of traversals, on given sequences and their latents."""
    motion: dict[str, Any] = {"group": model.group, "moving": moving}
    own = reconstruction_error(_likelihood(model), frames, t).mean
    found = {
        ERROR.name: capsule_equivariance_error(t, **motion).mean,
        ERROR_CENTERED.name: capsule_equivariance_error(t, centered=True, **motion).mean,
        RECONSTRUCTION.name: own,
        GAP.name: traversal_gap(model, frames, t, moving),
    }
    held = held_out(model, frames.shape[1])
    if held:
        found[HELD.name] = traversal_error(_likelihood(model), frames, t, only=held, **motion).mean - own
    return found


def traversal_gap(model: Network, frames: Tensor, t: Tensor, moving: Tensor | None = None) -> float:
    """How much worse the moved latents of the first frame describe all frames than the frames' own latents do."""
    likelihood = _likelihood(model)
    moved = traversal_error(likelihood, frames, t, group=model.group, moving=moving)
    return moved.mean - reconstruction_error(likelihood, frames, t).mean


def _likelihood(model: Network) -> Callable[[Tensor, Tensor], Tensor]:
    def likelihood(x: Tensor, latents: Tensor) -> Tensor:
        parts = zip(x.split(32), latents.split(32), strict=True)
        return torch.cat([model.log_likelihood(a, model.decode(b)) for a, b in parts])

    return likelihood


def held_out(model: Network, time: int) -> list[int]:
    """Frames that have no share in the latents of frame 0."""
    reach = model.topology.reach(time) if isinstance(model, TopographicVAE) else frozenset({0})
    return sorted(set(range(time)) - reach)


@torch.no_grad()
def likelihoods(model: Network, frames: Tensor, *, seed: int, moving: Tensor | None = None) -> dict[str, float]:
    """The ELBO and the two importance-sampled estimates with ten samples."""
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, list[Tensor]] = {ELBO.name: [], LIKELIHOOD.name: [], PUBLISHED_FORM.name: []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCyclicWarning)
        for part, own in _split(frames, moving, 16):
            found[ELBO.name].append(model(part, moving=own, generator=generator).elbo * len(part))
            found[LIKELIHOOD.name].append(model.importance_bound(part, moving=own, generator=generator).sum())
            other = model.importance_bound(part, moving=own, form="published", generator=generator)
            found[PUBLISHED_FORM.name].append(other.mean(1).sum())
    return {name: float(torch.stack(values).sum()) / len(frames) for name, values in found.items()}


def run_row(
    job: Job,
    image: tuple[int, int, int],
    sequences: Dataset[Any],
    looked_at: Mapping[str, tuple[Tensor, Tensor]],
    *,
    moving: Moving = not_told,
    correlate: Callable[[str, Tensor, Tensor], dict[str, float]] = lambda factor, t, labels: {},
    probe: Callable[[Network], dict[str, float]] = lambda model: {},
) -> dict[str, float]:
    """Train the network of a row and measure it on the sequences of each factor, with the nulls.

    Args:
        job: the run.
        image: shape of a frame.
        sequences: to learn from.
        looked_at: by factor, frames and labels to measure on.
        moving: labels to the elements by which sequences move.
        correlate: the factor, latents and labels to further metrics, measured on trained, untrained and prior latents.
        probe: a network to further metrics, measured on the trained and the untrained one.
    """
    seed_all(job.seed)
    model = build(job.settings, image)
    untrained = deepcopy(model).eval()
    train(job, model, sequences, moving)
    model.eval()
    frames = torch.cat([x for x, _ in looked_at.values()])
    elements = moving(torch.cat([labels for _, labels in looked_at.values()]))
    few = slice(job.settings["likelihood_sequences"])
    found: dict[str, float] = {}
    for network, suffix in ((model, ""), (untrained, "_untrained")):
        own = measured(network, frames, latents_of(network, frames, seed=job.seed, moving=elements), elements)
        own |= likelihoods(network, frames[few], seed=job.seed, moving=None if elements is None else elements[few])
        own |= probe(network)
        for factor, (x, labels) in looked_at.items():
            t = latents_of(network, x, seed=job.seed, moving=moving(labels))
            own[gap_of(factor)] = traversal_gap(network, x, t, moving(labels))
            own |= correlate(factor, t, labels)
        found |= {f"{name}{suffix}": value for name, value in own.items()}
    prior = prior_sampler(job.settings, len(frames), elements)(torch.Generator().manual_seed(job.seed))
    for metric, centered in ((ERROR, False), (ERROR_CENTERED, True)):
        error = capsule_equivariance_error(prior, centered=centered, group=model.group, moving=elements)
        found[f"{metric.name}_prior"] = error.mean
    for (factor, (_, labels)), t in zip(
        looked_at.items(), prior.split([len(x) for x, _ in looked_at.values()]), strict=True
    ):
        found |= {f"{name}_prior": value for name, value in correlate(factor, t, labels).items()}
    _keep_pictures(job, model, looked_at, moving)
    return found


def gap_of(factor: str) -> str:
    """The name of the traversal gap on sequences in which this factor moves."""
    return f"{GAP.name}_{factor.replace(' ', '_')}"


@torch.no_grad()
def _keep_pictures(job: Job, model: Network, looked_at: Mapping[str, tuple[Tensor, Tensor]], moving: Moving) -> None:
    arrays: dict[str, Tensor] = {}
    for factor, (x, labels) in looked_at.items():
        elements = moving(labels[:1])
        t = latents_of(model, x[:1], seed=job.seed, moving=elements)
        arrays[f"{factor}/input"] = x[0]
        arrays[f"{factor}/reconstruction"] = model.pictures(t)[0]
        s = None if elements is None else int(elements)
        arrays[f"{factor}/traversal"] = model.traverse(t[:, 0], x.shape[1], moving=s)[0]
    arrays["held_out"] = torch.tensor(held_out(model, int(job.settings["frames"])), dtype=torch.int64)
    save_arrays(job.folder, arrays)


def traversal_figures(runs: Sequence[FinishedRun], titles: Mapping[str, str]) -> list[Figure]:
    """For each row, from its first seed: sequences, their reconstructions, and the first frame, moved."""
    figures: list[Figure] = []
    for row, title in titles.items():
        own = sorted((run for run in runs if run.row == row), key=lambda run: run.seed)
        arrays = load_arrays(own[0].folder) if own else {}
        if not arrays:
            continue
        held = set(arrays["held_out"].tolist())
        lines = []
        for factor in dict.fromkeys(name.partition("/")[0] for name in arrays if "/" in name):
            for kind, label in (
                ("input", f"{factor}: input"),
                ("reconstruction", "reconstructed"),
                ("traversal", "first frame, moved"),
            ):
                frames = arrays[f"{factor}/{kind}"]
                panels = [
                    Panel(frame[0] if len(frame) == 1 else frame.clamp(0, 1), quiet=kind == "input" and k in held)
                    for k, frame in enumerate(frames)
                ]
                lines.append((label, panels))
        figures.append(
            Panels(
                f"{title}: what rolling the capsules shows",
                lines,
                "gray",
                "Grayed frames had no share in the latents of the first frame.",
                shared=True,
            )
        )
    return figures
