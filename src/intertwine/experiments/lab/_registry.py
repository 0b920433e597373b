"""The list of experiments, collected from the sub-packages that define some."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from ..._checked import checked
from ..._registry import Registry
from ._experiment import Experiment


@cache
def experiments() -> Registry[Experiment]:
    """All experiments by name: those that sub-packages of ``experiments`` list as ``EXPERIMENTS``."""
    room = import_module(__name__.partition(".lab.")[0])
    packages = [import_module(f"{room.__name__}.{info.name}") for info in pkgutil.iter_modules(room.__path__)]
    listed: list[Experiment] = [each for package in packages for each in getattr(package, "EXPERIMENTS", ())]
    registry = Registry[Experiment]("experiment")
    for experiment in sorted(listed, key=lambda experiment: experiment.name):
        registry.add(experiment.name, experiment)
    return registry


@checked
def experiment_named(name: str) -> Experiment:
    """The experiment of this name, spelled with hyphens or underscores."""
    return experiments()[name.replace("_", "-")]
