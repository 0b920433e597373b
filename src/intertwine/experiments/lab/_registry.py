"""The list of experiments, collected from the folders of the papers."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from ..._checked import checked
from ..._registry import Registry
from ._experiment import Experiment


@cache
def experiments() -> Registry[Experiment]:
    """All experiments by name: every ``EXPERIMENT`` in a file of a paper's folder.

    The first call imports all papers; ``import intertwine.experiments`` imports none.
    """
    room = import_module(__name__.partition(".lab.")[0])
    lab = f"{room.__name__}.lab."  # its files are tools, and some are scripts of worker processes
    names = [info.name for info in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")]
    modules = [import_module(name) for name in names if not name.startswith(lab)]
    defined: list[Experiment] = [vars(module)["EXPERIMENT"] for module in modules if "EXPERIMENT" in vars(module)]
    registry = Registry[Experiment]("experiment")
    for experiment in sorted(defined, key=lambda experiment: experiment.name):
        registry.add(experiment.name, experiment)
    return registry


@checked
def experiment_named(name: str) -> Experiment:
    """The experiment of this name, spelled with hyphens or underscores."""
    return experiments()[name.replace("_", "-")]
