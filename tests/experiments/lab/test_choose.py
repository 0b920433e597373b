from __future__ import annotations

from pathlib import Path

import pytest

from intertwine.errors import InputError
from intertwine.experiments.lab._choose import choose
from intertwine.experiments.lab._experiment import Job
from intertwine.experiments.lab._runner import JobSpec, execute

SETTINGS = {"rank": [4, 1, 2], "validation": 10, "epochs": 8, "trial_epochs": 2, "warmup_epochs": 4}


def job(folder: Path, **settings: object) -> Job:
    return Job("lrlc", "lrlc-l3", "small", 0, {**SETTINGS, **settings}, None, folder)


def test_the_best_on_validation_images_wins(tmp_path):
    trials = []

    def validated(trial: Job) -> float:
        trials.append(trial)
        return {1: 0.5, 2: 0.7, 4: 0.7}[trial.settings["rank"]]

    final, tables, value = choose(job(tmp_path), ["rank"], validated)
    assert (final.settings["rank"], value) == (2, 2), "the smaller of two equals"
    assert final.settings["epochs"] == 8
    assert [trial.settings["rank"] for trial in trials] == [1, 2, 4]
    assert {(trial.settings["epochs"], trial.settings["warmup_epochs"]) for trial in trials} == {(2, 1)}
    assert len({trial.folder for trial in trials} | {final.folder}) == 4
    assert tables["choice/rank/accuracies"].tolist() == [0.5, 0.7, 0.7]


def test_a_single_value_is_left_alone(tmp_path):
    fixed = job(tmp_path, rank=4)
    assert choose(fixed, ["rank"], lambda _: pytest.fail("there is nothing to choose")) == (fixed, {}, None)


def test_trials_as_long_as_the_run_are_not_repeated(tmp_path):
    def validated(trial: Job) -> float:
        (trial.folder / "fit").mkdir(parents=True)
        (trial.folder / "fit" / "weights").write_text(str(trial.settings["rank"]))
        return float(trial.settings["rank"])

    final, _, _ = choose(job(tmp_path, trial_epochs=8), ["rank"], validated)
    assert (final.folder / "fit" / "weights").read_text() == "4"


def test_there_must_be_images_to_choose_on(tmp_path):
    with pytest.raises(InputError, match="validation images to choose rank on"):
        choose(job(tmp_path, validation=0), ["rank"], lambda _: 0.0)


def test_a_run_that_chooses_resumes(tmp_path):
    """The second execution finds the trials and the run finished, and measures the same."""
    less = {"validation": 200, "images": 100, "rank": [1, 2], "trial_epochs": 1, "epochs": 2, "validate_every": 2}
    spec = JobSpec("lrlc", "lrlc-l3", "smoke", 0, str(tmp_path), None, less)
    first = execute(spec)
    assert first.state == "finished", first.error
    assert first.metrics["rank"] in (1, 2)
    for record in spec.folder.glob("*.json"):  # as if killed just before the result was written
        record.unlink()
    again = execute(spec)
    assert again.metrics == first.metrics
