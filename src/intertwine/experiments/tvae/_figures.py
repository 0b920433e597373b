"""Figures of traversals: images decoded from rolled capsules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..._figures import Figure, Panel, Panels
from ..lab._arrays import load_arrays
from ..lab._experiment import FinishedRun


def traversal_figures(runs: Sequence[FinishedRun], titles: Mapping[str, str]) -> list[Figure]:
    """For the first seed of each row: sequences, their reconstructions, and the first frame, moved."""
    figures: list[Figure] = []
    for row, title in titles.items():
        row_runs = sorted((run for run in runs if run.row == row), key=lambda run: run.seed)
        arrays = load_arrays(row_runs[0].folder) if row_runs else {}
        if not arrays:
            continue
        held = set(arrays["held_out"].tolist())
        lines = []
        for factor in dict.fromkeys(name.partition("/")[0] for name in arrays if "/" in name):
            for kind, label in (
                ("input", f"{factor}: input"),
                ("reconstruction", "reconstructed"),
                ("traversal", "first frame, moved"),
            ):
                frames = arrays[f"{factor}/{kind}"]
                panels = [
                    Panel(frame[0] if len(frame) == 1 else frame.clamp(0, 1), quiet=kind == "input" and k in held)
                    for k, frame in enumerate(frames)
                ]
                lines.append((label, panels))
        figures.append(
            Panels(
                f"{title}: images from rolled capsules",
                lines,
                "gray",
                "The latents of the first frame do not depend on grayed frames.",
                shared=True,
            )
        )
    return figures
