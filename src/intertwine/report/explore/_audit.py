"""The audit tab: the audits below some folders, and the contents of one of them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from torch import Tensor

from ..._untrusted import read_tensors
from ...errors import InputError
from ...measure import METRICS, Reading, read_audit
from .._numbers import significant
from ..audit._layers import audit_layers
from ..audit._text import interval, metric_title
from ._paths import without_paths

_FILE = "audit.json"
_MAX_AUDITS = 200


class Audits:
    """The audits in and below some folders; gives access to no other files.

    Args:
        folders: the folders; they may be missing.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)

    def _by_name(self) -> dict[str, Path]:
        audits: dict[str, Path] = {}
        for folder in self.folders:
            places = [folder / _FILE] if (folder / _FILE).is_file() else sorted(folder.rglob(_FILE))
            for path in places[:_MAX_AUDITS]:
                if path.parent not in audits.values():
                    audits[_unused(_name(path.parent, folder), audits)] = path.parent
        return audits

    def names(self) -> list[str]:
        """The names of the audits: their folders, relative to those given."""
        return list(self._by_name())

    def answer(self, name: str) -> dict[str, Any]:
        """One audit: the readings of the whole network and of each layer."""
        audits = self._by_name()
        if name not in audits:  # look the name up, and never open it as a path
            raise InputError(
                "audit",
                expected=f"one of {', '.join(audits)}" if audits else "a folder with audits",
                got=repr(name) if audits else "none",
                fix="Write one with 'intertwine audit ... --out DIR', then 'intertwine explore --audit DIR'.",
            )
        content = read_audit(audits[name])
        try:
            readings = [Reading(**{"symmetry": "", **reading}) for reading in content["readings"]]
            return {
                "name": name,
                "network": without_paths(str(content["network"])),
                "data": without_paths(str(content["data"])),
                "images": int(content["images"]),
                "symmetries": [str(symmetry) for symmetry in content["symmetries"]],
                "verdicts": [_verdict(each) for each in content.get("verdicts", [])],
                "notes": [
                    {key: without_paths(str(note[key])) for key in ("about", "text", "level")}
                    for note in content["notes"]
                ],
                "whole": [_as_json(reading) for reading in readings if not reading.layer],
                "layers": audit_layers(readings, _arrays(audits[name])),
            }
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{name}/{_FILE}",
                expected="an audit",
                got=f"{type(error).__name__}: {error}",
                fix="Run the audit again.",
            ) from error


def _name(place: Path, folder: Path) -> str:
    """The name of an audit below a folder; if the folder is the audit, its own."""
    return place.relative_to(folder).as_posix() if place != folder else folder.resolve().name


def _unused(name: str, taken: Container[str]) -> str:
    """The name, with a number if another audit has it."""
    numbered = (f"{name} ({n})" for n in count(2))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def _verdict(verdict: Mapping[str, Any]) -> dict[str, Any]:
    finding, text = (without_paths(str(verdict[key])) for key in ("finding", "text"))
    reasons = text.removeprefix(finding).strip()
    return {"finding": finding, "reasons": reasons, "warning": verdict["state"] == "not symmetric"}


def _as_json(reading: Reading) -> dict[str, Any]:
    return {
        "name": metric_title(reading.metric),
        "symmetry": reading.symmetry,
        "value": reading.value,
        "text": significant(reading.value),
        "interval": interval(reading),
        "better": METRICS[reading.metric].better,
        "meaning": METRICS[reading.metric].meaning,
    }


def _arrays(folder: Path) -> dict[str, Tensor]:
    """The arrays of an audit; empty if they are missing or unreadable, which leaves the numbers."""
    try:
        return read_tensors(folder / "audit.safetensors")
    except (OSError, InputError):
        return {}
