"""Files of symmetrized networks: weights, and what is needed to give the original architecture their sizes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from ..._untrusted import parse_json
from ...errors import InputError
from ._resize import resize_

KEY = "intertwine.windows"
_FIELDS = ("kernel_size", "stride", "padding", "dilation")
_LARGEST = 1024


def windows_as_json(model: nn.Module, names: tuple[str, ...]) -> str:
    """The layers that were replaced, without their weights."""
    return json.dumps({name: _described(model.get_submodule(name)) for name in names})


def _described(module: Any) -> dict[str, Any]:
    if isinstance(module, nn.MaxPool2d):
        return {"kind": "MaxPool2d", "ceil_mode": module.ceil_mode, **{f: _list(getattr(module, f)) for f in _FIELDS}}
    return {"kind": "Conv2d", "groups": module.groups, **{f: _list(getattr(module, f)) for f in _FIELDS}}


def _list(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


def restore_(model: nn.Module, windows: str, state: Mapping[str, Tensor], *, caller: str) -> None:
    """Give a network the layers and sizes of a symmetrized one. Nothing larger than the tensors themselves is made."""
    layers = parse_json(windows, caller=caller)
    if not isinstance(layers, dict) or not all(_is_description(d) for d in layers.values()):
        raise InputError(caller, expected="convolutions and max pools by name", got=windows)
    modules = dict(model.named_modules())
    for name, description in layers.items():
        if not name or name not in modules:
            raise InputError(
                caller,
                expected="the network that was symmetrized",
                got=f"one without {name!r}",
                fix="Build the architecture that was given to symmetrize.",
            )
        model.set_submodule(name, _made(name, description, state, caller))
    resize_(model, state)


def _is_description(value: Any) -> bool:
    def small(pair: Any, low: int) -> bool:
        whole = isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair)
        return whole and all(low <= n <= _LARGEST for n in pair)

    if not isinstance(value, dict) or not all(small(value.get(f), 0 if f == "padding" else 1) for f in _FIELDS):
        return False
    return value.get("kind") == "MaxPool2d" or (type(value.get("groups")) is int and value["groups"] > 0)


def _made(name: str, description: dict[str, Any], state: Mapping[str, Tensor], caller: str) -> nn.Module:
    options: dict[str, Any] = {f: tuple(description[f]) for f in _FIELDS}
    if description["kind"] == "MaxPool2d":
        return nn.MaxPool2d(**options, ceil_mode=description.get("ceil_mode") is True)
    weight, groups = state.get(f"{name}.weight"), description["groups"]
    if weight is None or weight.dim() != 4 or weight.shape[2:] != options["kernel_size"] or len(weight) % groups:
        raise InputError(caller, expected=f"filters of size {options['kernel_size']} for {name}", got="others")
    bias = f"{name}.bias" in state
    layer = nn.Conv2d(weight.shape[1] * groups, len(weight), groups=groups, bias=bias, device="meta", **options)
    # Real tensors of the file's sizes, before the state dict is loaded into them.
    layer.weight = nn.Parameter(weight.clone())
    if bias:
        layer.bias = nn.Parameter(state[f"{name}.bias"].clone())
    return layer
