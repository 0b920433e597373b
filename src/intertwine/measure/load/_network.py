"""Networks by name: a factory in the user's code, a timm architecture, an exported program, an ONNX file."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from ..._checked import checked
from ..._torchvision import declare_missing_operations
from ...errors import InputError, MissingExtraError
from ._exported import load_exported
from ._onnx import OnnxNetwork
from ._weights import load_weights_into


@checked
@dataclass(frozen=True)
class Network:
    """A network and the images it expects.

    Attributes:
        name: the name it was loaded by.
        model: the module.
        size: the height and width of the images it expects, if known.
        mean: the mean of the normalization it expects, if known.
        std: the standard deviation of the normalization it expects, if known.
        notes: how it was loaded.
    """

    name: str
    model: nn.Module
    size: tuple[int, int] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    notes: list[str] = field(default_factory=list)


@checked
def load_network(
    spec: str, *, weights: Path | None = None, options: Mapping[str, Any] | None = None, trust: bool = False
) -> Network:
    """The network that ``spec`` names, with weights from a file if one is given.

    Args:
        spec: ``package.module:factory``, called with ``options``; ``timm:NAME``, built without downloading anything;
            or the path of an exported program, ``file.pt2``, or of an ONNX file.
        weights: a safetensors or torch file; prefixes such as ``module.`` are removed from its names.
        options: keyword arguments for the factory, such as ``{"num_classes": 10}``.
        trust: load a ``.pt2`` or ``.onnx`` file without the checks of :doc:`/security`; it may then run code.

    >>> load_network("torch.nn:Linear", options={"in_features": 2, "out_features": 3}).model
    Linear(in_features=2, out_features=3, bias=True)
    """
    if spec.endswith((".pt2", ".onnx")):
        network = Network(spec, _from_file(spec, weights, trust))
    elif spec.startswith("timm:"):
        network = _from_timm(spec, dict(options or {}))
    elif ":" in spec:
        network = _from_factory(spec, dict(options or {}))
    else:
        raise InputError(
            "MODEL",
            expected="package.module:factory, timm:NAME or a file ending in .pt2 or .onnx",
            got=repr(spec),
            fix="For a class Net in net.py in this folder: net:Net.",
        )
    if weights is not None:
        network.notes.extend(load_weights_into(network.model, weights))
    return network


def _from_file(spec: str, weights: Path | None, trust: bool) -> nn.Module:
    if weights is not None:
        raise InputError("--weights", expected="none: the file has its own weights", got=str(weights))
    path = Path(spec)
    if not path.exists():
        raise InputError("MODEL", expected="an existing file", got=spec, fix="Check the path.")
    if spec.endswith(".pt2"):
        return load_exported(path, trust=trust)
    return OnnxNetwork(path, trust=trust)


def _from_factory(spec: str, options: dict[str, Any]) -> Network:
    place, _, name = spec.partition(":")
    with _current_folder_last():
        try:
            module = importlib.import_module(place)
        except ImportError as error:
            raise InputError("MODEL", expected=f"an importable module {place!r}", got=str(error), fix=_HOW) from None
        notes = _other_module(module, place)
        factory = getattr(module, name, None)
        if factory is None:
            known = [key for key in vars(module) if not key.startswith("_")]
            raise InputError(
                "MODEL",
                expected=f"a function or class in {place}, such as {', '.join(known[:6])}",
                got=repr(name),
                fix=" ".join(["Check the name after the colon.", *notes]),
            )
        return Network(spec, _built(spec, factory, options), notes=notes)


@contextmanager
def _current_folder_last() -> Iterator[None]:
    """Make modules in the current folder importable, after everything that is installed.

    If the folder came first, a file next to the model could replace an installed package. The folder is removed again
    once the network is built.
    """
    here = str(Path.cwd())
    if "" in sys.path or here in sys.path:  # as in a notebook
        yield
        return
    sys.path.append(here)
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(here)


def _other_module(module: ModuleType, place: str) -> list[str]:
    """A note if the current folder has a module of the same name that was not imported."""
    first = place.partition(".")[0]
    here = next((p for p in (Path(f"{first}.py"), Path(first) / "__init__.py") if p.is_file()), None)
    imported = getattr(module, "__file__", None)
    if here is None or (imported is not None and Path(imported).resolve().is_relative_to(Path.cwd().resolve())):
        return []
    return [f"{place} is {imported or 'part of Python'}, not {here} in this folder: installed packages come first"]


def _built(spec: str, factory: Callable[..., Any] | nn.Module, options: dict[str, Any]) -> nn.Module:
    if isinstance(factory, nn.Module):
        return factory
    try:
        model = factory(**options)
    except TypeError as error:
        raise InputError(
            "MODEL", expected=f"{spec} to take the given arguments", got=str(error), fix="Use --arg NAME=VALUE."
        ) from error
    except Exception as error:  # the user's code may raise anything
        raise InputError(
            "MODEL",
            expected=f"{spec} to build a network",
            got=f"{type(error).__name__}: {error}",
            fix="'intertwine --debug' shows the traceback.",
        ) from error
    if not isinstance(model, nn.Module):
        raise InputError("MODEL", expected=f"{spec} to return a torch.nn.Module", got=type(model).__name__)
    return model


_HOW = "Run in the folder that holds it, or install it."


def _from_timm(spec: str, options: dict[str, Any]) -> Network:
    declare_missing_operations()
    try:
        import timm
    except ImportError:
        raise MissingExtraError(
            "timm:NAME", expected="the package timm", got="no such module", fix="pip install 'intertwine[vision]'"
        ) from None

    name = spec.removeprefix("timm:")
    if not timm.is_model(name):
        close = get_close_matches(name, timm.list_models(), n=5) or timm.list_models(f"*{name}*")[:5]
        raise InputError(
            "MODEL",
            expected="a timm architecture",
            got=repr(name),
            fix=f"Did you mean {', '.join(close)}?" if close else "See timm.list_models().",
        )
    model: nn.Module = timm.create_model(name, pretrained=False, **options)
    config: dict[str, Any] = dict(getattr(model, "pretrained_cfg", None) or {})
    size = config.get("input_size")
    return Network(
        spec,
        model,
        size=tuple(size[1:]) if size else None,
        mean=tuple(config["mean"]) if config.get("mean") else None,
        std=tuple(config["std"]) if config.get("std") else None,
    )
