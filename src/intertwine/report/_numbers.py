"""Numbers formatted for people: no more digits than they deserve, a real minus sign, units of time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from itertools import pairwise

_MAX_PLACES = 6
_MAX_PLAIN = 1e9


def number(value: float, places: int, *, signed: bool = False) -> str:
    """The value with this many decimals.

    >>> number(61706, 0), number(-0.1234, 2), number(3e-9, 2), number(1.34e-6, 6)
    ('61,706', '−0.12', '3.0e−09', '1.3e−06')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    sign = "+" if signed and value != 0 else ""
    rounded = round(value, places)
    tiny = 10.0**-_MAX_PLACES
    hidden = rounded == 0 and abs(value) < tiny
    short = places >= _MAX_PLACES and abs(value) < 10 * tiny  # only one digit would be left
    plain = value == 0 or (not hidden and not short and abs(value) < _MAX_PLAIN)
    # + 0.0 turns -0.0 into 0.0
    text = f"{rounded + 0.0:{sign},.{places}f}" if plain else f"{value:{sign}.1e}"
    return text.replace("-", "−")


def significant(value: float | None) -> str:
    """Three significant digits, with a real minus sign; an empty text for None.

    >>> significant(0.12345), significant(3.2e-7), significant(1.0), significant(None)
    ('0.123', '3.2e−07', '1', '')
    """
    if value is None:
        return ""
    return "NaN" if math.isnan(value) else f"{value:.3g}".replace("-", "−")


def written_places(values: Iterable[float]) -> int:
    """The number of decimals needed to write these numbers as given.

    >>> written_places([12.0, 4.7, 0.95])
    2
    """
    return max((_written(value) for value in values if math.isfinite(value)), default=0)


def _written(value: float) -> int:
    exponent = Decimal(repr(float(value))).normalize().as_tuple().exponent
    needed = -exponent if isinstance(exponent, int) else 0
    # No paper prints more than six digits: the rest comes from a division.
    return max(0, min(needed, _MAX_PLACES, max(5 - _exponent(abs(value)), 1)))


def measured_places(values: Iterable[float], spreads: Iterable[float], published: int | None) -> int:
    """The number of decimals for a measured mean: two digits of the typical spread, or four of the largest value.

    Args:
        values: the measured values.
        spreads: their standard deviations.
        published: decimals of a typical published number; ours have as many, or one more.
    """
    numbers = [abs(v) for v in values if math.isfinite(v)]
    if not numbers or all(v == int(v) for v in numbers):
        return published or 0
    known = sorted(s for s in spreads if math.isfinite(s) and s > 0)
    places = 1 - _exponent(known[len(known) // 2]) if known else 3 - _exponent(max(numbers))
    places = min(max(places, 0), _MAX_PLACES)
    return places if published is None else min(max(places, published), published + 1)


def duration(seconds: float) -> str:
    """A time in its two largest units.

    >>> [duration(s) for s in (0.042, 7.3, 95, 4000, 200_000)]
    ['42 ms', '7.3 s', '1 min 35 s', '1 h 7 min', '2 d 8 h']
    """
    if not math.isfinite(seconds):
        return "–"
    if seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    units = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    for (large, size), (small, part) in pairwise(units):
        if round(seconds / part) * part >= size:
            whole, rest = divmod(round(seconds / part), size // part)
            return f"{whole} {large} {rest} {small}" if rest else f"{whole} {large}"
    return f"{seconds:.0f} s"


def percent(share: float) -> str:
    """A probability as a percentage, never exactly 0% or 100%.

    >>> [percent(p) for p in (0.5, 0.987, 0.99996, 1.0, 0.0)]
    ['50%', '98.7%', '>99.9%', '>99.9%', '<0.1%']
    """
    if share > 0.999:
        return ">99.9%"
    if share < 0.001:
        return "<0.1%"
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def count(amount: int, thing: str) -> str:
    """An amount of something: ``1 run``, ``2 runs``."""
    return f"{amount} {thing}{'s' * (amount != 1)}"


def _exponent(value: float) -> int:
    return math.floor(math.log10(value)) if value > 0 else 0
