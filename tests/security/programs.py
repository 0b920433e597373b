"""Exported programs as an attacker would make them: a good one, taken apart and changed."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

MODEL = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"
INPUTS = "data/sample_inputs/model.pt"
X = torch.rand(2, 1, 4, 4)


class Evil:
    """Unpickled, it writes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.target}",)


def pickled(value: object, **options: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def good(path: Path) -> Path:
    """A small network as torch saves it, with a size that is not fixed."""
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    torch.export.save(torch.export.export(model, (X,), dynamic_shapes=({0: batch},)), path)
    return path


def entries(path: Path) -> dict[str, bytes]:
    """The entries of an archive, without the folder that holds them."""
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def write(path: Path, content: dict[str, bytes], root: str = "net/", compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(root + name, data)
    return path


def changed(path: Path, name: str, change: Callable[[Any], Any]) -> Path:
    """The archive with one of its JSON entries changed; ``change`` works on it in place, or returns another."""
    content = entries(path)
    value = json.loads(content[name])
    new = change(value)
    content[name] = json.dumps(value if new is None else new).encode()
    return write(path, content)


def graph_of(program: Any) -> Any:
    return program["graph_module"]["graph"]


def node(target: str, inputs: dict[str, Any], outputs: list[Any], name: str) -> dict[str, Any]:
    return {
        "target": target,
        "inputs": [{"name": key, "arg": value, "kind": 1} for key, value in inputs.items()],
        "outputs": outputs,
        "metadata": {},
        "is_hop_single_tensor_return": None,
        "name": name,
    }


def tensor(*sizes: int, dtype: int = 7) -> dict[str, Any]:
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return {
        "dtype": dtype,
        "sizes": [{"as_int": size} for size in sizes],
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": stride} for stride in strides[: len(sizes)]],
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }


def as_tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def insert(program: Any, steps: list[dict[str, Any]], values: dict[str, Any]) -> None:
    """Put steps before the last one."""
    graph = graph_of(program)
    graph["nodes"][-1:-1] = steps
    graph["tensor_values"].update(values)
