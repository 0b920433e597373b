"""The audit: run all steps on one network, and store each finished step, so that an interrupted audit can continue."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ..._plain_form import plain_form
from ..._views import view
from ...errors import InputError
from ...spaces import FieldType, Space
from .._batches import Fitting, Images, batches, measuring
from .._symmetry import Output, Symmetry, SymmetryLike, parse_symmetry
from ._files import read_part, require_writable, save_audit, write_part
from ._reading import Gate, Note, Reading
from ._shards import spread
from ._steps import STEPS, Findings, Step
from ._subject import DETAIL_IMAGES, Subject
from ._verdict import Verdict, verdict

SCHEMA = 1


@checked
@dataclass(repr=False)
class Audit:
    """The results of an audit. ``print`` shows verdicts and tables; :meth:`save` writes files.

    Attributes:
        network: the name of the network.
        data: the name of the data.
        symmetries: the names of the symmetries.
        images: the number of images.
        readings: all numbers.
        notes: remarks about the network and about the measurement.
        arrays: tensors for pictures, by name.
        left_out: steps that did not fit into the budget.
        seconds: the time that the audit took.
        weights: a digest of the weights.
    """

    network: str
    data: str
    symmetries: tuple[str, ...]
    images: int
    readings: list[Reading] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    arrays: dict[str, Tensor] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0
    weights: str = ""

    def __repr__(self) -> str:
        about = f"{self.network} on {self.data}" if self.data else self.network
        return f"Audit({about}: {self.images} images, {', '.join(self.symmetries)}, {len(self.readings)} readings)"

    def __str__(self) -> str:
        return str(view("audit_text")(self))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(view("audit_summary")(self))

    @property
    def verdicts(self) -> list[Verdict]:
        """For each symmetry whether the network has it, why not, and what to do."""
        verdicts = (verdict(symmetry, self.readings, self.notes) for symmetry in self.symmetries)
        return [each for each in verdicts if each is not None]

    @checked
    def reading(self, metric: str, symmetry: str | None = None, *, layer: str = "") -> Reading:
        """The reading of a metric; the first one if no symmetry is named, of the whole network if no layer is."""
        matching = [
            r for r in self.readings if r.metric == metric and r.layer == layer and symmetry in (None, r.symmetry)
        ]
        if not matching:
            raise InputError(
                "audit",
                expected=f"a metric that was measured: {self._metrics()}",
                got=f"{metric} {symmetry or ''} {layer}".strip(),
                fix="print(audit) shows all readings.",
            )
        return matching[0]

    def _metrics(self) -> str:
        return ", ".join(sorted({reading.metric for reading in self.readings}))

    @checked
    def judge(self, gates: Sequence[Gate]) -> list[tuple[Gate, Reading, bool]]:
        """For each gate, the readings it applies to and whether each of them keeps the bound."""
        judged = []
        for gate in gates:
            verdicts = gate.judge(self.readings)
            if not verdicts:
                raise InputError(
                    "gate",
                    expected=f"a metric that was measured: {self._metrics()}",
                    got=gate.metric,
                    fix="Gate on one of these, or give data with labels for accuracies.",
                )
            judged += [(gate, reading, kept) for reading, kept in verdicts]
        return judged

    @checked
    def save(self, folder: str | Path, *, gates: Sequence[Gate] = ()) -> None:
        """Write ``audit.json``, ``audit.csv``, ``audit.xml`` (JUnit) and the page ``audit.html``, each atomically."""
        judged = self.judge(gates)
        save_audit(Path(folder), self, judged)
        view("write_audit_page")(Path(folder) / "audit.html", self, judged)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the pictures, for JSON."""
        from ... import __version__

        return {
            "schema": SCHEMA,
            "intertwine": __version__,
            "torch": str(torch.__version__),
            "network": self.network,
            "weights": self.weights,
            "data": self.data,
            "images": self.images,
            "symmetries": list(self.symmetries),
            "seconds": round(self.seconds, 3),
            "left_out": self.left_out,
            "verdicts": [each.to_dict() for each in self.verdicts],
            "readings": [reading.to_dict() for reading in self.readings],
            "notes": [asdict(note) for note in self.notes],
        }


@checked
def audit(
    model: nn.Module,
    data: Images,
    symmetry: SymmetryLike | Iterable[SymmetryLike] = "hflip",
    *,
    output: Output | None = None,
    max_images: Positive = 512,
    detail_images: Positive = DETAIL_IMAGES,
    batch_size: Positive = 64,
    budget: float | None = None,
    name: str = "",
    data_name: str = "",
    folder: Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    engine: Literal["local", "ray"] = "local",
    workers: Positive | None = None,
    address: str | None = None,
) -> Audit:
    """Measure a network from every side: as a whole, by class, at each layer, under shifts and small motions.

    Args:
        model: any network from images to class scores, or to images. Layers of this package are audited as the
            ordinary torch modules that they amount to.
        data: images, or images and labels, in any of the forms of :func:`invariance_error`.
        symmetry: one or several names, spaces with their groups, field types or symmetries.
        output: the type of the output if it does not move as scalars, as for :func:`equivariance_error`.
        max_images: the maximum number of images to use.
        detail_images: how many of them at most are used for everything but the output of the whole network: layers,
            shifts, channels, barriers.
        batch_size: images per batch; halved when memory runs out.
        budget: the time limit in seconds. One batch is timed, and fewer images are used if necessary. Steps that still
            do not fit are left out, the least informative first, and named in ``left_out``.
        name: the name of the network.
        data_name: the name of the data.
        folder: where finished steps are stored. The same audit with the same folder continues where it was interrupted.
        progress: called with the name of the step, the number of finished steps and the number of all steps.
        engine: ``ray`` splits the images across processes or machines (extra ``ray``), with the same results up to
            rounding. What uses the images for details only, besides the layers, still runs here.
        workers: into how many parts Ray splits the images; by default one per core.
        address: the address of a Ray cluster; None starts Ray on this machine.

    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> result = audit(net, torch.rand(8, 1, 9, 9), "hflip")
    >>> result.reading("invariance_error").n
    8
    """
    if budget is not None and not 0 < budget < math.inf:
        raise InputError("audit", expected="a budget in seconds, above 0", got=str(budget))
    begun = time.monotonic()
    several = [symmetry] if isinstance(symmetry, str | Space | FieldType | Symmetry) else list(symmetry)
    groups = [parse_symmetry(each, output=output) for each in several]
    if folder is not None:
        require_writable(folder)
    subject = _subject(plain_form(model), data, max_images, detail_images, batch_size, _common_rank(groups))
    result = Audit(
        name or type(model).__name__,
        data_name,
        tuple(g.name for g in groups),
        len(subject.images),
        weights=digest(model),
    )
    plan = _plan(subject, groups)
    if budget is not None:
        subject, plan, result.left_out = _within(budget, subject, plan)
        result.images = len(subject.images)
    where = spread(subject, workers=workers, address=address) if engine == "ray" else nullcontext(subject)
    with where as subject:
        for number, (step, group) in enumerate(plan):
            title = step.name if group is None else f"{step.name}, {group.name}"
            if progress is not None:
                progress(title, number, len(plan))
            late = budget is not None and number > 0 and time.monotonic() - begun > budget
            if late:
                result.left_out.append(title)
                continue
            _add(result, _done(step, group, subject, folder, result.weights))
    if progress is not None:
        progress("done", len(plan), len(plan))
    result.seconds = time.monotonic() - begun
    return result


def _common_rank(symmetries: Sequence[Symmetry]) -> int:
    """The number of axes of the batches that all symmetries move."""
    ranks = {symmetry.rank for symmetry in symmetries}
    if len(ranks) != 1:
        names = ", ".join(repr(symmetry) for symmetry in symmetries) or "none"
        raise InputError("audit", expected="symmetries of the same kind of input", got=names)
    return ranks.pop()


def _subject(
    model: nn.Module, data: Images, max_images: int, detail_images: int, batch_size: int, rank: int
) -> Subject:
    parts = list(batches(data, caller="audit", batch_size=batch_size, max_images=max_images, rank=rank))
    labels = torch.cat([part[1] for part in parts]) if all(len(part) > 1 for part in parts) else None
    images = torch.cat([part[0] for part in parts])
    if not bool(torch.isfinite(images).all()):
        raise InputError("audit", expected="finite images", got="NaN or infinity", fix="Check the data.")
    return Subject.of(model, images, labels, batch_size=batch_size, detail_images=detail_images)


def _plan(subject: Subject, groups: Sequence[Symmetry]) -> list[tuple[Step, Symmetry | None]]:
    plan: list[tuple[Step, Symmetry | None]] = []
    for step in STEPS.values():
        if step.applies(subject):
            plan += [(step, group) for group in groups] if step.per_symmetry else [(step, None)]
    return plan


def _within(
    budget: float, subject: Subject, plan: list[tuple[Step, Symmetry | None]]
) -> tuple[Subject, list[tuple[Step, Symmetry | None]], list[str]]:
    """Use fewer images, then fewer steps, until the passes through the network take about the budget."""
    batch = subject.images[: subject.batch_size]
    with measuring(subject.model) as device:
        begun = time.monotonic()
        Fitting("audit", device)(lambda x: subject.model(x) is None, batch)
        seconds = (time.monotonic() - begun) / len(batch)
    kept = list(plan)
    left_out = []
    while (fitting := _affordable(budget / max(seconds, 1e-12), kept, subject)) < 8 and len(kept) > 1:
        step, group = kept.pop()
        left_out.append(step.name if group is None else f"{step.name}, {group.name}")
    return subject.first(max(1, min(fitting, len(subject.images)))), kept, left_out


def _affordable(passes: float, plan: Sequence[tuple[Step, Symmetry | None]], subject: Subject) -> int:
    """How many images can go through all steps with this many passes of one image."""
    every, details = (
        sum(step.passes(group.order if group else 1) for step, group in plan if step.details is kind)
        for kind in (False, True)
    )
    room = len(subject.detail_rows)
    beyond = (passes - room * details) / every if every else 0.0
    return int(beyond if beyond > room else passes / (every + details))


def _done(step: Step, group: Symmetry | None, subject: Subject, folder: Path | None, weights: str) -> Findings:
    """The findings of a step; read from the folder if the same step was finished there."""
    if folder is None:
        return step.measure(subject, group)
    identity = [step.name, group.digest if group else "", weights, _digest([subject.images]), subject.batch_size]
    identity.append(subject.detail_images)
    if subject.labels is not None:
        identity.append(_digest([subject.labels]))
    key = hashlib.blake2b(json.dumps(identity).encode(), digest_size=12).hexdigest()
    stored = read_part(folder, key)
    if stored is not None:
        return stored
    findings = step.measure(subject, group)
    write_part(folder, key, findings)
    return findings


def _add(result: Audit, findings: Findings) -> None:
    result.readings += [reading for reading in findings.readings if reading not in result.readings]
    result.notes += [note for note in findings.notes if note not in result.notes]
    result.arrays |= findings.arrays


def digest(model: nn.Module) -> str:
    """A digest of all weights and buffers."""
    return _digest(model.state_dict().values())


def _digest(tensors: Iterable[Tensor]) -> str:
    hasher = hashlib.blake2b(digest_size=12)
    for tensor in tensors:
        hasher.update(str((tensor.dtype, tuple(tensor.shape))).encode())
        hasher.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return hasher.hexdigest()
