"""Numbers of a discovery as text."""

from __future__ import annotations

from ...discovery import Finding

_LEAST_WORTH = 0.1  # less is beyond the measured part of the learning curves


def verdict_text(finding: Finding) -> str:
    """``impose (local)``, ``leave``, ``can't tell``."""
    verdict = finding.verdict
    return f"{verdict.word} ({verdict.strictness})" if verdict.word == "impose" else verdict.word


def auc_text(finding: Finding) -> tuple[str, str]:
    """The AUC, and what chance gives."""
    if finding.auc is None:
        return "", ""
    low, high = finding.auc.null
    return f"{finding.auc.value:.2f}", f"chance {low:.2f}–{high:.2f}"


def gain_text(finding: Finding) -> tuple[str, str]:
    """The difference to the free network, in points, and its interval."""
    if finding.gain is None:
        return "", ""
    low, high = finding.gain.interval
    return _points(finding.gain.mean), f"{_points(low)} to {_points(high)}"


def worth_text(finding: Finding) -> tuple[str, str]:
    """``2.8×``, and its interval ``2.1 to 3.5``."""
    if finding.worth is None:
        return "", ""
    low, high = finding.worth.interval
    if high < _LEAST_WORTH:
        return f"under {_LEAST_WORTH:g}×", ""
    return f"{_factor(finding.worth.factor)}×", f"{_factor(low)} to {_factor(high)}"


def confused_text(finding: Finding, count: int) -> str:
    """The worst pairs: ``6 and 9 (+12 %)``."""
    return ", ".join(f"{pair.first} and {pair.second} (+{pair.excess:.0f} %)" for pair in finding.confused[:count])


def together(texts: tuple[str, str]) -> str:
    """A number with its remark in brackets."""
    return f"{texts[0]} [{texts[1]}]" if texts[1] else texts[0]


def _points(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "−")


def _factor(value: float) -> str:
    return f"{value:.1f}" if value >= 0.95 else f"{value:.2g}"
