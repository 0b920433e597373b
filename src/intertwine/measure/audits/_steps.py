"""The steps of an audit: each measures one thing, and states its cost."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from ..._registry import Registry
from .._estimate import resample_together
from .._symmetry import Symmetry
from ..metrics._consistency import shift_consistency
from ..metrics._lie import lie_derivatives
from ._reading import Note, Reading
from ._subject import Subject
from ._whole import measure_whole


@dataclass
class Findings:
    """The results of a step.

    Attributes:
        readings: numbers.
        notes: remarks.
        arrays: tensors for pictures, by name.
    """

    readings: list[Reading] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    arrays: dict[str, Tensor] = field(default_factory=dict)


Measure = Callable[[Subject, Symmetry | None], Findings]


@dataclass(frozen=True)
class Step:
    """A step of an audit.

    Attributes:
        name: the text of the progress bar.
        measure: the function that measures.
        per_symmetry: whether the step runs once per symmetry, or once.
        passes: about how many times every image goes through the network, for a group of this order.
        applies: whether the step applies to this subject.
        details: whether it uses the images for details only, rather than all of them.
    """

    name: str
    measure: Measure
    per_symmetry: bool
    passes: Callable[[int], float]
    applies: Callable[[Subject], bool] = lambda subject: True
    details: bool = True


_FLOWS = ("translation_x", "translation_y", "rotation", "scale")
_MOTION_IMAGES = 64  # derivatives along four flows cost some twelve passes per image

STEPS = Registry[Step]("audit step")
"""All steps in the order in which they run, the most informative first."""


def step(
    name: str,
    *,
    per_symmetry: bool = True,
    passes: Callable[[int], float] = float,
    applies: Callable[[Subject], bool] = lambda subject: True,
    details: bool = True,
) -> Callable[[Measure], Measure]:
    """Register a function as a step."""

    def register(measure: Measure) -> Measure:
        STEPS.add(name, Step(name, measure, per_symmetry, passes, applies, details))
        return measure

    return register


@step("whole network", details=False)
def _whole(subject: Subject, symmetry: Symmetry | None) -> Findings:
    group = _required(symmetry)
    columns = measure_whole(subject, group) if subject.shards is None else subject.shards.measure(group)
    estimates, errors = columns.estimates(group), columns.layer_errors()
    of_layers = (each for layer in errors.layers for each in (layer.equivariance, layer.invariance))
    resample_together([*estimates, *(each for each in of_layers if each is not None)])
    readings = [Reading.of(estimate) for estimate in estimates]
    for layer in errors.layers:
        about = {"layer": layer.name, "kind": layer.kind, "shape": " x ".join(map(str, layer.shape))}
        if layer.equivariance is not None:
            readings.append(Reading.of(layer.equivariance, **about))
        readings.append(Reading.of(layer.invariance, **about))
    return Findings(readings, [Note(name, reason) for name, reason in errors.skipped])


@step(
    "shifts", per_symmetry=False, passes=lambda _: 2.0, applies=lambda subject: subject.is_plane and not subject.dense
)
def _shifts(subject: Subject, symmetry: Symmetry | None) -> Findings:
    shift = max(1, min(4, min(subject.images.shape[-2:]) // 4))
    consistency = shift_consistency(subject.model, subject.detail, shift=shift, batch_size=min(32, subject.batch_size))
    return Findings([Reading.of(consistency)])


@step("small motions", per_symmetry=False, passes=lambda _: 12.0, applies=lambda subject: subject.is_plane)
def _motions(subject: Subject, symmetry: Symmetry | None) -> Findings:
    images = subject.detail[:_MOTION_IMAGES]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimates = lie_derivatives(subject.model, images, _FLOWS, batch_size=subject.batch_size)
    texts = dict.fromkeys(str(w.message) for w in caught if str(w.message).startswith("lie_derivative"))
    return Findings([Reading.of(each) for each in estimates], [Note("small motions", text) for text in texts])


def _required(symmetry: Symmetry | None) -> Symmetry:
    if symmetry is None:
        raise TypeError("this step runs once per symmetry")
    return symmetry
