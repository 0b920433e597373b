"""Networks by name: a factory in somebody's code, a timm architecture, an exported program."""

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
    """A network to look at.

    Attributes:
        name: how it was asked for.
        model: the module.
        size: height and width of the images it expects, where that is known.
        mean: of the normalization it expects, where that is known.
        std: the same.
        notes: what was done to read it.
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
        weights: a safetensors or torch file, see :func:`load_weights_into`.
        options: keyword arguments of the factory, such as ``{"num_classes": 10}``.
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
        raise InputError("--weights", expected="none: the file has its weights", got=str(weights), fix="Leave it out.")
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
    """Modules in the current folder can be imported, and stand behind everything that is installed.

    First, a file beside the model would take the place of a package that is imported later; and after the network is
    there, nothing more comes from this folder.
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
    """A note if the module is not the one in the current folder that has its name."""
    first = place.partition(".")[0]
    here = next((p for p in (Path(f"{first}.py"), Path(first) / "__init__.py") if p.is_file()), None)
    taken = getattr(module, "__file__", None)
    if here is None or (taken is not None and Path(taken).resolve().is_relative_to(Path.cwd().resolve())):
        return []
    return [f"{place} is {taken or 'part of Python'}, not {here} in this folder: what is installed goes first"]


def _built(spec: str, factory: Callable[..., Any] | nn.Module, options: dict[str, Any]) -> nn.Module:
    if isinstance(factory, nn.Module):
        return factory
    try:
        model = factory(**options)
    except TypeError as error:
        raise InputError(
            "MODEL", expected=f"{spec} to take the given arguments", got=str(error), fix="Use --arg NAME=VALUE."
        ) from error
    except Exception as error:  # whatever somebody's code raises
        raise InputError(
            "MODEL", expected=f"{spec} to build a network", got=f"{type(error).__name__}: {error}", fix="See its trace."
        ) from error
    if not isinstance(model, nn.Module):
        raise InputError(
            "MODEL", expected=f"{spec} to return a torch.nn.Module", got=type(model).__name__, fix="Check the factory."
        )
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
            expected="an architecture of timm",
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
