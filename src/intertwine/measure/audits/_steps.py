"""The steps of an audit: each measures one thing, and states its cost."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn

from ..._checked import Positive
from ..._registry import Registry
from ...errors import InputError, IntertwineError
from .._batches import Fitting, as_tensor, batches, measuring
from .._estimate import Estimate
from .._symmetry import Symmetry
from .._transformation import transformations
from ..graph._channel_graph import ChannelGraph, channel_graph
from ..metrics._consistency import shift_consistency
from ..metrics._equivariance import equivariance_error
from ..metrics._invariance import agreement, invariance_error
from ..metrics._layers import layer_errors
from ..metrics._lie import lie_derivative
from ..metrics._metric import define
from ._reading import Note, Reading

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


@dataclass(frozen=True, eq=False)
class Subject:
    """The network and the data of an audit.

    Attributes:
        model: any network from images to scores, or to images.
        images: ``(n, c, h, w)``, normalized for the network.
        labels: ``(n,)``, if there are any.
        dense: whether the output is images.
        batch_size: images per batch.
    """

    model: nn.Module
    images: Tensor
    labels: Tensor | None
    dense: bool
    batch_size: Positive = 64

    @staticmethod
    def of(model: nn.Module, images: Tensor, labels: Tensor | None = None, *, batch_size: Positive = 64) -> Subject:
        """Run one image to find out what kind of output the network has."""
        with measuring(model) as device:
            try:
                out = Fitting("audit", device)(lambda x: as_tensor(model(x), caller="audit"), images[:1])[0]
            except (RuntimeError, ValueError, TypeError) as error:
                if isinstance(error, IntertwineError):
                    raise
                raise InputError(
                    "audit",
                    expected="images that the network accepts",
                    got=f"{' x '.join(map(str, images.shape[1:]))}, which fails with: {str(error).splitlines()[0]}",
                    fix="Check the channels and size of the images, and the arguments of the network.",
                ) from error
        dense = out.ndim == images.ndim > 2 and max(out.shape[2:]) > 1
        return Subject(model, images, labels, dense, batch_size)

    @cached_property
    def graph(self) -> ChannelGraph:
        """The channel graph. Tracing a network takes seconds, so all steps and symmetries share one."""
        return channel_graph(self.model, tuple(self.images.shape[1:]))

    @property
    def is_plane(self) -> bool:
        """Whether the input is images rather than signals, volumes, sets or vectors."""
        return self.images.ndim == 4

    @property
    def classifies(self) -> bool:
        """Whether there are class scores, and labels to compare them with."""
        return self.labels is not None and not self.dense


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
    """

    name: str
    measure: Measure
    per_symmetry: bool
    passes: Callable[[int], float]
    applies: Callable[[Subject], bool] = lambda subject: True


STEPS = Registry[Step]("audit step")
"""All steps in the order in which they run, the most informative first."""


def step(
    name: str,
    *,
    per_symmetry: bool = True,
    passes: Callable[[int], float] = float,
    applies: Callable[[Subject], bool] = lambda subject: True,
) -> Callable[[Measure], Measure]:
    """Register a function as a step."""

    def register(measure: Measure) -> Measure:
        STEPS.add(name, Step(name, measure, per_symmetry, passes, applies))
        return measure

    return register


@step("whole network")
def _whole(subject: Subject, symmetry: Symmetry | None) -> Findings:
    group = _required(symmetry)
    measured = equivariance_error if subject.dense or group.judges_output else invariance_error
    return Findings([Reading.of(measured(subject.model, subject.images, group, batch_size=subject.batch_size))])


@step("classes", applies=lambda subject: not subject.dense)
def _classes(subject: Subject, symmetry: Symmetry | None) -> Findings:
    group = _required(symmetry)
    if group.judges_output:  # the output is not class scores
        return Findings()
    return Findings([Reading.of(agreement(subject.model, subject.images, group, batch_size=subject.batch_size))])


@step("accuracy", applies=lambda subject: subject.classifies)
def _accuracy(subject: Subject, symmetry: Symmetry | None) -> Findings:
    group = _required(symmetry)
    plain = Estimate("accuracy", _hits(subject, [lambda x: x]), of="")
    moved = Estimate("transformed_accuracy", _hits(subject, transformations(group)), of=group.name)
    return Findings([Reading.of(plain), Reading.of(moved)])


def _hits(subject: Subject, maps: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
    """For each image, the share of maps after which it is classified correctly."""
    hits: list[Tensor] = []
    with measuring(subject.model) as device:

        def share(x: Tensor, labels: Tensor) -> Tensor:
            right = [as_tensor(subject.model(m(x)), caller="audit").argmax(1) == labels for m in maps]
            return torch.stack(right).double().mean(0).cpu()

        fit, data = Fitting("audit", device), (subject.images, subject.labels)
        for images, labels in batches(data, caller="audit", batch_size=subject.batch_size, rank=None):
            hits += fit(share, images, labels)
    return torch.cat(hits)


@step("layers")
def _layers(subject: Subject, symmetry: Symmetry | None) -> Findings:
    group = _required(symmetry)
    errors = layer_errors(subject.model, subject.images, group, batch_size=max(1, subject.batch_size // group.order))
    readings = []
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
    consistency = shift_consistency(subject.model, subject.images, shift=shift, batch_size=min(32, subject.batch_size))
    return Findings([Reading.of(consistency)])


@step("small motions", per_symmetry=False, passes=lambda _: 15.0, applies=lambda subject: subject.is_plane)
def _motions(subject: Subject, symmetry: Symmetry | None) -> Findings:
    images = subject.images[:128]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        readings = [
            Reading.of(lie_derivative(subject.model, images, flow, batch_size=subject.batch_size))
            for flow in ("translation_x", "translation_y", "rotation", "scale")
        ]
    texts = dict.fromkeys(str(w.message) for w in caught if str(w.message).startswith("lie_derivative"))
    return Findings(readings, [Note("small motions", text) for text in texts])


def _required(symmetry: Symmetry | None) -> Symmetry:
    if symmetry is None:
        raise TypeError("this step runs once per symmetry")
    return symmetry
