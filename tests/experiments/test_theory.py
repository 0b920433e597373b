"""The classification table: every row that can be built is built, counted and applied."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from intertwine import kernels
from intertwine.cli import program
from intertwine.experiments import Check, classification

ROWS = classification()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.group} {row.rho}")
def test_row(row):
    if row.check is None:
        assert row.builder.startswith("not built: ")
        return
    assert hasattr(kernels, row.builder.split()[0])
    check = row.check()
    assert check.dim == check.mackey > 0
    assert check.residual < 1e-10
    assert check.error < 1e-10
    assert check.passed


def test_a_check_can_fail():
    good = Check("x", 3, 3, 0.0, 0.0)
    assert good.passed
    assert not replace(good, mackey=4).passed
    assert not replace(good, dim=0, mackey=0).passed
    assert not replace(good, residual=1e-6).passed
    assert not replace(good, error=1e-6).passed


def test_known_counts():
    dims = {(row.who, row.rho): row.check().dim for row in ROWS if row.check is not None}
    assert dims["LeCun et al. 1990", "trivial"] == 25
    assert dims["Cohen & Welling 2016; Dieleman et al. 2016", "regular"] == 200
    assert dims["Zaheer et al. 2017", "trivial"] == 2
    assert dims["Maron et al. 2019", "pairs (graphs)"] == 15
    assert dims["Esteves et al. 2018; Perraudin et al. 2018", "trivial"] == 7


def test_command():
    result = CliRunner().invoke(program(), ["theory"])
    assert result.exit_code == 0, result.output
    assert "Cohen & Welling 2016" in result.output
    assert f"{len(ROWS) - 1} of {len(ROWS)} rows checked" in result.output


def test_command_json():
    result = CliRunner().invoke(program(), ["theory", "--json"])
    found = json.loads(result.output)
    assert found["failed"] == 0
    assert len(found["rows"]) == len(ROWS)
    assert sum(row["check"] is not None for row in found["rows"]) == len(ROWS) - 1


def test_command_fails_when_a_row_fails(monkeypatch):
    from intertwine import experiments

    row = next(row for row in ROWS if row.check is not None)
    wrong = replace(row, check=lambda: Check("broken", 3, 4, 0.0, 0.5))
    monkeypatch.setattr(experiments, "classification", lambda: (wrong,))
    result = CliRunner().invoke(program(), ["theory"])
    assert result.exit_code == 1
    assert "FAILED" in result.output
    assert "1 failed" in result.output
