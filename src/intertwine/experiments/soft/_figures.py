"""The figures of the experiments on soft equivariance, drawn from the arrays that their runs saved."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..._figures import Figure, Panel, Panels, Plot, Series, Table
from ...train import read_metrics
from ..lab._arrays import load_arrays
from ..lab._experiment import ExperimentRow, FinishedRun
from ._table import TEST

_SUBGROUPS = {"rotation": "rotations", "translation": "translations"}


def figures(rows: Sequence[ExperimentRow], runs: Sequence[FinishedRun]) -> list[Figure]:
    """Learned ω' and accuracy against λ, ω' over time, what partial layers keep, choices of ω', and a bank of filters.

    Args:
        rows: the rows of the experiment.
        runs: its finished runs.
    """
    drawn: list[Figure] = []
    for group, members in _groups(rows).items():
        group_runs = [run for run in runs if run.row in {row.name for row in members}]
        drawn += _against_penalty(group, members, group_runs)
        drawn += _histories(group, members, group_runs)
        drawn += _extents(group, members, group_runs)
    return drawn + choices(rows, runs) + banks(rows, runs)


def _groups(rows: Sequence[ExperimentRow]) -> dict[str, list[ExperimentRow]]:
    """Rows by the part of their name before the kind: ``se2-4-lambda-5`` belongs to ``se2-4``."""
    groups: dict[str, list[ExperimentRow]] = {}
    for row in rows:
        name = row.name.split("-lambda-")[0]
        name = name if "-lambda-" in row.name else name.rpartition("-")[0]
        groups.setdefault(name, []).append(row)
    return groups


def _against_penalty(group: str, rows: Sequence[ExperimentRow], runs: Sequence[FinishedRun]) -> list[Figure]:
    """Two plots over λ: ω' of each layer, and the accuracy next to that of rows without λ."""
    learned = {row.name: float(row.settings["penalty"]) for row in rows if row.settings["penalty"] is not None}
    layers: dict[str, dict[float, list[float]]] = {}
    accuracies: dict[float, list[float]] = {}
    for run in runs:
        if run.row not in learned:
            continue
        accuracies.setdefault(learned[run.row], []).append(run.metrics[TEST.name])
        for name, value in load_arrays(run.folder).items():
            if name.startswith("relaxation/"):
                layer = name.split("/")[-1]
                layers.setdefault(layer, {}).setdefault(learned[run.row], []).append(float(value))
    if not accuracies:
        return []
    frequencies = Plot(
        title=f"Learned ω' of each layer, {group}",
        x="λ",
        y="‖ω'‖",
        series=[Series(layer, sorted(layers[layer].items())) for layer in sorted(layers, key=_place)],
        caption="A larger λ should pull ω' toward 0, where a layer is strict.",
        x_scale="log",
    )
    series = [Series("soft, learned ω'", sorted(accuracies.items()))]
    span = sorted(learned.values())
    for row in rows:
        values = [run.metrics[TEST.name] for run in runs if run.row == row.name]
        if row.name not in learned and values:
            series.append(Series(row.title, [(x, values) for x in (span[0], span[-1])]))
    published = [row for row in rows if row.name in learned and TEST.name in row.published]
    if published:
        points = sorted((learned[row.name], [row.published[TEST.name].mean]) for row in published)
        series.append(Series("soft, learned ω'", points, published=True))
    accuracy = Plot(f"Accuracy against λ, {group}", "λ", "test accuracy, %", series, x_scale="log")
    return [frequencies, accuracy]


def _place(layer: str) -> tuple[int, str]:
    """A sort key for the layer's place in the network: arrays come back from their file in no particular order."""
    return {"lift": 0, "last": 2}.get(layer, 1), layer


def _histories(group: str, rows: Sequence[ExperimentRow], runs: Sequence[FinishedRun]) -> list[Figure]:
    """The mean relaxation of the layers over the steps, by row."""
    series = []
    for row in rows:
        if not (row.settings["learn"] or row.settings["partial"]):
            continue
        points: dict[float, list[float]] = {}
        for run in runs:
            if run.row == row.name:
                for line in read_metrics(run.folder / "fit"):
                    if line.get("split") == "train" and "relaxation" in line:
                        points.setdefault(float(line["step"]), []).append(float(line["relaxation"]))
        if points:
            series.append(Series(row.title, sorted(points.items())))
    if not series:
        return []
    caption = (
        "‖ω'‖ of soft layers, and the part 1 − |t| of the rotations that partial layers leave out; means over layers."
    )
    return [Plot(f"Relaxation during training, {group}", "step", "mean relaxation", series, caption)]


def _extents(group: str, rows: Sequence[ExperimentRow], runs: Sequence[FinishedRun]) -> list[Figure]:
    """The part of the rotations that each partial layer keeps, one line per run."""
    lines: list[list[str | float | int | None]] = []
    layers: list[str] = []
    for run in runs:
        if any(row.name == run.row and row.settings["partial"] for row in rows):
            kept = {
                name.split("/")[-1]: 1 - float(value)
                for name, value in load_arrays(run.folder).items()
                if name.startswith("relaxation/rotation/")
            }
            layers = layers or sorted(kept, key=_place)
            lines.append([run.row, run.seed, *(kept.get(layer) for layer in layers)])
    if not lines:
        return []
    return [Table(f"Part of the rotations that partial layers keep, {group}", ["row", "seed", *layers], lines)]


def choices(rows: Sequence[ExperimentRow], runs: Sequence[FinishedRun]) -> list[Figure]:
    """The validation accuracy of every candidate ω', and the chosen one, one line per run."""
    titles = {row.name: row.title for row in rows}
    lines: list[list[str | float | int | None]] = []
    for run in runs:
        kept = {name.split("/")[-1]: value for name, value in load_arrays(run.folder).items() if "choice/" in name}
        if kept:
            pairs = zip(kept["candidates"].tolist(), kept["accuracies"].tolist(), strict=True)
            tried = ", ".join(f"{value:g}: {100 * accuracy:.1f} %" for value, accuracy in pairs)
            lines.append([titles[run.row], run.seed, tried, float(kept["value"])])
    if not lines:
        return []
    caption = (
        "Each candidate trains for trial_epochs from the same seed. The one with the highest accuracy on validation "
        "images then trains to the end. Test images have no part in this."
    )
    return [Table("ω' chosen on validation images", ["row", "seed", "candidates", "ω'"], lines, caption)]


def banks(rows: Sequence[ExperimentRow], runs: Sequence[FinishedRun]) -> list[Figure]:
    """The filters of the first run that saved some: strict, soft, and the angles."""
    titles = {row.name: row.title for row in rows}
    for run in runs:
        kept = load_arrays(run.folder)
        if "bank/soft" not in kept:
            continue
        angles = [float(angle) for angle in kept["bank/angles"]]
        size = kept["bank/soft"].shape[-1]
        highest = float(max(kept["bank/soft"].abs().max(), kept["bank/strict"].abs().max()))
        bars = [Panel(highest * _bar(angle, size), f"{math.degrees(angle):.0f}°") for angle in angles]
        lines = [
            ("ω' = 0", [Panel(values) for values in kept["bank/strict"]]),
            ("ω' of the layer", [Panel(values) for values in kept["bank/soft"]]),
            ("angle", bars),
        ]
        caption = (
            "The same layer twice: with ω' = 0 the filter only rotates, with ω' > 0 it also changes with the angle."
        )
        return [Panels(f"Filters over the rotations, {titles[run.row]}", lines, "diverging", caption)]
    return []


def _bar(angle: float, size: int) -> Tensor:
    """A picture of a ray from the center that points down at angle 0 and rotates as the filters do."""
    steps = torch.linspace(0, (size - 1) / 2, 2 * size)
    center = (size - 1) / 2
    picture = torch.zeros(size, size)
    down, right = center + steps * math.cos(angle), center + steps * math.sin(angle)
    picture[down.round().long(), right.round().long()] = 1
    return picture
