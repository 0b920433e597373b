"""The verdict on a candidate: impose, relax, leave or can't tell, with reasons in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from .._checked import checked
from ._evidence import Evidence
from ._networks import Strictness
from ._paired import Difference

Word: TypeAlias = Literal["impose", "relax", "leave", "can't tell"]

LEVEL = 0.05
"""The share of wrong verdicts that the tests allow, over all candidates together (Holm)."""

_MARGIN = 0.05
"""A loss that matters, as a share of the lead over guessing."""

_LEAST_MARGIN = 0.02

_AUGMENTED = (
    "What has no exact layers is imposed by training on transformed samples and averaging predictions over transformed "
    "copies."
)

RULE = (
    "Networks that another one beats with all data are out. Of the others, the strictest within one standard error of "
    "the best wins; accuracies are averaged over the learning curve and paired over samples and seeds. Imposing needs "
    "proof that less than 5 % of the lead over guessing is lost (or 2 points, if that is more), and leaving needs "
    "proof of a loss, at a level of 5 % over all candidates (Holm)."
)


@checked
@dataclass(frozen=True)
class Verdict:
    """What to do about a candidate.

    Attributes:
        word: ``impose``, ``relax``, ``leave`` or ``can't tell``.
        strictness: the network that won; None if nothing can be said.
        p_value: of the test that the verdict rests on, corrected for the number of candidates.
        reasons: the rule, the numbers, and what would change the verdict.
        images_needed: with ``can't tell``, a rough estimate of how many samples would decide; None if unknown.
    """

    word: Word
    strictness: Strictness | None
    p_value: float | None
    reasons: tuple[str, ...]
    images_needed: int | None = None


@dataclass(frozen=True)
class _Trial:
    """The winner of one candidate before correction: what it claims, and how sure the claim is."""

    word: Word
    winner: Strictness
    p_value: float
    test: Difference
    effect: float
    claim: str
    margin: float
    otherwise: _Trial | None = None
    """What to claim if this claim cannot be shown."""


@checked
def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the smallest p-value is multiplied by their number, the next by one less, and so on.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected = [1.0] * len(p_values)
    running = 0.0
    for position, index in enumerate(order):
        running = max(running, min(1.0, p_values[index] * (len(p_values) - position)))
        corrected[index] = running
    return corrected


@checked
def judge(evidence: Sequence[Evidence]) -> list[Verdict]:
    """A verdict for each candidate."""
    trials = [_trial(each) for each in evidence]
    tested = [k for k, trial in enumerate(trials) if isinstance(trial, _Trial)]
    trials = [_shown(trial, LEVEL / len(tested)) if isinstance(trial, _Trial) else trial for trial in trials]
    corrected = dict(zip(tested, holm([_p(trials[k]) for k in tested]), strict=True))
    return [
        _verdict(each, trial, corrected[k]) if isinstance(trial, _Trial) else trial
        for k, (each, trial) in enumerate(zip(evidence, trials, strict=True))
    ]


def _shown(trial: _Trial, level: float) -> _Trial:
    """The claim, or the one behind it if only that one can be shown; two claims were tested then."""
    other = trial.otherwise
    if trial.p_value <= level or other is None or min(1.0, 2 * other.p_value) > level:
        return trial
    return replace(other, p_value=2 * other.p_value)


def _p(trial: _Trial | Verdict) -> float:
    return trial.p_value or 0.0


def _trial(evidence: Evidence) -> _Trial | Verdict:
    if not evidence.curves:
        return Verdict(
            "can't tell", None, None, (_alike(evidence), "Without labels, nothing can be said about what they do.")
        )
    if len(evidence.networks) < 2:
        return Verdict("can't tell", None, None, (_alike(evidence), "The budget did not allow to compare networks."))
    lead = evidence.over_guessing()
    if lead.p_above(0.0) > LEVEL / 2:
        reasons = (
            f"No network learned to classify: with all data the best is right for {_percent(_best(evidence))}, and "
            f"guessing the most frequent class would be right for {_percent(_best(evidence) - lead.mean)}.",
            _alike(evidence),
            "Labels that depend on the samples, or many more of them, would change this.",
        )
        return Verdict("can't tell", None, lead.p_above(0.0), tuple(filter(None, reasons)))
    margin = max(_LEAST_MARGIN, _MARGIN * lead.mean)
    winner, best = _winner(evidence)
    if winner == "invariant":
        return _imposition(evidence, winner, best, margin)
    if winner == "local":
        return replace(_imposition(evidence, winner, best, margin), otherwise=_refutation(evidence, "free", margin))
    refuted = _refutation(evidence, winner, margin)
    # A loss that cannot be shown may be too small to matter, which can be shown too.
    harmless = _imposition(evidence, "invariant", winner, margin) if "invariant" in _unbeaten(evidence) else None
    return replace(refuted, otherwise=harmless)


def _winner(evidence: Evidence) -> tuple[Strictness, Strictness]:
    """The strictest network within one standard error of the best, and the best, of those that nobody beats."""
    able = _unbeaten(evidence)
    scores = {each: evidence.gain(each).mean if each != "free" else 0.0 for each in able}
    best = max(able, key=scores.__getitem__)
    for each in able:
        if each == best:
            break
        loss = evidence.gain(best, each)
        if loss.mean <= loss.error:
            return each, best
    return best, best


def _unbeaten(evidence: Evidence) -> list[Strictness]:
    """The networks that no other network is proven to beat when both have all data.

    What a network must not ignore shows with much data, while few samples reward any constraint. So a mean over the
    learning curve can hide that the labels break the symmetry.
    """
    level = LEVEL / (len(evidence.networks) - 1)
    return [
        each
        for each in evidence.networks
        if all(
            evidence.gain(other, each, full=True).p_above(0.0) > level for other in evidence.networks if other != each
        )
    ]


@checked
def is_contested(evidence: Evidence, verdict: Verdict) -> bool:
    """Whether a network that is to be imposed is more than one standard error behind another one with all data."""
    if verdict.word != "impose" or verdict.strictness is None:
        return False
    losses = [
        evidence.gain(other, verdict.strictness, full=True)
        for other in evidence.networks
        if other != verdict.strictness
    ]
    return any(loss.mean > loss.error for loss in losses)


def _imposition(evidence: Evidence, winner: Strictness, best: Strictness, margin: float) -> _Trial:
    """The claim that a network loses nothing that matters."""
    rival: Strictness = best if best != winner else "free"
    test = evidence.gain(winner, rival)
    claim = f"the {winner} network is better than the {rival} one, or less than {_points(margin)} worse"
    return _Trial("impose", winner, test.p_above(-margin), test, margin + test.mean, claim, margin)


def _refutation(evidence: Evidence, winner: Strictness, margin: float) -> _Trial:
    """The claim that invariance costs accuracy, over the learning curve or with all data.

    The winner was chosen among several, and there are two comparisons, which counts as several tests.
    """
    tests = {where: evidence.gain(winner, "invariant", full=bool(where)) for where in ("", " with all data")}
    where, test = min(tests.items(), key=lambda item: item[1].p_above(0.0))
    count = len(tests) * (len(evidence.networks) - 1)
    claim = f"the invariant network is worse than the {winner} one{where}"
    word: Word = "relax" if winner == "relaxed" else "leave"
    return _Trial(word, winner, min(1.0, count * test.p_above(0.0)), test, test.mean, claim, margin)


def _verdict(evidence: Evidence, trial: _Trial, p_value: float) -> Verdict:
    numbers = _numbers(evidence)
    if p_value <= LEVEL:
        changes = _what_would_change(evidence, trial)
        reasons = (f"Shown: {trial.claim} (p = {p_value:.2g}).", numbers, _alike(evidence), changes, RULE)
        return Verdict(trial.word, trial.winner, p_value, tuple(filter(None, reasons)))
    needed = _images_needed(evidence, trial)
    reasons = (
        f"Not shown: that {trial.claim} (p = {p_value:.2g}).",
        numbers,
        _alike(evidence),
        f"About {needed:,} samples would decide, if the difference stays as it is.",
        RULE,
    )
    return Verdict("can't tell", None, p_value, tuple(filter(None, reasons)), needed)


def _images_needed(evidence: Evidence, trial: _Trial) -> int:
    """The standard error falls with the root of the number of samples until the effect stands out."""
    effect = trial.effect if trial.effect > trial.margin / 2 else trial.margin / 2
    factor = (trial.test.quantile(1 - LEVEL / 2) * trial.test.error / effect) ** 2
    count = max(1.1, factor) * evidence.samples
    digits = 10 ** max(0, math.floor(math.log10(count)) - 1)
    return math.ceil(count / digits) * digits


def _numbers(evidence: Evidence) -> str:
    parts = [f"{each} {_percent(evidence.accuracy(each))}" for each in evidence.networks]
    gains = [
        f"{each} {_signed(evidence.gain(each).mean)} ± {_points(evidence.gain(each).error)}"
        for each in evidence.networks
        if each != "free"
    ]
    how = "" if evidence.exact else f" {_AUGMENTED}"
    return (
        f"Accuracy with all data: {', '.join(parts)}. Averaged over the learning curve, against the free network: "
        f"{', '.join(gains)}.{how}"
    )


def _what_would_change(evidence: Evidence, trial: _Trial) -> str:
    if trial.word == "impose":
        return (
            f"A loss of {_points(trial.margin)} or more over the learning curve, or any proven loss with all data, "
            "would change this verdict."
        )
    return (
        f"It would change if the invariant network came within one standard error ({_points(trial.test.error)}) of the "
        f"{trial.winner} one; it is {_points(trial.test.mean)} behind."
    )


def _alike(evidence: Evidence) -> str:
    auc = evidence.auc
    if auc is None:
        return ""
    low, high = auc.null
    floor = "" if auc.floor is None else f" Resampling alone gives {auc.floor:.2f}."
    if auc.p_value <= LEVEL:
        return (
            f"Moved samples look different: a network tells them from others with an AUC of {auc.value:.2f} "
            f"(chance: {low:.2f} to {high:.2f}, p = {auc.p_value:.2g}).{floor}"
        )
    return (
        f"Moved samples look alike: a network tells them from others with an AUC of {auc.value:.2f}, as by chance "
        f"({low:.2f} to {high:.2f}).{floor}"
    )


def _best(evidence: Evidence) -> float:
    return max(evidence.accuracy(each) for each in evidence.networks)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


def _signed(share: float) -> str:
    return f"{100 * share:+.1f} points".replace("-", "−")
