"""Chooses a setting on validation images: one short run per candidate, then the full run with the best of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import InputError
from ._experiment import Job

_FIT = "fit"


def undecided(settings: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """The first of these settings that is a list of candidates, if there is one.

    >>> undecided({"rank": [1, 2, 4]}, ["rank"]), undecided({"rank": 4}, ["rank"])
    ('rank', None)
    """
    return next((name for name in names if isinstance(settings[name], list)), None)


def choose(
    job: Job, names: Sequence[str], validated: Callable[[Job], float]
) -> tuple[Job, dict[str, Tensor], float | None]:
    """The job with the chosen value; candidates with their validation accuracies, for figures; and the value.

    Each candidate trains for ``trial_epochs`` with its own schedule, from the same seed and on the same images. The
    highest accuracy wins, and the smaller value if two are equal. Trials that are as long as the run are not repeated:
    the winner becomes the run.

    Args:
        job: a run of which one of the settings may be a list of candidates; without one it is returned as it is.
        names: the settings that may be lists.
        validated: trains a job and returns its accuracy on validation images.
    """
    name = undecided(job.settings, names)
    if name is None:
        return job, {}, None
    if not job.settings["validation"]:
        raise InputError(
            f"experiment {job.experiment}, row {job.row}",
            expected=f"validation images to choose {name} on",
            got=f"validation={job.settings['validation']}",
            fix=f"Set validation to a number of images, or {name} to a single value.",
        )
    candidates = sorted(job.settings[name])
    trials = [_trial(job, name, value) for value in candidates]
    accuracies = [validated(trial) for trial in trials]
    best = max(range(len(candidates)), key=accuracies.__getitem__)
    final = replace(job, settings={**job.settings, name: candidates[best]})
    if trials[best].settings == final.settings and not (job.folder / _FIT).exists():
        _adopt(trials[best].folder, job.folder)
    arrays = {"candidates": candidates, "accuracies": accuracies, "value": [candidates[best]]}
    tables = {f"choice/{name}/{key}": torch.tensor(numbers, dtype=torch.float64) for key, numbers in arrays.items()}
    return final, tables, candidates[best]


def _adopt(trial: Path, folder: Path) -> None:
    """Copy the files of a trial into the folder of the run.

    Its checkpoints come last and at once, so that a killed run does not resume from half a copy.
    """
    copy = folder / f"{_FIT}.copy"
    for path in trial.iterdir():
        if path.name == _FIT:
            shutil.copytree(path, copy, dirs_exist_ok=True)
        else:
            shutil.copy2(path, folder / path.name)
    copy.rename(folder / _FIT)


def _trial(job: Job, name: str, value: float) -> Job:
    settings = {**job.settings, name: value}
    epochs = settings["trial_epochs"]
    if epochs < settings["epochs"]:
        warmup = settings["warmup_epochs"] * epochs / settings["epochs"]
        settings |= {"epochs": epochs, "warmup_epochs": warmup, "validate_every": epochs}
    return replace(job, settings=settings, folder=job.folder / "trials" / f"{name}-{value:g}", report=None)
