"""Everything that the outputs and the layers show about a symmetry, from one pass over the images and their copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .._batches import Fitting, as_tensor, measuring, require_finite
from .._estimate import Estimate
from .._symmetry import Symmetry
from .._transformation import Transformation, output_transformation, transformations
from ..metrics._invariance import relative_difference, same_class
from ..metrics._layers import LayerErrors, LayerTotals, watch_layers
from ..metrics._metric import define
from ._subject import Subject

define(
    "accuracy",
    "1 if argmax Φ(x) is the label, else 0",
    "",
    "higher",
    "share of images that are classified correctly, without transformation",
)
define(
    "transformed_accuracy",
    "1 if argmax Φ(τx) is the label, else 0; mean over τ ≠ 1",
    "",
    "higher",
    "share of images that are classified correctly after the transformation",
)
define(
    "averaged_accuracy",
    "1 if argmax of the mean of Φ(τx) over all τ is the label, else 0",
    "",
    "higher",
    "accuracy of averaging the scores over the group at run time, which is exactly invariant and costs |G| passes",
)
define(
    "averaging_gain",
    "averaged accuracy minus accuracy, image by image",
    "",
    "higher",
    "what averaging over the group adds to the accuracy",
)


@dataclass
class Columns:
    """Measured values, one row per image, and the errors of the layers.

    Attributes:
        values: metric → one number per image.
        floors: metric → the part of it that resampling causes, for the detail images.
        layers: the errors of every layer, for the detail images.
    """

    values: dict[str, Tensor]
    floors: dict[str, Tensor]
    layers: LayerTotals

    def estimates(self, group: Symmetry) -> list[Estimate]:
        """The means over images, with intervals."""
        return [
            Estimate(
                metric,
                values,
                Estimate(metric, self.floors[metric], of=f"floor of {group.name}") if metric in self.floors else None,
                "" if metric == "accuracy" else group.name,
            )
            for metric, values in self.values.items()
        ]

    def layer_errors(self) -> LayerErrors:
        """The errors of every layer."""
        return self.layers.errors()


@dataclass
class _Gathered:
    """Values of batches in any order, put back into the order of the images."""

    rows: list[Tensor] = field(default_factory=list)
    values: dict[str, list[Tensor]] = field(default_factory=dict)

    def add(self, rows: Tensor, values: dict[str, Tensor]) -> None:
        self.rows.append(rows.cpu())
        for metric, value in values.items():
            self.values.setdefault(metric, []).append(value.double().cpu())

    def sorted(self) -> dict[str, Tensor]:
        if not self.rows:
            return {}
        order = torch.cat(self.rows).argsort()
        return {metric: torch.cat(parts)[order] for metric, parts in self.values.items()}


def measure_whole(subject: Subject, group: Symmetry) -> Columns:
    """All metrics of the outputs and of the layers.

    The network sees every image once as it is and once moved by each element. For the images of ``detail_rows``, all
    copies go through it together, and every layer is watched on the way. Scores that another symmetry has already
    computed are not computed again. If the motion resamples, the detail images pass once more, moved there and back.
    """
    maps = [_STILL, *transformations(group)]
    outputs, keys = subject.outputs, [subject.outputs.motion(t) for t in maps]
    values, floors, layers = _Gathered(), _Gathered(), LayerTotals(group)
    small = max(1, subject.batch_size // group.order)

    with measuring(subject.model) as device:
        fit = Fitting("audit", device)

        def with_layers(x: Tensor, rows: Tensor) -> None:
            batch = watch_layers(subject.model, x, group)
            parts = as_tensor(batch.output, caller="audit").chunk(group.order)
            outs = [outputs.keep(key, rows, part) for key, part in zip(keys, parts, strict=True)]
            comparison = _compared(subject, group, outs, rows)
            loss = _floor(subject, group, maps, outs[0], x)
            # Added last: if memory runs out before, the images must not count twice.
            layers.add(batch)
            values.add(rows, comparison)
            floors.add(rows, loss)

        def plain(x: Tensor, rows: Tensor) -> None:
            outs = [outputs.of(key, t, x, rows) for key, t in zip(keys, maps, strict=True)]
            values.add(rows, _compared(subject, group, outs, rows))

        for rows in subject.detail_rows.split(small):
            fit(with_layers, subject.images[rows], rows)
        rest = torch.ones(len(subject.images), dtype=torch.bool)
        rest[subject.detail_rows] = False
        # All copies of an output that is an image are in memory at once.
        fit = Fitting("audit", device)
        for rows in rest.nonzero()[:, 0].split(small if subject.dense else subject.batch_size):
            fit(plain, subject.images[rows], rows)
    return Columns(values.sorted(), floors.sorted(), layers)


def outputs_only(subject: Subject, group: Symmetry) -> dict[str, Tensor]:
    """The metrics of the outputs alone, one number per image, from one pass over the images and their copies."""
    maps = [_STILL, *transformations(group)]
    values = _Gathered()
    with measuring(subject.model) as device:
        fit = Fitting("audit", device)

        def run(x: Tensor, rows: Tensor) -> None:
            outs = [_finite(subject.model(t(x))) for t in maps]
            values.add(rows, _compared(subject, group, outs, rows))

        for rows in torch.arange(len(subject.images)).split(subject.batch_size):
            fit(run, subject.images[rows], rows)
    return values.sorted()


def _finite(out: object) -> Tensor:
    return require_finite(as_tensor(out, caller="audit"), caller="audit")


_STILL = Transformation("identity", lambda x: x, lambda x: x, exact=True)


def _compared(subject: Subject, group: Symmetry, outs: Sequence[Tensor], rows: Tensor) -> dict[str, Tensor]:
    """Every metric that the outputs of one batch give."""
    base, moved = outs[0], outs[1:]
    found: dict[str, Tensor] = {}
    if _moves(subject, group):
        there = [output_transformation(group, g, base, caller="audit")(base) for g in range(1, group.order)]
        found["equivariance_error"] = _mean([relative_difference(a, b) for a, b in zip(there, moved, strict=True)])
    else:
        found["invariance_error"] = _mean([relative_difference(base, other) for other in moved])
        if base.ndim == 2:
            found["agreement"] = _mean([same_class(base, other) for other in moved])
    if subject.classifies and subject.labels is not None:
        labels = subject.labels[rows.cpu()].to(base.device)
        right = [(out.argmax(1) == labels).double() for out in outs]
        found["accuracy"], found["transformed_accuracy"] = right[0], _mean(right[1:])
        if not group.judges_output:
            averaged = (_mean([out.double() for out in outs]).argmax(1) == labels).double()
            found["averaged_accuracy"], found["averaging_gain"] = averaged, averaged - right[0]
    return found


def _floor(
    subject: Subject, group: Symmetry, maps: Sequence[Transformation], base: Tensor, x: Tensor
) -> dict[str, Tensor]:
    """The same errors where only resampling makes a difference."""
    if _moves(subject, group):
        there = [output_transformation(group, g, base, caller="audit") for g in range(1, group.order)]
        back = [relative_difference(t.inverse(t(base)), base) for t in there if t.inverse and not t.exact]
        return {"equivariance_error": _mean(back)} if back else {}
    outs = [as_tensor(subject.model(t.inverse(t(x))), caller="audit") for t in maps if t.inverse and not t.exact]
    if not outs:
        return {}
    floor = {"invariance_error": _mean([relative_difference(base, out) for out in outs])}
    return floor | ({"agreement": _mean([same_class(base, out) for out in outs])} if base.ndim == 2 else {})


def _moves(subject: Subject, group: Symmetry) -> bool:
    """Whether the output should move with the image rather than stay the same."""
    return subject.dense or group.judges_output


def _mean(values: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(values)).mean(0)
