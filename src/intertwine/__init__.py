"""Impose, relax, learn, measure and discover symmetry in neural networks.

A layer is a map between two field types, a field type is a homogeneous space with a representation, and every
layer states a claim about its equivariance.

>>> import intertwine as tw
>>> tw.groups.Dihedral(4).order
8

Subpackages load on first use, which keeps ``import intertwine`` itself fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # lets type checkers and editors see what __getattr__ provides
    from . import data as data
    from . import demo as demo
    from . import discovery as discovery
    from . import errors as errors
    from . import experiments as experiments
    from . import groups as groups
    from . import kernels as kernels
    from . import measure as measure
    from . import models as models
    from . import nn as nn
    from . import relaxed as relaxed
    from . import report as report
    from . import spaces as spaces
    from . import testing as testing
    from . import topographic as topographic
    from . import train as train
    from .discovery import discover as discover

__version__ = "0.2.0"

_ROOMS = (
    "data",
    "demo",
    "discovery",
    "errors",
    "experiments",
    "groups",
    "kernels",
    "measure",
    "models",
    "nn",
    "relaxed",
    "report",
    "spaces",
    "testing",
    "topographic",
    "train",
)
_FUNCTIONS = {"discover": "discovery"}
"""Functions that are offered beside the rooms, and the room of each."""


def enable_torchvision() -> None:
    """Make ``import torchvision`` work with a CPU build of torch; call this first.

    The torchvision on PyPI is built for CUDA. With a CPU build of torch, its import fails because some operations on
    boxes are missing. This declares them, which makes networks, transforms and data sets usable. It does nothing if
    no operation is missing. ``timm:NAME`` networks call it automatically.

    >>> enable_torchvision()
    """
    from ._torchvision import declare_missing_operations

    declare_missing_operations()


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    if name in _FUNCTIONS:
        return getattr(import_module(f"{__name__}.{_FUNCTIONS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS, *_FUNCTIONS})
