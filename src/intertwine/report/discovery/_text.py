"""Numbers of a discovery as text."""

from __future__ import annotations

from ...discovery import Finding


def verdict_text(finding: Finding) -> str:
    """``impose (local)``, ``leave``, ``can't tell``."""
    verdict = finding.verdict
    return f"{verdict.word} ({verdict.strictness})" if verdict.word == "impose" else verdict.word


def auc_text(finding: Finding) -> str:
    """The AUC and its null interval."""
    if finding.auc is None:
        return ""
    low, high = finding.auc.null
    return f"{finding.auc.value:.2f} (chance {low:.2f}–{high:.2f})"


def gain_text(finding: Finding) -> str:
    """The difference to the free network, in points, with its interval."""
    if finding.gain is None:
        return ""
    low, high = finding.gain.interval
    return f"{_points(finding.gain.mean)} [{_points(low)}, {_points(high)}]"


def worth_text(finding: Finding) -> str:
    """``2.8× [2.1, 3.5]``."""
    if finding.worth is None:
        return ""
    low, high = finding.worth.interval
    return f"{_factor(finding.worth.factor)}× [{_factor(low)}, {_factor(high)}]"


def confused_text(finding: Finding) -> str:
    """``6 and 9 (+12 %)``."""
    return ", ".join(f"{pair.first} and {pair.second} (+{pair.excess:.0f} %)" for pair in finding.confused[:2])


def _points(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "−")


def _factor(value: float) -> str:
    return f"{value:.1f}" if value >= 0.95 else f"{value:.2g}"
