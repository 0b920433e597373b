"""Settings that a sweep varies, and their notation on the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..._checked import checked
from ..._untrusted import parse_json
from ...errors import InputError

if TYPE_CHECKING:
    import optuna


@checked
@dataclass(frozen=True)
class Parameter:
    """A setting that a sweep varies: a range or a list of choices.

    Attributes:
        name: the setting.
        low: smallest value of a range.
        high: largest value of a range.
        log: whether to draw uniformly in the logarithm.
        whole: whether values are integers.
        choices: the values of a list.
    """

    name: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    choices: tuple[Any, ...] = ()

    def suggest(self, trial: optuna.Trial) -> Any:
        """The value of this setting in a trial."""
        if self.choices:
            return trial.suggest_categorical(self.name, list(self.choices))
        if self.whole:
            return trial.suggest_int(self.name, round(self.low), round(self.high), log=self.log)
        return trial.suggest_float(self.name, self.low, self.high, log=self.log)


@checked
def parse_parameter(text: str) -> Parameter:
    """Read ``lr=1e-4..1e-1:log``, ``rank=1..8`` or ``network=mlp,lenet5``.

    >>> parse_parameter("lr=1e-4..1e-1:log")
    Parameter(name='lr', low=0.0001, high=0.1, log=True, whole=False, choices=())
    """
    name, equals, values = text.partition("=")
    number = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
    match = re.fullmatch(rf"({number})\.\.({number})(:log)?", values.strip(), re.IGNORECASE)
    if equals and name and match:
        low, high = float(match[1]), float(match[2])
        whole = all(re.fullmatch(r"[-+]?\d+", match[k]) for k in (1, 2))
        if low < high and (low > 0 or not match[3]):
            return Parameter(name, low, high, log=bool(match[3]), whole=whole)
    elif equals and name and values.strip():
        return Parameter(name, choices=tuple(_value(part.strip()) for part in values.split(",")))
    raise InputError(
        "--param",
        expected="NAME=LOW..HIGH, NAME=LOW..HIGH:log with LOW > 0, or NAME=A,B,C",
        got=repr(text),
        fix="For example lr=1e-4..1e-1:log, rank=1..8, network=mlp,lenet5.",
    )


def _value(text: str) -> Any:
    try:
        return parse_json(text, caller="--param")
    except InputError:
        return text
