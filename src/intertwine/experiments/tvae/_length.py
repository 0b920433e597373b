"""Networks of Keller & Welling 2021, Table 1, trained for shorter and longer: does likelihood depend on that?

At the scales that we can run, training is far shorter than published, and likelihoods are lower. These rows multiply
the number of steps of ``tvae-mnist`` and change nothing else; the rate falls to zero over the whole training in each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..lab._experiment import Experiment, ExperimentRow, Job, Ordering
from ._metrics import ELBO, ERROR, GAP, LIKELIHOOD, PUBLISHED_FORM, RECONSTRUCTION
from ._mnist import EXPERIMENT as DIGITS
from ._mnist import run as run_digits

_METRICS = (PUBLISHED_FORM, LIKELIHOOD, ELBO, RECONSTRUCTION, GAP, ERROR)
_NETWORKS = {"vae": "vae", "tvae": "half"}
"""The rows of ``tvae-mnist`` that train here."""
_LENGTHS = {
    "quarter": (0.25, "a quarter of the steps"),
    "half": (0.5, "half the steps"),
    "twice": (2.0, "twice the steps"),
}


def run(job: Job) -> Mapping[str, float]:
    """Train one network of ``tvae-mnist`` for another number of steps, and measure it in the same way."""
    settings = dict(job.settings)
    settings["steps"] = max(round(settings["steps"] * settings["steps_factor"]), 1)
    metrics = run_digits(replace(job, settings=settings))
    return {metric.name: metrics[metric.name] for metric in _METRICS}


def _row(network: str, length: str) -> ExperimentRow:
    digits = next(row for row in DIGITS.rows if row.name == _NETWORKS[network])
    factor, words = _LENGTHS[length]
    settings = {**digits.settings, "steps_factor": factor}
    return ExperimentRow(f"{network}-{length}", f"{digits.title}, {words}", settings, scales=digits.scales)


EXPERIMENT = Experiment(
    name="tvae-length",
    title="Capsules that roll: digits, and the length of training",
    reference="the networks of Keller & Welling 2021, Table 1",
    metrics=_METRICS,
    rows=tuple(_row(network, length) for network in _NETWORKS for length in _LENGTHS),
    scales=DIGITS.scales,
    seeds={"smoke": 1, "quick": 1, "small": 1, "paper": 3},
    orderings=(
        Ordering("vae-twice", "vae-half", PUBLISHED_FORM.name),
        Ordering("tvae-twice", "tvae-half", PUBLISHED_FORM.name),
    ),
    run=run,
    data=DIGITS.data,
)
