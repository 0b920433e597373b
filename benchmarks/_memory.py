"""How far a piece of work raises the memory of its process (Linux)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def peak_megabytes(run: Callable[[], object]) -> float:
    """The peak of resident memory during ``run``, above what is in use before; best in a process of its own."""
    Path("/proc/self/clear_refs").write_text("5")  # a new peak begins
    before = _resident("VmRSS")
    run()
    return (_resident("VmHWM") - before) / 1024


def _resident(field: str) -> int:
    """Kilobytes: ``VmRSS`` now, ``VmHWM`` at the peak."""
    return int(next(line for line in Path("/proc/self/status").read_text().splitlines() if field in line).split()[1])
