"""Figures of an experiment as plain values: what is drawn, never how; ``report`` draws them.

An experiment gives them by ``Experiment.figures``, from its finished runs. What a run wants to show and no metric can
hold (a filter, a map, a reconstructed image) it keeps beside its record with :func:`save_arrays`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from ..._checked import checked
from ..._files import replace_file
from ..._untrusted import read_tensors
from ..._warn import warn_caller
from ...errors import InputError
from ...train import RecordWarning

ARRAYS = "arrays.safetensors"


@checked
@dataclass(frozen=True)
class Series:
    """One line of a plot.

    Attributes:
        title: what the key says.
        points: x, and what each seed found there; the mean is drawn, with a band from the least to the greatest.
        published: numbers of the paper, drawn as such.
        joined: whether the points are joined by a line.
    """

    title: str
    points: Sequence[tuple[float, Sequence[float]]]
    published: bool = False
    joined: bool = True


@checked
@dataclass(frozen=True)
class Plot:
    """One quantity against another.

    Attributes:
        title: what it shows.
        x: label of the horizontal axis, with its unit.
        y: label of the vertical axis, with its unit.
        series: its lines.
        caption: how to read it, in a sentence or two.
        x_scale: ``log`` for quantities that are compared by ratios.
    """

    title: str
    x: str
    y: str
    series: Sequence[Series]
    caption: str = ""
    x_scale: Literal["linear", "log"] = "linear"


@checked
@dataclass(frozen=True)
class Panel:
    """One image: numbers ``(height, width)``, or colors ``(3, height, width)`` in [0, 1].

    Attributes:
        values: the image.
        title: what stands above it; may be empty.
        quiet: drawn as held out: greyed.
    """

    values: Tensor
    title: str = ""
    quiet: bool = False


@checked
@dataclass(frozen=True)
class Panels:
    """Images side by side, in rows.

    Attributes:
        title: what they show.
        rows: label of each row, and its images.
        colors: ``diverging`` for signed numbers, zero in the middle; ``amount`` for numbers from zero; ``gray``.
        caption: how to read them.
        shared: whether all images share one range of values; otherwise each has its own, and the caption should say so.
    """

    title: str
    rows: Sequence[tuple[str, Sequence[Panel]]]
    colors: Literal["diverging", "amount", "gray"] = "gray"
    caption: str = ""
    shared: bool = True


@checked
@dataclass(frozen=True)
class Table:
    """Numbers that are no metric of a row.

    Attributes:
        title: what it shows.
        columns: their names, with units.
        rows: texts and numbers.
        caption: how to read it.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | int | None]]
    caption: str = ""


Figure = Plot | Panels | Table


@checked
def save_arrays(folder: Path, arrays: Mapping[str, Tensor]) -> Path:
    """Keep named arrays in a run's folder, with an atomic write."""
    from safetensors.torch import save

    plain = {name: values.detach().to("cpu").contiguous() for name, values in arrays.items()}
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / ARRAYS, save(plain))
    return folder / ARRAYS


@checked
def load_arrays(folder: Path) -> dict[str, Tensor]:
    """What :func:`save_arrays` kept there, by name (``2`` before ``10``); nothing if the run kept nothing.

    >>> load_arrays(Path("no-such-folder"))
    {}
    """
    try:
        arrays = read_tensors(folder / ARRAYS)  # in any order
    except FileNotFoundError:
        return {}
    except InputError as error:  # the runs beside it still make their figures
        warn_caller(f"{folder / ARRAYS}: left out: {error.got}", RecordWarning)
        return {}
    return {name: arrays[name] for name in sorted(arrays, key=_numbers_apart)}


def _numbers_apart(name: str) -> list[str | int]:
    """Words and numbers in turn, so that names sort as people count."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
