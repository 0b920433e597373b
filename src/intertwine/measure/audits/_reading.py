"""The results of an audit: readings, notes and gates."""

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
        metric: the name of a metric in ``METRICS``.
        symmetry: the name of the symmetry; may be empty.
        value: the number.
        layer: the name of the layer; empty for the whole network.
        low: the lower end of the 95 % interval, if there is one.
        high: its upper end.
        floor: what interpolation alone contributes, if something is resampled.
        n: the number of samples.
        kind: the kind of layer.
        shape: the shape of the layer's output, as text.
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
        """Make a reading from an estimate."""
        low, high = estimate.interval if estimate.n > 1 else (None, None)  # a single image has no interval
        floor = None if estimate.floor is None else estimate.floor.mean
        name = estimate.of if symmetry is None else symmetry
        return Reading(estimate.metric, name, estimate.mean, layer, low, high, floor, estimate.n, kind, shape)

    def to_dict(self) -> dict[str, Any]:
        """The fields that are set, for JSON."""
        return {key: value for key, value in asdict(self).items() if value not in (None, "")}


CAUSE = "cause"


@checked
@dataclass(frozen=True)
class Note:
    """A remark about the network or about the measurement.

    Attributes:
        about: the layer or step; for a cause, the symmetry.
        text: a sentence.
        level: ``warning`` if the reader should act on it, ``cause`` if it says why the network is not symmetric, else
            ``info``.

    >>> Note("network", "looks at the output scores")
    Note(about='network', text='looks at the output scores', level='info')
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
        """Parse ``METRIC=BOUND``; a unique prefix of the metric's name is enough."""
        name, _, bound = text.partition("=")
        try:
            number = float(bound)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise InputError("gate", expected="METRIC=BOUND, such as invariance=0.1", got=repr(text))
        return Gate(metric_named(name.strip()), number)

    def judge(self, readings: Iterable[Reading]) -> list[tuple[Reading, bool]]:
        """The readings of the whole network that the gate applies to, and whether each keeps the bound."""
        lower = METRICS[self.metric].better == "lower"
        matching = [reading for reading in readings if reading.metric == self.metric and not reading.layer]
        return [(r, r.value <= self.bound if lower else r.value >= self.bound) for r in matching]


def metric_named(name: str) -> str:
    """The metric with this name, or the only one that starts with it."""
    if name in set(METRICS):
        return name
    fitting = [metric for metric in METRICS if metric.startswith(name)] if name else []
    if len(fitting) != 1:
        raise InputError(
            "metric",
            expected=f"one of {', '.join(METRICS)}, or a unique prefix",
            got=repr(name) + (f", which fits {', '.join(fitting)}" if fitting else ""),
        )
    return fitting[0]
