"""Keller & Welling 2021 on digits that turn, grow and change color: settings and published numbers; see ``_tvae.py``.

The published likelihoods are estimates that weight frame by frame and are log 10 too high; ``log_p_published`` is the
same estimate, ``log_p`` a bound. A further row is tested on turns and hues together, of which it learned each alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..data import DigitMotion, TransformedSequences, load, sample_generator
from ..measure import linear_probe
from ..models import VAE, TopographicVAE, topographic_pool
from ._experiment import Experiment, ExperimentRow, FinishedRun, Job, Metric, Ordering, Published
from ._figures import Figure
from ._tvae import ERROR, GAP, METRICS, PUBLISHED_FORM, latents_of, run_row, traversal_figures, with_nulls

# The paper's estimate of log p(x) and the equivariance error, with spreads over three initializations.
_TABLE: dict[str, tuple[tuple[float, float], tuple[float, float]] | None] = {
    "half": ((-186.8, 0.1), (574, 2)),
    "partial": None,
    "short": ((-186.0, 0.7), (3247, 3)),
    "zero": ((-218.5, 0.9), (3217, 105)),
    "bubble": ((-191.4, 0.5), (3370, 12)),
    "vae": ((-189.0, 0.8), (13274, 1)),
    "combined": None,
}
PROBE = Metric("probe", "", "higher", "share of test digits whose class a linear map reads off all latents")
PROBE_POOLED = Metric("probe_pooled", "", "higher", "the same off the norms of the capsules, which do not roll")
_TITLES = {
    "half": "TVAE, window S",
    "partial": "TVAE, window 13/18 S",
    "short": "TVAE, window 5/18 S",
    "zero": "TVAE, no window in time",
    "bubble": "BubbleVAE, window 5/18 S",
    "vae": "VAE",
    "combined": "TVAE, window 13/18 S, tested on turn and hue together",
}
_NEIGHBORS: dict[str, dict[str, object]] = {
    "half": {"kind": "shifting", "window": 1.0, "width": 3, "band": 1, "eps": 1e-6},
    "partial": {"kind": "shifting", "window": 13 / 18, "width": 3, "band": 1, "eps": 1e-6},
    "short": {"kind": "shifting", "window": 5 / 18, "width": 3, "band": 1, "eps": 1e-6},
    "zero": {"kind": "stationary", "window": 0.0, "width": 3, "band": 0, "eps": 1e-3},
    "bubble": {"kind": "stationary", "window": 5 / 18, "width": 3, "band": 0, "eps": 1e-6},
    "vae": {"kind": "vae", "window": 0.0, "width": 1, "band": 0, "eps": 1e-6},
    "combined": {"kind": "shifting", "window": 13 / 18, "width": 3, "band": 1, "eps": 1e-6},
}


def _row(name: str) -> ExperimentRow:
    given = _TABLE[name]
    published = {}
    if given is not None:
        published = {PUBLISHED_FORM.name: Published(*given[0], 3), ERROR.name: Published(*given[1], 3)}
    tested = "dual" if name == "combined" else "single"
    return ExperimentRow(name, _TITLES[name], {**_NEIGHBORS[name], "tested": tested}, published)


def run(job: Job) -> Mapping[str, float]:
    """Train one network on sequences of digits and measure it on sequences of test digits, with its nulls."""
    settings = job.settings
    frames = settings["frames"]
    data = load(settings["data"], folder=job.data, download=job.download)
    train = data.train if settings["images"] is None else data.train.subset(settings["images"], seed=0)
    sequences = TransformedSequences(train.in_memory(), DigitMotion(frames=frames))
    test = TransformedSequences(data.test.in_memory(), DigitMotion(frames=frames, mode=settings["tested"]))
    looked_at = _by_motion(test, settings["sequences"])
    _, height, width = data.shape

    found = run_row(job, (3, height, width), sequences, looked_at, probe=_probe(sequences, test, settings))
    known = {metric.name for metric in EXPERIMENT.metrics}
    return {key: value for key, value in found.items() if key in known}


def _by_motion(test: TransformedSequences, count: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Test sequences, the same for all rows and seeds, sorted by what moves."""
    found: dict[str, list[tuple[Tensor, Tensor]]] = {}
    for index in range(min(count, len(test))):
        frames, labels = test.getitem_seeded(index, sample_generator(1, index))
        name = ("turn", "scale", "hue", "turn and hue")[int(labels[0, 0])]
        found.setdefault(name, []).append((frames, labels))
    return {
        name: (torch.stack([x for x, _ in pairs]), torch.stack([y for _, y in pairs])) for name, pairs in found.items()
    }


def _probe(
    train: TransformedSequences, test: TransformedSequences, settings: Mapping[str, Any]
) -> Callable[[VAE | TopographicVAE], dict[str, float]]:
    """Reads the digit's class off the first frame of sequences: off all latents, and off the norms of capsules."""
    count = settings["probe_images"]

    def features(model: VAE | TopographicVAE, data: TransformedSequences, seed: int) -> tuple[Tensor, Tensor]:
        frames = [data.getitem_seeded(k, sample_generator(seed, k))[0] for k in range(min(count, len(data)))]
        t = latents_of(model, torch.stack(frames), seed=0)[:, 0]
        return t, data.split.labels[: len(t)]

    def probe(model: VAE | TopographicVAE) -> dict[str, float]:
        t, labels = features(model, train, 2)
        test_t, test_labels = features(model, test, 3)
        pooled, test_pooled = topographic_pool(t), topographic_pool(test_t)
        return {
            PROBE.name: linear_probe(t.flatten(1), labels, test_t.flatten(1), test_labels).mean,
            PROBE_POOLED.name: linear_probe(pooled, labels, test_pooled, test_labels).mean,
        }

    return probe


def figures(runs: Sequence[FinishedRun]) -> list[Figure]:
    """Traversals of every row."""
    return traversal_figures(runs, _TITLES)


_COMMON: dict[str, object] = {"shift": 30.0}

EXPERIMENT = Experiment(
    name="tvae-mnist",
    title="Capsules that roll: digits",
    reference="Keller & Welling 2021, Table 1",
    metrics=(*METRICS, *with_nulls(PROBE), *with_nulls(PROBE_POOLED)),
    rows=tuple(_row(name) for name in _TABLE),
    scales={
        "smoke": {
            **_COMMON,
            "data": "digits",
            "images": 200,
            "frames": 6,
            "capsules": 4,
            "length": 6,
            "steps": 30,
            "optimizer": "adam",
            "lr": 1e-3,
            "batch_size": 8,
            "sequences": 12,
            "likelihood_sequences": 8,
            "probe_images": 100,
        },
        "small": {
            **_COMMON,
            "data": "mnist",
            "images": 20_000,
            "frames": 9,
            "capsules": 12,
            "length": 9,
            "steps": 7500,
            "optimizer": "adam",
            "lr": 1e-3,
            "batch_size": 16,
            "sequences": 384,
            "likelihood_sequences": 384,
            "probe_images": 3000,
        },
        "paper": {
            **_COMMON,
            "data": "mnist",
            "images": 48_000,
            "frames": 18,
            "capsules": 18,
            "length": 18,
            "steps": 600_000,
            "optimizer": "sgd",
            "lr": 1e-4,
            "batch_size": 8,
            "sequences": 10_000,
            "likelihood_sequences": 1000,
            "probe_images": 10_000,
        },
    },
    seeds={"smoke": 1, "small": 1, "paper": 3},
    orderings=(
        Ordering("half", "vae", ERROR.name),
        Ordering("half", "short", ERROR.name),
        Ordering("half", "vae", PUBLISHED_FORM.name),
        Ordering("half", "bubble", PUBLISHED_FORM.name),
        Ordering("half", "vae", GAP.name),
        Ordering("half", "bubble", GAP.name),
    ),
    run=run,
    data={"smoke": "digits", "small": "mnist", "paper": "mnist"},
    figures=figures,
)
