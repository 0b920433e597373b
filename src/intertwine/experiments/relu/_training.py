"""Networks of Bökman & Kahl 2023, Table 2, trained in other ways: what do accuracy and barrier depend on?

At the scales that we can run, networks are narrower and trained for fewer epochs than the published ones. These rows
change one thing at a time, for networks without and with the invariance loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..lab._experiment import Experiment, ExperimentRow, Job, Ordering
from ._run import PAPER, QUICK, SMALL, SMOKE
from ._symmetry import ACCURACY, BARRIER, CONSTRAINED, ERROR, IDENTITY, MOVED, PAIRED, PARAMETERS, PLAIN, trained_at_all
from ._symmetry import run as run_symmetry

# Per row: its kind of network, its title, and the factors that its width, its number of epochs and its learning rate
# have on top of those of `relu-symmetry`.
_ROWS: dict[str, tuple[str, str, float, float, float]] = {
    "cnn-quarter": ("cnn", "CNN, a quarter of the width", 0.25, 1.0, 1.0),
    "cnn-half": ("cnn", "CNN, half the width", 0.5, 1.0, 1.0),
    "cnn-half-long": ("cnn", "CNN, half the width, three times the epochs", 0.5, 3.0, 1.0),
    "inv-quarter": ("cnn-inv", "CNN, invariance loss, a quarter of the width", 0.25, 1.0, 1.0),
    "inv-half": ("cnn-inv", "CNN, invariance loss, half the width", 0.5, 1.0, 1.0),
    "inv-half-long": ("cnn-inv", "CNN, invariance loss, half the width, three times the epochs", 0.5, 3.0, 1.0),
    "inv-half-slow": ("cnn-inv", "CNN, invariance loss, half the width, a quarter of the rate", 0.5, 1.0, 0.25),
}


def run(job: Job) -> Mapping[str, float]:
    """Train one network of ``relu-symmetry`` with the changes of the row, and measure it in the same way."""
    settings = dict(job.settings)
    settings["width"] *= settings["width_factor"]
    settings["epochs"] = max(round(settings["epochs"] * settings["epochs_factor"]), 1)
    settings["lr"] *= settings["lr_factor"]
    return run_symmetry(replace(job, settings=settings))


EXPERIMENT = Experiment(
    name="relu-training",
    title="How far from a group-convolutional network? Width, length and rate of training",
    reference="the networks of Bökman & Kahl 2023, Table 2, CIFAR-10; by width, after Jordan et al. 2023",
    metrics=(BARRIER, ACCURACY, ERROR, PLAIN, MOVED, CONSTRAINED, IDENTITY, PAIRED, PARAMETERS),
    rows=tuple(
        ExperimentRow(name, title, {"kind": kind, "width_factor": width, "epochs_factor": epochs, "lr_factor": lr})
        for name, (kind, title, width, epochs, lr) in _ROWS.items()
    ),
    scales={"smoke": SMOKE, "quick": QUICK, "small": SMALL, "paper": PAPER},
    seeds={"smoke": 1, "quick": 3, "small": 1, "paper": 24},
    # Jordan, Sedghi, Saukh, Entezari & Neyshabur (2023) found that wider networks have lower barriers, between two
    # networks rather than between one and its mirror image.
    orderings=(Ordering("cnn-half", "cnn-quarter", BARRIER.name),),
    run=run,
    counts=trained_at_all,
    data={"smoke": "digits", "quick": "cifar10", "small": "cifar10", "paper": "cifar10"},
)
