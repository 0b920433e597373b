"""The samples of a study: tensors and labels, checked, with folds to hold out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, adaptive_avg_pool3d

from .._checked import checked, describe
from .._digest import content_digest
from ..data import ImageData, Split, load
from ..errors import InputError

FOLDS = 4
MIN_SAMPLES = 40
MIN_PER_CLASS = 2 * FOLDS
_CALLER = "discover"

Data: TypeAlias = str | Path | ImageData | Split | Tensor | tuple[Tensor, Tensor]
"""A dataset by name or path, or loaded, or tensors: samples, or samples and labels."""


@checked
@dataclass(frozen=True, eq=False)
class Samples:
    """Samples with labels.

    Attributes:
        x: float32, ``(n, ...)``.
        labels: int64, ``(n,)``, from 0; None if there are none.
        classes: the names of the classes.
        name: the name of the data.
        notes: what was done to the data.
        source: the name or path of the dataset; empty for tensors.
        load_options: further arguments of :func:`intertwine.data.load`.
    """

    x: Tensor
    labels: Tensor | None
    classes: tuple[str, ...]
    name: str
    notes: tuple[str, ...] = ()
    source: str = ""
    load_options: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.x.shape[1:])

    @cached_property
    def digest(self) -> str:
        """A digest of samples and labels."""
        return content_digest("samples", self.x, self.labels if self.labels is not None else "no labels")

    @cached_property
    def _order(self) -> tuple[Tensor, Tensor]:
        """A random order of the samples, and for each sample its number within its class in this order."""
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(0))
        kind = torch.zeros(len(self), dtype=torch.int64) if self.labels is None else self.labels
        rank = torch.empty(len(self), dtype=torch.int64)
        for each in kind.unique().tolist():
            members = order[kind[order] == each]
            rank[members] = torch.arange(len(members))
        return order, rank

    @checked
    def held_out(self, fold: int) -> Tensor:
        """The indices of a quarter of every class; folds 0 to 3 are disjoint."""
        return (self._order[1] % FOLDS == fold % FOLDS).nonzero()[:, 0]

    @checked
    def training(self, fold: int, share: float = 1.0) -> Tensor:
        """The indices of all other samples, or of a share of every class of them; at least one per class."""
        rank = self._order[1]
        others = (rank % FOLDS != fold % FOLDS).nonzero()[:, 0]
        if share == 1:
            return others
        kind = torch.zeros(len(self), dtype=torch.int64) if self.labels is None else self.labels
        kept = []
        for each in kind.unique().tolist():
            members = others[kind[others] == each]
            members = members[rank[members].argsort()]
            kept.append(members[: max(1, round(share * len(members)))])
        return torch.cat(kept).sort().values


@checked
def prepare(
    data: Data,
    labels: Tensor | None = None,
    *,
    max_samples: int = 10_000,
    name: str = "",
    use_labels: bool = True,
    load_options: Mapping[str, Any] | None = None,
) -> Samples:
    """Load and check data. Raises an error that says what is wrong with it.

    >>> samples = prepare("digits", max_samples=400)
    >>> len(samples), samples.shape, len(samples.held_out(0))
    (400, (1, 8, 8), 102)
    """
    options = dict(load_options or {})
    x, y, classes, own_name = _tensors(data, labels, options)
    if not use_labels:
        y, classes = None, ()
    notes: list[str] = []
    if x.ndim > 1 and len(x) > max_samples:
        notes.append(f"{max_samples} of {len(x)} samples are used")
        chosen = _proportional(y if y is not None and y.shape == x.shape[:1] else torch.zeros(len(x)), max_samples)
        x, y = x[chosen], None if y is None else y[chosen]
    _require_samples(x)
    if y is not None:
        y, classes = _require_labels(x, y, classes)
    x = x.float()
    if x.ndim in (4, 5):
        x, shrunk = _shrunk(x)
        notes += shrunk
    source = str(data) if isinstance(data, str | Path) else ""
    return Samples(x.contiguous(), y, classes, name or own_name, tuple(notes), source, options)


def _proportional(labels: Tensor, count: int) -> Tensor:
    """The indices of ``count`` random samples, with classes as frequent as among all."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    place = torch.empty(len(labels), dtype=torch.float64)
    for each in labels.unique():
        members = order[labels[order] == each]
        place[members] = (torch.arange(len(members)) + 0.5).double() / len(members)
    return order[place[order].argsort(stable=True)[:count]].sort().values


def _tensors(
    data: Data, labels: Tensor | None, load_options: dict[str, Any]
) -> tuple[Tensor, Tensor | None, tuple[str, ...], str]:
    if isinstance(data, str | Path):
        data = load(data, **load_options)
    elif load_options:
        got = f"{', '.join(load_options)}, and data that is loaded already"
        raise InputError(_CALLER, expected="load options with the name or path of a dataset", got=got)
    name = "tensors"
    if isinstance(data, ImageData):
        name, data = data.name, data.train
    if isinstance(data, Split):
        x, y = data.as_tensors()
        return x, y if labels is None else labels, data.classes, name
    if isinstance(data, Tensor):
        return data, labels, (), name
    if len(data) != 2:
        raise InputError(_CALLER, expected="samples and labels", got=f"{len(data)} values")
    return data[0], data[1] if labels is None else labels, (), name


def _require_samples(x: Tensor) -> None:
    if x.ndim < 2 or x.is_complex():
        raise InputError(_CALLER, expected="a batch of samples (n, channels, ...)", got=describe(x))
    if len(x) < MIN_SAMPLES:
        raise InputError(
            _CALLER,
            expected=f"at least {MIN_SAMPLES} samples",
            got=str(len(x)),
            fix="Fewer cannot tell a symmetry from chance.",
        )
    if not bool(torch.isfinite(x).all()):
        raise InputError(_CALLER, expected="finite numbers", got="NaN or infinities")
    if bool((x.flatten(1).amax(1) == x.flatten(1).amin(1)).all()):
        raise InputError(
            _CALLER,
            expected="samples with contents",
            got=f"{len(x)} constant samples: all values of a sample are equal",
            fix="Check how the images were read.",
        )


def _require_labels(x: Tensor, y: Tensor, classes: Sequence[str]) -> tuple[Tensor, tuple[str, ...]]:
    if y.ndim != 1 or len(y) != len(x) or y.is_floating_point() or y.is_complex():
        raise InputError(
            _CALLER,
            expected=f"one whole number per sample as label, ({len(x)},)",
            got=describe(y),
            fix="Without labels, only the question whether moved samples look alike is answered.",
        )
    values, y = y.long().unique(return_inverse=True)
    if len(values) < 2:
        raise InputError(
            _CALLER,
            expected="at least two classes",
            got=f"one: every label is {int(values[0])}",
            fix="Pass the samples without labels (--no-labels) to ask only whether moved samples look alike.",
        )
    names = [classes[v] if v < len(classes) else str(v) for v in values.tolist()]
    counts = y.bincount()
    rarest = int(counts.argmin())
    if int(counts[rarest]) < MIN_PER_CLASS:
        raise InputError(
            _CALLER,
            expected=f"at least {MIN_PER_CLASS} samples of every class",
            got=f"{int(counts[rarest])} of class {names[rarest]}",
            fix="Add samples, or leave out rare classes.",
        )
    return y, tuple(names)


_LARGEST = 16


def _shrunk(x: Tensor) -> tuple[Tensor, list[str]]:
    """At most 16 pixels or voxels per side and a multiple of 4, so that pooling commutes with flips and turns.

    Differences between networks show at this size, and training is ten times as fast as at 32 pixels.
    """
    kind, pool = ("images", adaptive_avg_pool2d) if x.ndim == 4 else ("volumes", adaptive_avg_pool3d)
    before = tuple(x.shape[2:])
    after = tuple(n if n <= 8 else min(_LARGEST, n - n % 4) for n in before)
    if after == before:
        return x, []
    note = f"{kind} are shrunk from {' x '.join(map(str, before))} to {' x '.join(map(str, after))}"
    return pool(x, after), [note]  # type: ignore[arg-type]


def epochs_for(count: int) -> int:
    """Passes over the training images: about 20,000 images in all, at least 10 passes and at most 60."""
    return max(10, min(60, math.ceil(20_000 / max(count, 1))))
