"""Bökman & Kahl 2023, Table 4: the barrier between two networks that were trained separately.

The networks are those of ``relu-symmetry``, at this seed and at the next: what was trained there is not trained again,
and what is trained here serves there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from ...data import ImageData, Split
from ...errors import BusyError
from ...measure import accuracy, barrier, match_networks, permute, repair
from ...models import VGG11
from ..lab._experiment import Experiment, ExperimentRow, Job, Metric, Ordering, Published
from ..lab._runner import JobSpec
from ._run import PAPER, QUICK, SMALL, SMOKE, prepared, sample, trained

BARRIER = Metric(
    "barrier", "", "lower", "relative loss of accuracy of the average of two matched networks, after REPAIR"
)
PLAIN = Metric("barrier_without_repair", "", "lower", "the same without REPAIR", beside=BARRIER.name)
FIRST = Metric("first_accuracy", "", "higher", "accuracy of the first network")
SECOND = Metric("second_accuracy", "", "higher", "accuracy of the second network")

_NAMES = {"cnn": "CNN", "cnn-inv": "CNN with invariance loss", "gcnn": "GCNN"}
_TABLE = {
    ("cnn", "cnn"): (0.0508, 0.0057),
    ("cnn", "cnn-inv"): (0.0487, 0.0045),
    ("cnn", "gcnn"): (0.0650, 0.0089),
    ("cnn-inv", "cnn-inv"): (0.0373, 0.0041),
    ("cnn-inv", "gcnn"): (0.0753, 0.0096),
    ("gcnn", "gcnn"): (0.0659, 0.0077),
}


def run(job: Job) -> Mapping[str, float]:
    """Train two networks from different seeds, match their channels and average them."""
    data, validation = prepared(job)
    first = _network(job, data, validation, job.settings["first"], job.seed)
    second = _network(job, data, validation, job.settings["second"], job.seed + 1)
    images, _ = sample(data.train, job.settings["matched_images"], job.seed)
    test = data.test.as_tensors()
    graph, permutations = match_networks(first, second, images)
    other = permute(second, permutations, graph=graph)

    def score(model: object) -> float:
        return accuracy(model, test)  # type: ignore[arg-type]

    plain = barrier(first, other, score)
    repaired = barrier(first, other, score, finish=lambda merged: repair(merged, [first, other], images))
    return {
        BARRIER.name: repaired.relative,
        PLAIN.name: plain.relative,
        FIRST.name: plain.first,
        SECOND.name: plain.second,
    }


def _network(job: Job, data: ImageData, validation: Split | None, kind: str, seed: int) -> VGG11:
    """The network of a run of ``relu-symmetry``: load it, train it, or wait for another process that trains it."""
    results = job.folder.parents[3]
    settings = {name: job.settings[name] for name in SMALL}
    spec = JobSpec("relu-symmetry", kind, job.scale, seed, str(results), overrides=settings)
    while True:
        try:
            symmetry_job = replace(
                job, experiment=spec.experiment, row=kind, folder=spec.folder, settings=spec.settings
            )
            return trained(symmetry_job, data, validation, kind, seed=seed)
        except BusyError:
            time.sleep(2)


EXPERIMENT = Experiment(
    name="relu-pairs",
    title="Two separately trained networks",
    reference="Bökman & Kahl 2023, Table 4, CIFAR-10",
    metrics=(BARRIER, PLAIN, FIRST, SECOND),
    rows=tuple(
        ExperimentRow(
            f"{a}+{b}",
            f"{_NAMES[a]} and {_NAMES[b]}",
            {"first": a, "second": b},
            {BARRIER.name: Published(*published)},
        )
        for (a, b), published in _TABLE.items()
    ),
    scales={"smoke": SMOKE, "quick": QUICK, "small": SMALL, "paper": PAPER},
    seeds={"smoke": 1, "quick": 2, "small": 1, "paper": 23},
    orderings=(
        Ordering("cnn-inv+cnn-inv", "cnn+cnn", BARRIER.name),
        Ordering("cnn+cnn", "gcnn+gcnn", BARRIER.name),
        Ordering("cnn+cnn", "cnn+gcnn", BARRIER.name),
    ),
    run=run,
    data={"smoke": "digits", "quick": "cifar10", "small": "cifar10", "paper": "cifar10"},
)
