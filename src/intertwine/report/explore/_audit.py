"""The room of audits: those below some folders, and what one of them says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from ..._untrusted import read_tensors
from ...errors import InputError
from ...measure import METRICS, Reading, read_audit
from .._numbers import significant
from ..audit._layers import audit_layers
from ..audit._text import interval, metric_title

_FILE = "audit.json"
_MOST = 200


class Audits:
    """The audits in and below these folders; nothing else can be read through it.

    Args:
        folders: where to look; missing ones have none.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)

    def _found(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for folder in self.folders:
            places = [folder / _FILE] if (folder / _FILE).is_file() else sorted(folder.rglob(_FILE))
            for path in places[:_MOST]:
                found.setdefault(str(path.parent), path.parent)
        return found

    def names(self) -> list[str]:
        """What can be opened, by the folder in which it is."""
        return list(self._found())

    def answer(self, name: str) -> dict[str, Any]:
        """One audit: what was measured, of the whole network and of each layer."""
        there = self._found()
        if name not in there:  # a name is looked up, never opened as a path
            raise InputError(
                "audit",
                expected=f"one of {', '.join(there)}" if there else "a folder with audits",
                got=repr(name) if there else "none",
                fix="Write one with 'intertwine audit ... --out DIR', then 'intertwine explore --audit DIR'.",
            )
        content = read_audit(there[name])
        try:
            readings = [Reading(**{"symmetry": "", **reading}) for reading in content["readings"]]
            return {
                "name": name,
                "network": str(content["network"]),
                "data": str(content["data"]),
                "images": int(content["images"]),
                "symmetries": [str(symmetry) for symmetry in content["symmetries"]],
                "notes": [{key: str(note[key]) for key in ("about", "text", "level")} for note in content["notes"]],
                "whole": [_told(reading) for reading in readings if not reading.layer],
                "layers": audit_layers(readings, _arrays(there[name])),
            }
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                str(there[name] / _FILE),
                expected="an audit",
                got=f"{type(error).__name__}: {error}",
                fix="Run the audit again.",
            ) from error


def _told(reading: Reading) -> dict[str, Any]:
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
    """The pictures of an audit; none where they are missing or cannot be read, which leaves the numbers."""
    try:
        return read_tensors(folder / "audit.safetensors")
    except (OSError, InputError):
        return {}
