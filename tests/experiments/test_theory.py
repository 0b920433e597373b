"""The classification table: every row that can be built is built, counted and applied."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from intertwine import kernels, nn
from intertwine.cli import program
from intertwine.experiments import Check, classification, experiment_named
from intertwine.experiments.theory._checks import count, random_error, random_zoom_error
from intertwine.groups import SO2, Cyclic
from intertwine.spaces import Grid2d

ROOT = Path(__file__).parent.parent.parent
# Several tests look at the same checks, so each is computed once. tests/cli/test_help.py runs the command as it is.
ROWS = [row if row.check is None else replace(row, check=cache(row.check)) for row in classification()]
SAMPLED = {("R²⋊C_N", "R²"), ("R²⋊R⁺", "R²"), ("SE(2)", "R²"), ("E(2)", "R²"), ("SE(3)", "R³")}
NOT_BUILT = sum(row.check is None for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.group} {row.rho} {row.builder.split()[0]}")
def test_row(row):
    if row.check is None:
        assert row.builder.startswith("not built: ")
        return
    assert hasattr(kernels, row.builder.split()[0]) or row.builder in nn.LAYERS
    assert all(name in nn.LAYERS for name in row.layer.split(", "))
    check = row.check()
    assert check.dim == check.mackey > 0
    assert check.wider_dim == check.wider_mackey > check.dim
    assert check.residual is None or check.residual < 1e-10
    assert check.error is None or check.error < 1e-10
    sampled = (row.group, row.base) in SAMPLED
    bound = 0.02 if row.builder.startswith("Rotated") else 0.005
    assert check.random_error < (bound if sampled else 1e-10)
    assert (check.random_error > 1e-6) == sampled
    assert check.passed


@pytest.mark.parametrize("row", [row for row in ROWS if row.check is not None], ids=lambda row: row.papers)
def test_every_row_is_trained_by_something_that_exists(row):
    for source in row.trained_by.split("; "):
        if "/" in source:
            text = (ROOT / source).read_text(encoding="utf-8")
            assert "optimizer.step()" in text
            assert any(f"tw.nn.{name}(" in text for name in row.layer.split(", "))
            continue
        name, _, rows = source.partition(" (")
        experiment = experiment_named(name)
        assert {*filter(None, rows.rstrip(")").split(", "))} <= {row.name for row in experiment.rows}


def test_a_check_can_fail():
    good = Check("x", 3, 3, 5, 5, 0.0, 0.0, 0.0)
    assert good.passed
    assert not replace(good, mackey=4).passed
    assert not replace(good, dim=0, mackey=0).passed
    assert not replace(good, residual=1e-6).passed
    assert not replace(good, error=1e-6).passed
    assert not replace(good, wider_dim=6).passed
    assert not replace(good, random_error=1e-6).passed
    assert replace(good, random_error=1e-3, bound=1e-2).passed


def test_a_filter_that_knows_quarter_turns_only_is_found_out():
    so2, c4 = SO2(), Cyclic(4)
    plane = Grid2d(c4)
    basis = kernels.solve(plane.field(c4.trivial), plane.field(c4.irrep(1)), kernel_size=5)
    random = torch.Generator().manual_seed(0)
    filters = basis.filters(basis.combine(torch.randn(basis.dim, dtype=torch.float64, generator=random)))
    assert random_error(plane, c4.trivial, c4.irrep(1), filters, random) < 1e-12
    errors = [random_error(Grid2d(so2), so2.trivial, so2.irrep(1), filters, random) for _ in range(8)]
    assert max(errors) > 0.05


def test_filters_that_do_not_grow_with_the_scale_are_found_out(monkeypatch):
    basis = kernels.HermiteKernelBasis(order=2, sigma=1.0)
    weights, random = torch.randn(basis.dim, dtype=torch.float64), torch.Generator().manual_seed(0)
    assert random_zoom_error(basis, weights, random) < 0.005
    sampled = basis.filters

    def unnormalized(scale: float) -> torch.Tensor:
        return sampled(scale) * scale

    monkeypatch.setattr(basis, "filters", unnormalized)
    assert max(random_zoom_error(basis, weights, random) for _ in range(8)) > 0.1
    assert basis.residual > 0.1


def test_the_count_does_not_come_from_the_basis():
    so2 = SO2()
    field = Grid2d(so2).field(so2.irrep(1))
    basis = kernels.solve(field, field, kernel_size=5)
    assert count(basis) == basis.dim
    basis._harmonics = basis._harmonics[:1]  # what the basis itself counts with
    assert count(basis) == basis.dim


def test_known_counts():
    dims = {(row.papers, row.rho): row.check().dim for row in ROWS if row.check is not None}
    assert dims["LeCun et al. 1990", "trivial"] == 25
    assert dims["Cohen & Welling 2016; Dieleman et al. 2016", "regular"] == 200
    assert dims["Zaheer et al. 2017", "trivial"] == 2
    assert dims["Worrall & Welling 2019; Ghosh & Gupta 2019; Sosnovik et al. 2020", "regular"] == 6
    assert dims["Maron et al. 2019; Kondor et al. 2018 (CCN)", "pairs (graphs)"] == 15
    assert dims["Esteves et al. 2018; Perraudin et al. 2018", "trivial"] == 7


@pytest.fixture
def _checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from intertwine import experiments

    assert [row.papers for row in experiments.classification()] == [row.papers for row in ROWS]
    monkeypatch.setattr(experiments, "classification", lambda: tuple(ROWS))


@pytest.mark.usefixtures("_checked_once")
def test_command():
    result = CliRunner().invoke(program(), ["theory"])
    assert result.exit_code == 0, result.output
    assert "Cohen & Welling 2016" in result.output
    assert f"{len(ROWS) - NOT_BUILT} of {len(ROWS)} rows checked" in result.output


@pytest.mark.usefixtures("_checked_once")
def test_command_json():
    result = CliRunner().invoke(program(), ["theory", "--json"])
    report = json.loads(result.output)
    assert report["failed"] == 0
    assert len(report["rows"]) == len(ROWS)
    assert sum(row["check"] is not None for row in report["rows"]) == len(ROWS) - NOT_BUILT


def test_command_fails_when_a_row_fails(monkeypatch):
    from intertwine import experiments

    row = next(row for row in ROWS if row.check is not None)
    wrong = replace(row, check=lambda: Check("broken", 3, 4, 5, 5, 0.0, 0.5, 0.5))
    monkeypatch.setattr(experiments, "classification", lambda: (wrong,))
    result = CliRunner().invoke(program(), ["theory"])
    assert result.exit_code == 1
    assert "FAILED" in result.output
    assert "1 failed" in result.output
