"""The verdict of an audit: is the network symmetric, why not, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..._checked import checked
from ._reading import CAUSE, Note, Reading

State = Literal["symmetric", "nearly symmetric", "not symmetric", "hidden by resampling"]

EXACT = 1e-4
"""A relative error up to this is rounding."""

_FEW_ANSWERS = 0.01
_SMALL_ERROR = 0.05
_NAMES = {"hflip": "the left-right mirror", "vflip": "the up-down mirror", "flips": "both mirrors"}


@checked
@dataclass(frozen=True)
class Verdict:
    """What an audit says about one symmetry. As text: a finding, its causes, and what to do.

    Attributes:
        symmetry: the name of the symmetry.
        state: ``symmetric``, ``nearly symmetric``, ``not symmetric``, or ``hidden by resampling`` if the error is no
            larger than what resampling the images causes.
        finding: a sentence with the number that decides.
        causes: what breaks the symmetry; empty if nothing does, or if the network cannot be looked into.
        advice: what to do, and what it gives.

    >>> print(Verdict("hflip", "not symmetric", "7 % of the answers change.", ("a stride",), ("Average.",)))
    7 % of the answers change. Cause: a stride. Average.
    """

    symmetry: str
    state: State
    finding: str
    causes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def reasons(self) -> str:
        """The causes and the advice as text; empty for a symmetric network."""
        cause = [f"{'Causes' if len(self.causes) > 1 else 'Cause'}: {'; '.join(self.causes)}."] if self.causes else []
        return " ".join([*cause, *self.advice])

    def __str__(self) -> str:
        return f"{self.finding} {self.reasons}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "symmetry": self.symmetry,
            "state": self.state,
            "text": str(self),
            "finding": self.finding,
            "causes": list(self.causes),
            "advice": list(self.advice),
        }


def verdict(symmetry: str, readings: Sequence[Reading], notes: Sequence[Note]) -> Verdict | None:
    """The verdict on one symmetry; None if the output of the whole network was not measured."""
    values = {r.metric: r for r in readings if not r.layer and r.symmetry in (symmetry, "")}
    error = values.get("invariance_error") or values.get("equivariance_error")
    if error is None:
        return None
    state, finding = _finding(_NAMES.get(symmetry, symmetry), error, values.get("agreement"))
    if state in ("symmetric", "hidden by resampling"):
        return Verdict(symmetry, state, finding)
    causes = [note.text for note in notes if note.level == CAUSE and note.about == symmetry]
    residuals = [r.value for r in readings if r.metric == "kernel_residual" and r.symmetry == symmetry]
    if residuals and sum(residuals) > _SMALL_ERROR * len(residuals):
        share = 100 * sum(residuals) / len(residuals)
        causes.append(f"filters differ from their moved and matched partners by {share:.0f} % of their size on average")
    return Verdict(symmetry, state, finding, tuple(causes), tuple(_advice(values)))


def _finding(name: str, error: Reading, agreement: Reading | None) -> tuple[State, str]:
    size = f"{error.value:.2g}" if error.value < 1 else f"{error.value:.2f}"
    does = "change" if error.metric == "invariance_error" else "differ from the moved outputs"
    if error.value <= EXACT:
        return "symmetric", f"Symmetric under {name}: outputs {does} by {size} of their size, which is rounding."
    if error.floor is not None and error.value <= 1.25 * error.floor:
        return (
            "hidden by resampling",
            f"No asymmetry under {name} that can be told from resampling: outputs {does} by {size} of their size, and "
            f"resampling the images alone causes {error.floor:.2g}.",
        )
    if agreement is None:
        state: State = "nearly symmetric" if error.value <= _SMALL_ERROR else "not symmetric"
        return state, f"{state.capitalize()} under {name}: outputs {does} by {size} of their size."
    changed = 1 - agreement.value
    state = "nearly symmetric" if changed < _FEW_ANSWERS else "not symmetric"
    share = f"{100 * changed:.1f} % of the answers change" if changed else "no answer changes"
    return state, f"{state.capitalize()} under {name}: {share}, and outputs change by {size} of their size."


def _advice(values: dict[str, Reading]) -> list[str]:
    advice = []
    gain = values.get("averaging_gain")
    if gain is not None:
        certain = gain.low is not None and gain.high is not None
        interval = f" (95 % interval {_points(gain.low)} to {_points(gain.high)})" if certain else ""
        advice.append(
            f"Averaging the scores over the group at run time would give {_points(gain.value)} points of accuracy"
            f"{interval}, and is symmetric."
        )
    left, accuracy = values.get("symmetrized_invariance_error"), values.get("symmetrized_accuracy")
    if left is not None and left.value <= EXACT:
        result = f"; without tuning its accuracy is then {100 * accuracy.value:.1f} %" if accuracy is not None else ""
        advice.append(f"'intertwine symmetrize' makes the network itself symmetric{result}.")
    return advice


def _points(share: float | None) -> str:
    return f"{round(100 * (share or 0.0), 1) + 0.0:+.1f}".replace("-", "−")  # + 0.0 turns -0.0 into 0.0
