"""The list of experiments, collected from the sub-packages that define them."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from ..._checked import checked
from ..._registry import Registry
from ._experiment import Experiment


@cache
def experiments() -> Registry[Experiment]:
    """All experiments by name: everything that a sub-package of ``experiments`` lists in ``EXPERIMENTS``.

    The first call imports all sub-packages; ``import intertwine.experiments`` imports none of the papers."""
    room = import_module(__name__.partition(".lab.")[0])
    packages = [import_module(f"{room.__name__}.{info.name}") for info in pkgutil.iter_modules(room.__path__)]
    listed: list[Experiment] = [each for package in packages for each in getattr(package, "EXPERIMENTS", ())]
    registry = Registry[Experiment]("experiment")
    for experiment in sorted(listed, key=lambda experiment: experiment.name):
        registry.add(experiment.name, experiment)
    return registry


@checked
def experiment_named(name: str) -> Experiment:
    """The experiment with this name, spelled with hyphens or underscores."""
    return experiments()[name.replace("_", "-")]
