"""Audit steps that look inside the network: how close is it to a group-convolutional one?"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from ...errors import IntertwineError
from .._estimate import Estimate
from .._symmetry import Symmetry
from ..graph._permute import full_state
from ..load._onnx import OnnxNetwork
from ..matching._match import Matching, channel_correlations
from ..metrics._metric import define
from ..surgery._barrier import gcnn_barrier, kernel_residuals, moved_and_matched
from ..surgery._stride import Artifact, stride_artifacts
from ..surgery._symmetrize import symmetrize
from ._reading import CAUSE, Note, Reading
from ._steps import Findings, step
from ._subject import Subject
from ._whole import outputs_only

_PICTURED = 24  # the maximum number of layers whose filters are stored

define(
    "matched_correlation",
    "correlation of channel i of Φ with channel p(i) of the moved Φ, mean over live channels",
    "",
    "higher",
    "how well the channels of the network match those of the network with moved filters; 1 in a GCNN",
)
define(
    "kernel_residual",
    "‖ψ − P τ(ψ) P'ᵀ‖ / ‖ψ‖",
    "",
    "lower",
    "how far the filters of a layer are from the kernel constraint of a group convolution, with matched channels",
)
define(
    "moved_accuracy",
    "accuracy of the network with moved filters, on untransformed images",
    "",
    "higher",
    "equals the accuracy on moved images if every layer commutes with the symmetry",
)
define(
    "gcnn_barrier",
    "1 − ζ(½(Φ + PΦ̂)) / ½(ζ(Φ) + ζ(Φ̂)), ζ the accuracy, after REPAIR",
    "",
    "lower",
    "accuracy lost by averaging the network with its moved and matched copy; 0 for a group-convolutional network",
)
define(
    "gcnn_barrier_without_repair",
    "the same with only the batch norms recomputed",
    "",
    "lower",
    "the barrier without restoring the statistics of hidden layers",
)
define(
    "gcnn_barrier_after_reset",
    "the same, with the batch norms of Φ and Φ̂ recomputed too",
    "",
    "lower",
    "the barrier without what recomputing the batch norms does to any network",
)
define(
    "gcnn_barrier_unmatched",
    "gcnn_barrier with P = 1",
    "",
    "lower",
    "control: the barrier after REPAIR with every channel as its own partner; matching is worth the difference",
)
define(
    "symmetrized_accuracy",
    "accuracy of the nearest exactly equivariant network",
    "",
    "higher",
    "what is left of the accuracy when the symmetry is imposed on the trained network",
)
define(
    "symmetrized_invariance_error",
    "invariance error of the nearest exactly equivariant network",
    "",
    "lower",
    "rounding, unless a layer cannot commute with the symmetry",
)


def _can_be_cut(subject: Subject) -> bool:
    return not isinstance(subject.model, OnnxNetwork) and any(True for _ in subject.model.parameters())


@step("strides", passes=lambda _: 0.1, applies=_can_be_cut)
def _strides(subject: Subject, symmetry: Symmetry | None) -> Findings:
    group = _plane(symmetry)
    if group is None:
        return Findings()
    shape = tuple(subject.images.shape[1:])
    try:
        report = stride_artifacts(subject.model, shape, group)  # type: ignore[arg-type]
    except Exception as error:  # a user's network may fail in any way, and the rest of the audit must not be lost
        reason = _without_data(subject.model, shape) or _message(error)
        return Findings(notes=[Note(f"strides, {group.name}", f"could not be checked: {reason}")])
    if not report:
        return Findings(
            notes=[Note(group.name, "the filters; at this image size every layer could commute with it", CAUSE)]
        )
    size = " x ".join(map(str, report.input_shape[1:]))
    by_layer: dict[str, list[Artifact]] = {}
    by_reason: dict[str, set[str]] = {}
    for broken in report.artifacts:
        by_layer.setdefault(broken.layer, []).append(broken)
        by_reason.setdefault(_of_pixels(broken.reason), set()).add(broken.layer)
    texts = [f"{reason} in {_count(len(layers))}" for reason, layers in by_reason.items()]
    if report.better:
        texts[-1] += f" (at {report.better[0]} x {report.better[1]} pixels no layer is in the way)"
    causes = [Note(group.name, text, CAUSE) for text in texts]
    return Findings(
        notes=[
            *causes,
            *(
                Note(
                    name or "the network",
                    f"{', '.join(dict.fromkeys(b.operation for b in broken))} cannot commute with {group.name} on "
                    f"images of {size}, whatever its filters: "
                    + "; ".join(f"{b.reason} of its input of {b.input_size[0]} x {b.input_size[1]}" for b in broken)
                    + ".",
                    "warning",
                )
                for name, broken in by_layer.items()
            ),
        ]
    )


def _of_pixels(reason: str) -> str:
    """A reason that counts rows or columns, in pixels: it is then the same for both."""
    return re.sub(r"(?<=\d )(row|column)", "pixel", reason)


def _count(layers: int) -> str:
    return f"{layers} layers" if layers > 1 else "one layer"


def _without_data(model: nn.Module, shape: tuple[int, ...]) -> str | None:
    """Why the network does not run without data, which is how strides are found; None if it does."""
    try:
        with torch.no_grad():
            copy.deepcopy(model).eval().to("meta")(torch.empty(2, *shape, device="meta"))
    except Exception as error:
        return f"the network does not run without data, as with data-dependent control flow ({_message(error)})"
    return None


@step("channels", passes=lambda order: 0.5 * order + 10.0, applies=_can_be_cut)
def _channels(subject: Subject, symmetry: Symmetry | None) -> Findings:
    group = _plane(symmetry)
    if group is None:
        return Findings()
    try:
        matching = _match(subject, group, constrained=False)
        findings = _matched(subject, matching, group)
        if subject.classifies:
            barriers = _barriers(subject, matching, group)
            findings.readings += barriers.readings
            findings.notes += barriers.notes
    except Exception as error:  # as above
        return Findings(notes=[Note(f"channels, {group.name}", f"cannot be matched: {_message(error)}")])
    return findings


def _match(subject: Subject, group: Symmetry, *, constrained: bool) -> Matching:
    """A matching. The constrained one comes last, and is made from the same correlations as the other."""
    correlations = subject.correlations.pop(group.digest, None) or channel_correlations(
        subject.model,
        subject.images[subject.halves[0]],
        group,
        tuple(subject.images.shape[1:]),
        graph=subject.graph,
        batch_size=subject.batch_size,
    )
    if not constrained:
        subject.correlations[group.digest] = correlations
    return correlations.matching(constrained=constrained)


def _matched(subject: Subject, matching: Matching, group: Symmetry) -> Findings:
    readings = [
        Reading("matched_correlation", group.name, value, layer=name, kind="channels", shape=str(size))
        for name, value, size in (
            (name, value, len(matching.permutations[1][name])) for name, value in matching.mean_correlation().items()
        )
        if value == value
    ]
    residuals = kernel_residuals(subject.model, matching)
    for name, value in residuals.items():
        readings.append(
            Reading("kernel_residual", group.name, value, layer=name.removesuffix(".weight"), kind="filter")
        )
    notes = [
        Note("channels", f"{untraced.channels} stay in place: {untraced.where}") for untraced in matching.graph.untraced
    ]
    arrays = {f"orders/{group.name}/{name}": _orders(counts) for name, counts in matching.order_histogram().items()}
    planes = [name for name in residuals if subject.model.get_parameter(name).dim() == 4]
    own, moved = full_state(subject.model), full_state(moved_and_matched(subject.model, matching, 1))
    for name in planes[:_PICTURED]:
        for kind, state in (("own", own), ("moved", moved)):
            arrays[f"filters/{group.name}/{name.removesuffix('.weight')}/{kind}"] = state[name][:16, :4].clone()
    return Findings(readings, notes, arrays)


def _orders(counts: Mapping[int, int]) -> Tensor:
    """How many channels lie on cycles of length 1, 2, 3, …"""
    out = torch.zeros(max(counts, default=1), dtype=torch.int64)
    for order, count in counts.items():
        out[order - 1] = count
    return out


def _barriers(subject: Subject, matching: Matching, group: Symmetry) -> Findings:
    """Barriers with their controls, matched and repaired on one half of the images and scored on the other."""
    seen, held_out = subject.halves
    if subject.labels is None or not len(held_out):
        return Findings()
    scores = subject.outputs.known(subject.outputs.motion(lambda x: x), held_out)
    barrier = gcnn_barrier(
        subject.model,
        subject.images[seen],
        group,
        (subject.images[held_out], subject.labels[held_out]),
        matching=matching,
        batch_size=subject.batch_size,
        untouched=False,
        right=None if scores is None else scores.argmax(1) == subject.labels[held_out],
    )
    n = len(held_out)
    readings = [Reading("moved_accuracy", group.name, barrier.plain.second, n=n)]
    for metric, each in (
        ("gcnn_barrier", barrier.repaired),
        ("gcnn_barrier_without_repair", barrier.plain),
        ("gcnn_barrier_after_reset", barrier.after_reset),
        ("gcnn_barrier_unmatched", barrier.unmatched),
    ):
        # Relative to the mean accuracy, which must not be 0.
        if each is not None and each.first + each.second > 0:
            low, high = each.interval or (None, None)
            readings.append(Reading(metric, group.name, each.relative, low=low, high=high, n=n))
    text = f"channels are matched and statistics restored on {len(seen)} images, and scored on {n} others"
    return Findings(readings, [Note(f"barriers, {group.name}", text)])


@step("symmetrized", passes=lambda order: order + 1.0, applies=_can_be_cut)
def _symmetrized(subject: Subject, symmetry: Symmetry | None) -> Findings:
    group = _plane(symmetry)
    if group is None or subject.dense:
        return Findings()
    seen, held_out = subject.halves
    try:
        matching = _match(subject, group, constrained=True)
        twin = symmetrize(subject.model, subject.images[seen], group, matching=matching, batch_size=subject.batch_size)
    except Exception as error:  # as above
        return Findings(notes=[Note(f"symmetrized, {group.name}", f"not possible: {_message(error)}")])
    rows = held_out if len(held_out) else seen
    judged = replace(subject, model=twin.model, images=subject.images[rows], labels=_rows(subject.labels, rows))
    values = outputs_only(judged, group)
    readings = [
        Reading.of(Estimate(f"symmetrized_{metric}", values[metric], of=group.name))
        for metric in ("invariance_error", "accuracy")
        if metric in values
    ]
    fields = [
        f"{name}: {', '.join(f'{n} of size {k}' for k, n in sizes.items())}" for name, sizes in twin.fields.items()
    ]
    text = f"{twin.free_parameters} free parameters; orbits of channels: {'; '.join(fields)}"
    return Findings(readings, [Note(f"symmetrized, {group.name}", text)])


def _rows(labels: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if labels is None else labels[rows]


def _message(error: Exception) -> str:
    text = (str(error).splitlines() or [""])[0]
    return text if isinstance(error, IntertwineError) else f"{type(error).__name__}: {text}"


def _plane(symmetry: Symmetry | None) -> Symmetry | None:
    """The symmetry, if it moves pixels by flips and turns and so acts on filters."""
    return None if symmetry is None or not symmetry.moves_filters or symmetry.judges_output else symmetry
