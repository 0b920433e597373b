"""What an experiment is made of, and how published numbers are compared with ours."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import intertwine.experiments
from intertwine.errors import InputError
from intertwine.experiments import (
    Ordering,
    compare,
    experiment_named,
    experiments,
    jobs_of,
    load_arrays,
    save_arrays,
    welch_confidence,
)

LENET = experiment_named("lenet")
WITHOUT_NUMBERS = {
    *("lrlc-imagenet", "lrlc-start", "molecules", "relu-training", "soft-rotmnist"),
    *("tetris", "tvae-length", "tvae-torus"),
}
"""Experiments without published numbers: on our own trajectories, or on data for which the paper gives none, or none
that could be had."""


@pytest.mark.parametrize("experiment", experiments().values(), ids=lambda e: e.name)
def test_every_experiment_is_complete(experiment):
    assert experiment.orderings
    assert any(row.published for row in experiment.rows) or experiment.name in WITHOUT_NUMBERS
    for row in experiment.rows:
        keys = {tuple(sorted(experiment.settings(row.name, scale))) for scale in experiment.scales}
        assert len(keys) == 1, "a row has the same settings at every scale, with other values"


def defined_in(room: Path) -> set[str]:
    """The files below a room that define an experiment, as PAPER/FILE."""
    files = room.rglob("*.py")
    return {path.relative_to(room).as_posix() for path in files if re.search("^EXPERIMENT = ", path.read_text(), re.M)}


def test_every_experiment_that_a_file_defines_is_registered(tmp_path):
    room = Path(intertwine.experiments.__file__).parent
    listed = {
        f"{name.split('.')[2]}/{name.split('.')[3]}.py"
        for name, module in sys.modules.items()
        if name.startswith("intertwine.experiments.") and getattr(module, "EXPERIMENT", None) in experiments().values()
    }
    assert listed == defined_in(room)
    assert len(listed) == len(experiments())
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "_new.py").write_text("EXPERIMENT = 1\n")
    assert defined_in(tmp_path) == {"paper/_new.py"}, "one that is not listed would be seen"


def test_unknown_names():
    with pytest.raises(InputError, match=r"expected one of .*lenet.*; got 'lenett'. Did you mean lenet\?"):
        experiment_named("lenett")
    assert experiment_named("relu_symmetry") is experiment_named("relu-symmetry")
    with pytest.raises(InputError, match="a row: linear, mlp, lenet5; got 'cnn'"):
        LENET.row("cnn")
    with pytest.raises(InputError, match="a metric: test_error, validation_error, parameters; got 'loss'"):
        LENET.metric("loss")
    with pytest.raises(InputError, match=r"settings among .*; got learning_rate"):
        LENET.settings("mlp", "smoke", {"learning_rate": 1})


def test_an_experiment_that_contradicts_itself_is_refused():
    null = replace(LENET.metrics[0], name="null", beside="tset_error")
    with pytest.raises(InputError, match="got tset_error, for null"):
        replace(LENET, metrics=(*LENET.metrics, null))
    with pytest.raises(InputError, match="rows with different names"):
        replace(LENET, rows=LENET.rows + LENET.rows[:1])
    with pytest.raises(InputError, match="nobody against mlp in test_error"):
        replace(LENET, orderings=(Ordering("nobody", "mlp", "test_error"),))
    with pytest.raises(InputError, match="settings and seeds for"):
        replace(LENET, scales={"smoke": {}})
    with pytest.raises(InputError, match=r"all of them except quick; got .*quick.*seeds for"):
        replace(LENET, scales={**LENET.scales, "quick": {}})


def test_the_quick_scale_is_optional_and_rows_may_differ_at_one_scale():
    with pytest.raises(InputError, match="expected a scale: smoke, small, paper; got 'quick'"):
        LENET.settings("mlp", "quick")
    with pytest.raises(InputError, match="expected a scale: smoke, small, paper; got 'quick'"):
        jobs_of(LENET, "quick", results=Path("results"))
    longer = replace(LENET.row("mlp"), scales={"quick": {"epochs": 77}})
    quick = replace(
        LENET,
        scales={**LENET.scales, "quick": LENET.scales["small"]},
        seeds={**LENET.seeds, "quick": 2},
        rows=(LENET.row("linear"), longer, LENET.row("lenet5")),
    )
    assert [quick.settings(name, "quick")["epochs"] for name in ("linear", "mlp")] == [5, 77]
    assert quick.settings("mlp", "small")["epochs"] == 5
    assert quick.settings("mlp", "quick", {"epochs": 3})["epochs"] == 3
    assert len(jobs_of(quick, "quick", results=Path("results"))) == 2 * 3


def test_comparison():
    runs = {
        "linear": [{"test_error": 12.5}, {"test_error": 11.5}],
        "mlp": [{"test_error": 4.0}, {"test_error": 5.0}, {"test_error": 4.5}],
        "lenet5": [{"test_error": 1.0}],
    }
    comparison = compare(LENET, runs)
    cell = comparison.cells["mlp", "test_error"]
    assert (cell.mean, cell.spread, cell.published.mean) == (4.5, 0.5, 4.7)
    assert comparison.cells["lenet5", "test_error"].spread is None
    assert comparison.cells["lenet5", "parameters"].mean is None
    first, second = comparison.verdicts
    assert (first.holds, first.published) == (True, True)
    assert first.confidence > 0.98
    assert (second.holds, second.confidence) == (True, None)
    reversed_claim = replace(LENET, orderings=(Ordering("linear", "mlp", "test_error"),))
    verdict = compare(reversed_claim, runs).verdicts[0]
    assert (verdict.holds, verdict.published) == (False, False)
    assert verdict.confidence < 0.02
    assert compare(LENET, {}).verdicts[0].holds is None


@pytest.mark.parametrize("shift", [-1.0, 0.0, 0.3, 2.0])
def test_confidence_is_welchs(shift):
    from scipy.stats import ttest_ind  # takes seconds to import

    a, b = [1.0 + shift, 1.3 + shift, 0.7 + shift, 1.1 + shift], [1.0, 0.8, 1.4]
    expected = 1 - ttest_ind(a, b, equal_var=False, alternative="greater").pvalue
    assert welch_confidence(a, b) == pytest.approx(expected, abs=1e-12)


def test_confidence_without_spread():
    assert welch_confidence([1.0, 1.0], [0.0, 0.0]) == 1.0
    assert welch_confidence([0.0, 0.0], [1.0, 1.0]) == 0.0
    assert welch_confidence([1.0, 1.0], [1.0, 1.0]) == 0.5
    assert welch_confidence([1.0], [0.0, 0.1]) is None


def test_arrays_come_back_in_the_order_of_their_names(tmp_path: Path) -> None:
    kept = {f"orders/{layer}": torch.full((2,), layer) for layer in (10, 8, 9, 100, 2)} | {"filters": torch.ones(1)}
    save_arrays(tmp_path, kept)
    loaded = load_arrays(tmp_path)
    assert list(loaded) == ["filters", "orders/2", "orders/8", "orders/9", "orders/10", "orders/100"]
    assert all(torch.equal(values, kept[name]) for name, values in loaded.items())
