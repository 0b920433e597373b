"""What an audit finds: rows of numbers, and notes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ..._checked import checked
from ...errors import InputError
from .._estimate import Estimate
from ..metrics._metric import METRICS


@checked
@dataclass(frozen=True)
class Reading:
    """One number of an audit.

    Attributes:
        metric: a name in ``METRICS``.
        symmetry: what was transformed; may be empty.
        layer: which layer; empty for the whole network.
        value: the number.
        low: lower end of its interval, where there is one.
        high: upper end.
        floor: what interpolation alone gives, where something is resampled.
        n: how many samples.
        kind: what the layer is.
        shape: of the layer's output, as text.
    """

    metric: str
    symmetry: str
    value: float
    layer: str = ""
    low: float | None = None
    high: float | None = None
    floor: float | None = None
    n: int | None = None
    kind: str = ""
    shape: str = ""

    @staticmethod
    def of(
        estimate: Estimate, *, layer: str = "", kind: str = "", shape: str = "", symmetry: str | None = None
    ) -> Reading:
        """From an estimate."""
        low, high = estimate.interval if estimate.n > 1 else (None, None)  # one image says nothing about others
        floor = None if estimate.floor is None else estimate.floor.mean
        name = estimate.of if symmetry is None else symmetry
        return Reading(estimate.metric, name, estimate.mean, layer, low, high, floor, estimate.n, kind, shape)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; what is not there is left out."""
        return {key: value for key, value in asdict(self).items() if value not in (None, "")}


@checked
@dataclass(frozen=True)
class Note:
    """Something to know about the network or about the measurement.

    Attributes:
        about: layer or step.
        text: a sentence.
        level: ``warning`` for what the reader should act on.
    """

    about: str
    text: str
    level: str = "info"


@checked
@dataclass(frozen=True)
class Gate:
    """A bound that an audit must keep, such as ``invariance=0.1``.

    >>> Gate.parse("invariance=0.1")
    Gate(metric='invariance_error', bound=0.1)
    """

    metric: str
    bound: float

    @staticmethod
    def parse(text: str) -> Gate:
        """``METRIC=BOUND``; the beginning of a metric's name will do if it is only one's."""
        name, _, bound = text.partition("=")
        try:
            number = float(bound)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise InputError(
                "gate", expected="METRIC=BOUND, such as invariance=0.1", got=repr(text), fix="Give a number."
            )
        return Gate(metric_named(name.strip()), number)

    def judge(self, readings: Iterable[Reading]) -> list[tuple[Reading, bool]]:
        """The readings of the whole network that it is about, and whether each keeps the bound."""
        lower = METRICS[self.metric].better == "lower"
        matching = [reading for reading in readings if reading.metric == self.metric and not reading.layer]
        return [(r, r.value <= self.bound if lower else r.value >= self.bound) for r in matching]


def metric_named(name: str) -> str:
    """The metric of this name, or the only one that begins so."""
    if name in set(METRICS):
        return name
    fitting = [metric for metric in METRICS if metric.startswith(name)] if name else []
    if len(fitting) != 1:
        raise InputError(
            "metric",
            expected=f"one of {', '.join(METRICS)}, or the beginning of one",
            got=repr(name) + (f", which fits {', '.join(fitting)}" if fitting else ""),
            fix="Write more of it.",
        )
    return fitting[0]
