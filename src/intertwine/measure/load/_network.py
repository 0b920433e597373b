"""Networks by name: a factory in the user's code, a timm architecture, an exported program, an ONNX file."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from ..._checked import checked
from ...errors import InputError
from ._loader import LOADERS, Network
from ._onnx import OnnxNetwork
from ._output import OneOutput
from ._weights import load_weights_into


@checked
def load_network(
    spec: str,
    *,
    weights: Path | None = None,
    options: Mapping[str, Any] | None = None,
    output: str | int | None = None,
    trust: bool = False,
) -> Network:
    """The network that ``spec`` names, with weights from a file if one is given.

    Args:
        spec: ``package.module:factory``, called with ``options``; ``timm:NAME``, built without downloading anything;
            or the path of an exported program, ``file.pt2``, or of an ONNX file.
        weights: a safetensors or torch file; prefixes such as ``module.`` are removed from its names.
        options: keyword arguments for the factory, such as ``{"num_classes": 10}``.
        output: which output to look at, by name or by number from 0, if there are several; the first output of an ONNX
            file by default.
        trust: load a ``.pt2`` or ``.onnx`` file without the checks of :doc:`/security`; it may then run code.

    >>> load_network("torch.nn:Linear", options={"in_features": 2, "out_features": 3}).model
    Linear(in_features=2, out_features=3, bias=True)
    """
    _import_loaders()
    loader = next((loader for loader in LOADERS.values() if loader.matches(spec)), None)
    if loader is not None:
        if loader.is_file:
            _require_file(spec, weights)
        network = loader.load(spec, options or {}, trust)
    elif ":" in spec:
        network = _from_factory(spec, dict(options or {}))
    else:
        prefixes = sorted(f"{loader.form}NAME" for loader in LOADERS.values() if not loader.is_file)
        suffixes = sorted(loader.form for loader in LOADERS.values() if loader.is_file)
        raise InputError(
            "MODEL",
            expected=f"package.module:factory, {', '.join(prefixes)} or a file ending in {' or '.join(suffixes)}",
            got=repr(spec),
            fix="For a class Net in net.py in this folder: net:Net.",
        )
    if weights is not None:
        network.notes.extend(load_weights_into(network.model, weights))
    return _with_output(network, output)


def _with_output(network: Network, output: str | int | None) -> Network:
    """Choose an output, and say which one is looked at if there are several."""
    model = network.model
    if isinstance(model, OnnxNetwork):
        if output is not None:
            model.choose_output(output)
        if len(model.outputs) > 1:
            others = ", ".join(name for name in model.outputs if name != model.output)
            network.notes.append(f"looks at the output {model.output}; --output chooses another ({others})")
        return network
    if output is None:
        return network
    return replace(network, model=OneOutput(model, output), notes=[*network.notes, f"looks at the output {output}"])


@cache
def _import_loaders() -> None:
    """Import every file in this folder. Those that read a kind of network register a loader."""
    package = import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")


def _require_file(spec: str, weights: Path | None) -> None:
    if weights is not None:
        raise InputError("--weights", expected="none: the file has its own weights", got=str(weights))
    if not Path(spec).exists():
        raise InputError("MODEL", expected="an existing file", got=spec, fix="Check the path.")


def _from_factory(spec: str, options: dict[str, Any]) -> Network:
    place, _, name = spec.partition(":")
    with _current_folder_last():
        try:
            module = import_module(place)
        except ImportError as error:
            raise InputError("MODEL", expected=f"an importable module {place!r}", got=str(error), fix=_HOW) from None
        notes = _other_module(module, place)
        factory = getattr(module, name, None)
        if factory is None:
            known = _factories(module, name)
            raise InputError(
                "MODEL",
                expected=f"a function or class in {place}" + (f", such as {', '.join(known[:6])}" if known else ""),
                got=repr(name),
                fix=" ".join(["Check the name after the colon.", *notes]),
            )
        return Network(spec, _built(spec, factory, options), notes=notes)


def _factories(module: ModuleType, name: str) -> list[str]:
    """What in a module may build a network, the names most like the given one first; imports do not count."""

    def builds(value: object) -> bool:
        home = f"{getattr(value, '__module__', '')}."
        return isinstance(value, nn.Module) or (callable(value) and home.startswith(f"{module.__name__}."))

    known = [key for key, value in vars(module).items() if not key.startswith("_") and builds(value)]
    alike = get_close_matches(name, known, n=6)
    return [*alike, *(key for key in known if key not in alike)]


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
