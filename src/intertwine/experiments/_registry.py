"""The list of experiments: one file each, found by name."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

from ..errors import InputError
from ._experiment import Experiment


@cache
def experiments() -> dict[str, Experiment]:
    """All experiments by name: every file of this folder whose name has no underscore defines one as ``EXPERIMENT``."""
    names = sorted(info.name for info in pkgutil.iter_modules([str(Path(__file__).parent)]) if info.name[0] != "_")
    found = [import_module(f"{__package__}.{name}").EXPERIMENT for name in names]
    return {experiment.name: experiment for experiment in found}


def experiment_named(name: str) -> Experiment:
    """The experiment of this name."""
    known = experiments()
    if name not in known:
        raise InputError(
            "experiment",
            expected=f"one of {', '.join(known)}",
            got=repr(name),
            fix="See 'intertwine experiment list'.",
        )
    return known[name]
