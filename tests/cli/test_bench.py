"""``intertwine bench``: rows for the layers asked for, numbers that fit together, and no claim about how fast."""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

from intertwine import nn, testing
from intertwine.cli import program
from intertwine.testing import compare, compare_with_plain, cpu_seconds

runner = CliRunner()
QUICK = ["--repeats", "2", "--batch", "1", "--size", "7"]


def test_json_has_two_rows_a_layer():
    done = runner.invoke(program(), ["bench", "--layer", "Conv2d", "--layer", "ReLU", "--json", *QUICK])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["threads"] == 1
    rows = [(row["layer"], row["what"]) for row in report["rows"]]
    assert rows == [(name, what) for name in ("Conv2d", "ReLU") for what in ("call", "training step")]
    for row in report["rows"]:
        low, high = row["quartiles"]
        assert 0 < low <= row["ratio"] <= high
        assert row["plain_ms"] > 0 < row["layer_ms"]


def test_all_examples_and_the_table():
    done = runner.invoke(program(), ["bench", "--layer", "GroupPool", "--all", *QUICK])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["layer", "types", "what"]
    assert sum(line.startswith("GroupPool") for line in lines) == 2 * len(list(nn.LAYERS["GroupPool"].examples()))


def test_threads_are_as_before():
    before = torch.get_num_threads()
    assert runner.invoke(program(), ["bench", "--layer", "ReLU", "--threads", "2", *QUICK]).exit_code == 0
    assert torch.get_num_threads() == before


def test_an_unknown_layer_is_explained():
    done = runner.invoke(program(), ["bench", "--layer", "Conv2"])
    assert done.exit_code == 2
    assert "got 'Conv2'. Did you mean Conv2d?" in done.stderr


@pytest.mark.parametrize("name", sorted(nn.LAYERS))
def test_every_layer_can_be_measured(name):
    layer = next(iter(nn.LAYERS[name].examples()))
    for training in (False, True):
        assert compare_with_plain(layer, training=training, repeats=1, batch=1, size=7).ratio > 0


def test_the_ratio_is_the_second_over_the_first(monkeypatch):
    clock = iter(float(t) for t in (0, 1, 0, 9, 0, 2, 0, 3, 0, 4, 0, 4, 0, 1, 0, 5))  # begin and end of each run
    monkeypatch.setattr(testing._timing.time, "process_time", lambda: next(clock))
    calls = []
    timing = compare(lambda: calls.append("first"), lambda: calls.append("second"), repeats=3)
    assert calls == ["first", "second"] * 4
    assert (timing.first, timing.second) == (2.0, 4.0)  # the first pair (1, 9) warms up
    assert timing.ratio == 1.5
    assert timing.spread == (1.0, 5.0)


def test_only_processor_time_counts():
    import time

    assert cpu_seconds(lambda: time.sleep(0.05)) < 0.04
