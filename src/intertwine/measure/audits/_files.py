"""The files of an audit: finished steps, and the results as JSON, CSV and JUnit XML."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from torch import Tensor

from ..._checked import checked
from ..._files import replace_file
from ..._untrusted import read_json, read_tensors
from ...errors import InputError, StorageError
from ._reading import Gate, Note, Reading
from ._steps import Findings

if TYPE_CHECKING:
    from ._audit import Audit

PARTS = "parts"


def write_atomically(path: Path, data: bytes) -> Path:
    """Write a file atomically, and create its folder if needed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        raise StorageError(
            "audit",
            expected="a folder that can be written to",
            got=f"{path.parent} ({error.strerror or error})",
            fix="Choose another folder, or free some disk space.",
        ) from error
    return path


def require_writable(folder: Path) -> None:
    """Raise an error if the folder cannot be written to, before the work begins."""
    write_atomically(folder / ".probe", b"")
    (folder / ".probe").unlink(missing_ok=True)


def write_part(folder: Path, key: str, findings: Findings) -> None:
    """Store the findings of a step."""
    if findings.arrays:  # before the JSON file, which marks the part as complete
        write_arrays(folder / PARTS / f"{key}.safetensors", findings.arrays)
    content = {
        "readings": [reading.to_dict() for reading in findings.readings],
        "notes": [asdict(note) for note in findings.notes],
        "arrays": bool(findings.arrays),
    }
    write_atomically(folder / PARTS / f"{key}.json", json.dumps(content).encode())


def read_part(folder: Path, key: str) -> Findings | None:
    """The findings of a finished step; None if there are none, or they cannot be read."""
    try:
        content = read_json(folder / PARTS / f"{key}.json")
        readings = [Reading(**{"symmetry": "", **reading}) for reading in content["readings"]]
        notes = [Note(**note) for note in content["notes"]]
        arrays = read_arrays(folder / PARTS / f"{key}.safetensors") if content["arrays"] else {}
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return Findings(readings, notes, arrays)


def write_arrays(path: Path, arrays: Mapping[str, Tensor]) -> Path:
    """Write named arrays as safetensors."""
    from safetensors.torch import save

    return write_atomically(path, save({name: value.detach().cpu().contiguous() for name, value in arrays.items()}))


def read_arrays(path: Path) -> dict[str, Tensor]:
    """Read what :func:`write_arrays` wrote."""
    return read_tensors(path)


def csv_of(readings: Iterable[Reading]) -> str:
    """One line per reading, with all columns."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [field.name for field in fields(Reading)], lineterminator="\n")
    writer.writeheader()
    for reading in readings:
        writer.writerow({key: "" if value is None else value for key, value in asdict(reading).items()})
    return out.getvalue()


def junit_of(network: str, judged: Sequence[tuple[Gate, Reading, bool]], *, seconds: float) -> str:
    """Every gate as a test case, in the JUnit format that build servers read."""
    failures = sum(not kept for _, _, kept in judged)
    suite = ElementTree.Element(
        "testsuite", name=f"audit of {network}", tests=str(len(judged)), failures=str(failures), time=f"{seconds:.3f}"
    )
    for gate, reading, kept in judged:
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"audit.{reading.symmetry or 'network'}", name=f"{gate.metric} {gate.bound:g}"
        )
        if not kept:
            text = (
                f"{reading.metric} of {reading.symmetry or 'the network'} is {reading.value:.6g}, bound {gate.bound:g}"
            )
            ElementTree.SubElement(case, "failure", message=text)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


@checked
def save_audit(folder: Path, audit: Audit, judged: Sequence[tuple[Gate, Reading, bool]] = ()) -> None:
    """Write ``audit.json``, ``audit.csv``, ``audit.xml`` and, if there are arrays, ``audit.safetensors``."""
    if audit.arrays:
        write_arrays(folder / "audit.safetensors", audit.arrays)
    gates = [
        {"metric": gate.metric, "bound": gate.bound, "symmetry": r.symmetry, "value": r.value, "kept": kept}
        for gate, r, kept in judged
    ]
    text = json.dumps({**audit.to_dict(), "gates": gates}, indent=2, ensure_ascii=False) + "\n"
    write_atomically(folder / "audit.json", text.encode())
    write_atomically(folder / "audit.csv", csv_of(audit.readings).encode())
    write_atomically(folder / "audit.xml", junit_of(audit.network, judged, seconds=audit.seconds).encode())


@checked
def read_audit(folder: Path) -> dict[str, Any]:
    """The content of ``audit.json`` in a folder that :meth:`Audit.save` wrote.

    >>> import tempfile, torch
    >>> from intertwine.measure import audit
    >>> folder = Path(tempfile.mkdtemp())
    >>> audit(torch.nn.Flatten(), torch.rand(4, 1, 6, 6), "hflip", name="pixels").save(folder)
    >>> read_audit(folder)["network"]
    'pixels'
    """
    path = folder / "audit.json" if folder.is_dir() else folder
    try:
        content = read_json(path)
    except FileNotFoundError:
        raise InputError(
            str(folder), expected="a folder with audit.json", got="no such file", fix="Run an audit with --out."
        ) from None
    if not isinstance(content, dict) or content.get("schema") != 1:
        raise InputError(
            str(path),
            expected="an audit of schema 1",
            got=f"schema {content.get('schema') if isinstance(content, dict) else 'none'}",
            fix="Use the version of intertwine that wrote it.",
        )
    return content
