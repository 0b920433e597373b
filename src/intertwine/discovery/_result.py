"""The result of a discovery: one finding per candidate, and files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from .._checked import checked
from .._files import replace_file
from .._views import view
from ..errors import InputError, StorageError
from ._confused import ConfusedPair
from ._networks import Strictness
from ._two_sample import AUC
from ._verdict import Verdict
from ._worth import Worth

SCHEMA = 1
CURVE_DIGITS = 5
_NAMED = 2  # refused symmetries whose confused classes are named in the sentence


@checked
@dataclass(frozen=True)
class Gain:
    """A difference in accuracy to the free network, with its 95 % interval."""

    mean: float
    interval: tuple[float, float]


@checked
@dataclass(frozen=True, eq=False)
class Picture:
    """Why two classes get confused: a sample of one, moved, looks like a sample of the other."""

    pair: ConfusedPair
    sample: Tensor
    moved: Tensor
    other: Tensor


@checked
@dataclass(frozen=True, eq=False)
class Finding:
    """What was found about one candidate.

    Attributes:
        symmetry: its name.
        words: what it does, in words.
        verdict: what to do, and why.
        exact: whether networks with equivariant layers were compared. Otherwise the invariant network is one that was
            trained on transformed samples, with predictions averaged over transformed copies.
        auc: how well moved samples can be told from others.
        accuracy: network → accuracy on samples held out.
        gains: network → difference to the free network, with all data.
        curve_gains: network → difference to the free network, averaged over the learning curve.
        curves: network → pairs of the number of training samples and the accuracies, one per seed.
        worth: how many times more data the free network needs to match the network of the verdict, else the invariant
            one.
        confused: pairs of classes that the invariant network confuses.
        dials: by layer, how far the relaxed network ended from strict.
        joint_of: the names of the accepted candidates that this one combines.
        pictures: examples of confused classes.
    """

    symmetry: str
    words: str
    verdict: Verdict
    exact: bool
    auc: AUC | None = None
    accuracy: Mapping[Strictness, float] = field(default_factory=dict)
    gains: Mapping[Strictness, Gain] = field(default_factory=dict)
    curve_gains: Mapping[Strictness, Gain] = field(default_factory=dict)
    curves: Mapping[Strictness, list[tuple[int, list[float]]]] = field(default_factory=dict)
    worth: Worth | None = None
    confused: tuple[ConfusedPair, ...] = ()
    dials: Mapping[str, float] = field(default_factory=dict)
    joint_of: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()

    @property
    def gain(self) -> Gain | None:
        """The difference to the free network, with all data, of the network of the verdict, or of the invariant one."""
        chosen = self.verdict.strictness if self.verdict.strictness in self.gains else "invariant"
        return self.gains.get(chosen)  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "symmetry": self.symmetry,
            "words": self.words,
            "verdict": self.verdict.word,
            "strictness": self.verdict.strictness,
            "p_value": self.verdict.p_value,
            "images_needed": self.verdict.images_needed,
            "exact_layers": self.exact,
            "auc": None if self.auc is None else asdict(self.auc),
            "gain": None if self.gain is None else asdict(self.gain),
            "worth": None if self.worth is None else asdict(self.worth),
            "confused": [asdict(pair) for pair in self.confused],
            "reasons": list(self.verdict.reasons),
            "accuracy": dict(self.accuracy),
            "gains": {name: asdict(gain) for name, gain in self.gains.items()},
            "curve_gains": {name: asdict(gain) for name, gain in self.curve_gains.items()},
            "curves": {name: [list(point) for point in curve] for name, curve in self.curves.items()},
            "dials": dict(self.dials),
            "joint_of": list(self.joint_of),
        }


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Discovery:
    """The result of :func:`discover`. ``print`` shows a table; :meth:`save` writes files.

    Attributes:
        data: the name of the data.
        samples: the number of samples that were used.
        shape: the shape of a sample.
        classes: the names of the classes; empty if there are no labels.
        findings: one per candidate, and one for accepted candidates combined.
        recommended: the finding whose network ``net.py`` contains; None for the free network.
        seeds: the number of seeds.
        seconds: the time of all training runs.
        notes: remarks about the data and the procedure.
        left_out: runs that did not fit into the budget.
        program: the text of ``net.py``; empty if it cannot be written.
    """

    data: str
    samples: int
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    findings: tuple[Finding, ...]
    recommended: Finding | None
    seeds: int
    seconds: float
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    program: str = ""

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{each.symmetry}: {each.verdict.word}" for each in self.findings)
        return f"Discovery({self.data}, {self.samples} samples; {verdicts})"

    def __str__(self) -> str:
        return str(view("discovery_text")(self))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(view("discovery_summary")(self))

    @checked
    def __getitem__(self, symmetry: str) -> Finding:
        """The finding about a candidate."""
        for each in self.findings:
            if each.symmetry.lower() == symmetry.lower():
                return each
        names = ", ".join(each.symmetry for each in self.findings)
        raise InputError("Discovery", expected=f"one of {names}", got=repr(symmetry))

    @property
    def sentence(self) -> str:
        """The result in one or two sentences."""
        told = [_imposed(self.recommended)] if self.recommended is not None else []
        others = [each for each in self.findings if each is not self.recommended]
        told += [f"Also possible: {_listed(also, 'and')}."] if (also := self._also(others)) else []
        refused = [each for each in others if each.verdict.word == "leave"]
        for each in refused[:_NAMED]:
            if each.confused:
                pair = each.confused[0]
                told.append(f"Don't impose {each.words}: {pair.first} and {pair.second} get confused.")
        unexplained = [each.words for k, each in enumerate(refused) if k >= _NAMED or not each.confused]
        told += [f"Don't impose {_listed(unexplained, 'or')}."] if unexplained else []
        open_ = [each.words for each in others if each.verdict.word == "can't tell"]
        told += [f"Not decided: {_listed(open_, 'and')}."] if open_ else []
        return " ".join(told) or "Nothing was asked."

    def _also(self, others: list[Finding]) -> list[str]:
        """The other symmetries that can be imposed or relaxed, except the parts of the recommended one."""
        parts = set(() if self.recommended is None else self.recommended.joint_of)
        ways = {"invariant": "", "local": " in the layers", "relaxed": ", relaxed"}
        return [
            f"{each.words}{ways[each.verdict.strictness]}"
            for each in others
            if each.verdict.word in ("impose", "relax") and each.verdict.strictness
            if each.symmetry not in parts and not (each.joint_of and parts.issuperset(each.joint_of))
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the pictures, for JSON."""
        from .. import __version__

        return {
            "schema": SCHEMA,
            "intertwine": __version__,
            "data": self.data,
            "samples": self.samples,
            "shape": list(self.shape),
            "classes": list(self.classes),
            "seeds": self.seeds,
            "seconds": round(self.seconds, 1),
            "sentence": self.sentence,
            "recommended": None if self.recommended is None else self.recommended.symmetry,
            "candidates": [each.to_dict() for each in self.findings],
            "notes": list(self.notes),
            "left_out": list(self.left_out),
        }

    @checked
    def save(self, folder: str | Path) -> None:
        """Write ``discover.json``, ``discover.csv``, the page ``discover.html`` and ``net.py``, each atomically."""
        folder = Path(folder)
        files = {
            "discover.json": json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n",
            "discover.csv": self._csv(),
        }
        if self.program:
            files["net.py"] = self.program
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                replace_file(folder / name, text.encode())
        except OSError as error:
            raise StorageError(
                "Discovery.save", expected="a writable folder", got=f"{folder} ({error.strerror or error})"
            ) from error
        view("write_discovery_page")(folder / "discover.html", self)

    def _csv(self) -> str:
        columns = ["symmetry", "verdict", "strictness", "auc", "auc_null_low", "auc_null_high", "auc_p_value", "gain"]
        columns += ["gain_low", "gain_high", "worth", "worth_low", "worth_high", "confused", "images_needed"]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        for each in self.findings:
            auc = (None,) * 4 if each.auc is None else (each.auc.value, *each.auc.null, each.auc.p_value)
            gain = (None,) * 3 if each.gain is None else (each.gain.mean, *each.gain.interval)
            worth = (None,) * 3 if each.worth is None else (each.worth.factor, *each.worth.interval)
            pairs = "; ".join(f"{pair.first}/{pair.second}" for pair in each.confused)
            numbers = ["" if x is None else f"{x:.{CURVE_DIGITS}g}" for x in (*auc, *gain, *worth)]
            verdict = each.verdict
            writer.writerow(
                [each.symmetry, verdict.word, verdict.strictness or "", *numbers, pairs, verdict.images_needed or ""]
            )
        return out.getvalue()


def _imposed(finding: Finding) -> str:
    worth = finding.worth
    helps = worth is not None and worth.interval[0] > 1
    times = f": worth {worth.factor:.1f} times the data" if worth is not None and helps else ""
    if finding.verdict.word == "relax":
        return f"Relax {finding.words}{times}."
    if finding.verdict.strictness == "invariant":
        return f"Impose {finding.words}{times}."
    pair = finding.confused[0] if finding.confused else None
    why = "" if pair is None else f" An invariant network would confuse {pair.first} and {pair.second}."
    return f"Impose {finding.words} in the layers, with a head that sees the orientation{times}.{why}"


def _listed(names: list[str], word: str) -> str:
    return f" {word} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
