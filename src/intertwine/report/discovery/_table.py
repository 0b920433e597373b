"""What was discovered, as a table for the terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from ..._checked import checked
from ..._console import wide_console
from ...discovery import Discovery, Finding
from .._terminal import heading, plain_table
from ._text import auc_text, confused_text, gain_text, together, verdict_text, worth_text

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

_STYLE = {"impose": "green", "relax": "yellow", "leave": "red", "can't tell": "dim"}


@checked
def discovery_table(discovery: Discovery, *, reasons: bool = True) -> Group:
    """The sentence, one row per candidate, and the reasons.

    Args:
        discovery: the result.
        reasons: whether to print the reasons of every verdict.
    """
    from rich.console import Group
    from rich.text import Text

    about = f"{discovery.data}: {discovery.samples} samples, {len(discovery.classes)} classes, {discovery.seeds} seeds"
    table = plain_table(
        ("symmetry", False),
        ("verdict", False),
        ("AUC", True),
        ("accuracy", True),
        ("against free", True),
        ("worth", True),
        ("confused", False),
    )
    for each in discovery.findings:
        auc, gain, worth = (together(text(each)) for text in (auc_text, gain_text, worth_text))
        texts = (auc, _accuracy(each), gain, worth, confused_text(each, 2))
        verdict = Text(verdict_text(each), style=_STYLE[each.verdict.word])
        table.add_row(Text(each.symmetry), verdict, *(Text(text) for text in texts))
    parts: list[RenderableType] = [heading(discovery.sentence), Text(about, style="dim"), "", table]
    if reasons:
        for each in discovery.findings:
            parts += ["", heading(f"{each.symmetry}: {verdict_text(each)}")]
            parts += [Text(f"- {reason}") for reason in each.verdict.reasons[:-1] or each.verdict.reasons]
    rules = {each.verdict.reasons[-1] for each in discovery.findings if each.verdict.p_value is not None}
    parts += ["", *(Text(rule, style="dim") for rule in sorted(rules))] if reasons else []
    parts += [Text(f"note: {note}", style="yellow") for note in discovery.notes]
    if discovery.left_out:
        parts.append(Text(f"{len(discovery.left_out)} runs did not fit into the budget", style="yellow"))
    return Group(*parts)


@checked
def discovery_text(discovery: Discovery) -> str:
    """The table as plain text; ``print(discovery)`` shows it."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=wide_console().width)
    with console.capture() as capture:
        console.print(discovery_table(discovery))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip()


def _accuracy(finding: Finding) -> str:
    chosen = finding.verdict.strictness or "invariant"
    return f"{100 * finding.accuracy[chosen]:.1f} %" if chosen in finding.accuracy else ""
