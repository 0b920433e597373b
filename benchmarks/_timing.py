"""Timing on shared cores, as :mod:`intertwine.testing` does it, and where the figures go."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import torch

from intertwine.testing import Comparison as Comparison
from intertwine.testing import compare as compare
from intertwine.testing import cpu_seconds as cpu_seconds
from intertwine.testing import evaluation as evaluation
from intertwine.testing import training_step as training_step


def write_result(name: str, result: dict[str, object]) -> None:
    """Write a benchmark's figures with what they were taken on."""
    facts = {"python": platform.python_version(), "torch": torch.__version__, "threads": torch.get_num_threads()}
    path = Path(__file__).parent / "results" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps({**facts, **result}, indent=2) + "\n")
    temporary.replace(path)
    print(f"written to {path.parent.name}/{path.name}")
