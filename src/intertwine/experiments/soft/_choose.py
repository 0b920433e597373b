"""Chooses ω' on validation images: one short run per candidate, then the full run with the best of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...errors import InputError
from ..lab._experiment import Job

SUBGROUPS = ("rotation", "translation")
_FIT = "fit"


def undecided(settings: Mapping[str, Any]) -> str | None:
    """The subgroup whose ω' is a list of candidates, if there is one.

    >>> undecided({"rotation": [0.5, 1.0], "translation": None}), undecided({"rotation": 1.0, "translation": None})
    ('rotation', None)
    """
    return next((name for name in SUBGROUPS if isinstance(settings[name], list)), None)


def choose(job: Job, validated: Callable[[Job], float]) -> tuple[Job, dict[str, Tensor]]:
    """The job with a single ω', and the candidates with their validation accuracies, for the figures.

    Each candidate trains for ``trial_epochs`` with its own schedule, from the same seed and on the same images. The
    highest accuracy wins, and the smaller ω' if two are equal. Trials that are as long as the run are not repeated: the
    winner becomes the run.

    Args:
        job: a run whose settings may hold a list of candidates; without one it is returned as it is.
        validated: trains a job and returns its accuracy on validation images.
    """
    subgroup = undecided(job.settings)
    if subgroup is None:
        return job, {}
    if not job.settings["validation"]:
        raise InputError(
            f"experiment {job.experiment}, row {job.row}",
            expected=f"validation images to choose ω' of {subgroup}s on",
            got=f"validation={job.settings['validation']}",
            fix=f"Set validation to a number of images, or {subgroup} to a number.",
        )
    candidates = sorted(float(value) for value in job.settings[subgroup])
    trials = [_trial(job, subgroup, value) for value in candidates]
    accuracies = [validated(trial) for trial in trials]
    best = max(range(len(candidates)), key=accuracies.__getitem__)
    final = replace(job, settings={**job.settings, subgroup: candidates[best]})
    if trials[best].settings == final.settings and not (job.folder / _FIT).exists():
        _adopt(trials[best], job)
    arrays = {"candidates": candidates, "accuracies": accuracies, "value": [candidates[best]]}
    return final, {
        f"choice/{subgroup}/{name}": torch.tensor(numbers, dtype=torch.float64) for name, numbers in arrays.items()
    }


def _adopt(trial: Job, job: Job) -> None:
    """Make the files of a trial those of the run; the rename comes last, so an interruption leaves nothing halfway."""
    copied = job.folder / "adopted"
    shutil.copytree(trial.folder, copied, dirs_exist_ok=True)
    for path in sorted(copied.iterdir(), key=lambda path: path.name == _FIT):
        path.rename(job.folder / path.name)
    copied.rmdir()


def _trial(job: Job, subgroup: str, value: float) -> Job:
    settings = {**job.settings, subgroup: value}
    epochs = settings["trial_epochs"]
    if epochs < settings["epochs"]:
        warmup = settings["warmup_epochs"] * epochs / settings["epochs"]
        settings |= {"epochs": epochs, "warmup_epochs": warmup, "validate_every": epochs}
    return replace(job, settings=settings, folder=job.folder / "trials" / f"{subgroup}-{value:g}", report=None)
