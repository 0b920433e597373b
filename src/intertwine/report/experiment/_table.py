"""The comparison of an experiment as tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..._checked import checked
from ...experiments import Comparison, Experiment, Metric
from .._terminal import heading, plain_table
from ._text import CONFIDENCE, beside_name, claims, direction, left_out, lines, metric_label, shown_metrics

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

_STYLES = {"good": "green", "bad": "red", "quiet": "dim", "": ""}


@checked
def comparison_table(experiment: Experiment, comparison: Comparison) -> Group:
    """Published numbers next to ours for each metric, then the claims, for the ``print`` of a rich console.

    Long names wrap. The console decides about colors; the words say the same without them.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for metric, beside in shown_metrics(experiment, comparison):
        parts += [
            heading(f"{metric_label(metric)}, {direction(metric)}"),
            _results(experiment, comparison, metric, beside),
            "",
        ]
    if skipped := left_out(experiment, comparison):
        parts += [Text(skipped), ""]
    if comparison.verdicts:
        parts += [heading("claims of the paper"), _claims(experiment, comparison), Text(CONFIDENCE, style="dim")]
    return Group(*parts)


def _results(experiment: Experiment, comparison: Comparison, metric: Metric, beside: Sequence[Metric]) -> Table:
    from rich.text import Text

    table = plain_table(
        ("row", False),
        ("published", True),
        ("n", True),
        ("ours", True),
        ("n", True),
        ("difference", True),
        *((beside_name(other), True) for other in beside),
    )
    for line in lines(experiment, comparison, metric, beside):
        ran = line.cell.mean is not None
        # Text, not str: rich would take a name in brackets for a style.
        table.add_row(
            Text(line.row.title),
            Text(line.published),
            Text(line.published_runs.removeprefix("n = ")),
            Text(line.ours, style="" if ran else "dim"),
            Text(line.our_runs.removeprefix("n = ")),
            Text(f"{line.difference} {line.judgment}".strip()),
            *(Text(text) for text, _ in line.beside),
        )
    return table


def _claims(experiment: Experiment, comparison: Comparison) -> Table:
    from rich.text import Text

    table = plain_table(("claim", False), ("published", False), ("here", False), ("confidence", True))
    for claim in claims(experiment, comparison):
        table.add_row(
            Text(claim.text), Text(claim.published), Text(claim.here, style=_STYLES[claim.tone]), Text(claim.confidence)
        )
    return table
