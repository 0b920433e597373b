"""The list of experiments: one file each, found by name."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

from .._checked import checked
from .._registry import Registry
from ._experiment import Experiment


@cache
def experiments() -> Registry[Experiment]:
    """All experiments by name: every file of this folder whose name has no underscore first defines one."""
    names = sorted(info.name for info in pkgutil.iter_modules([str(Path(__file__).parent)]) if info.name[0] != "_")
    found = Registry[Experiment]("experiment")
    for name in names:
        experiment: Experiment = import_module(f"{__package__}.{name}").EXPERIMENT
        found.add(experiment.name, experiment)
    return found


@checked
def experiment_named(name: str) -> Experiment:
    """The experiment of this name, spelled with hyphens or underscores."""
    return experiments()[name.replace("_", "-")]
