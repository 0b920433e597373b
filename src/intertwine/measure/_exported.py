"""Exported programs (``.pt2``), read without running anything that the file brings.

torch reads parts of such a file by ``pickle`` and evaluates expressions in it. Therefore the file is looked through
first: pickled parts must hold tensors only, expressions must be arithmetic of sizes, and objects, compiled code and
guards in the form of program text are refused or dropped.
"""

from __future__ import annotations

import ast
import io
import json
import pickle
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .._checked import checked
from ..errors import InputError, UnsafeFileError

_FUNCTIONS = frozenset(
    {"Symbol", "Integer", "Mod", "PythonMod", "FloorDiv", "CleanDiv", "CeilDiv", "Max", "Min", "Abs", "Pow", "Rational"}
)
_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Constant, ast.Compare,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.USub, ast.UAdd, ast.Eq, ast.NotEq,
    ast.Lt, ast.LtE, ast.Gt, ast.GtE,
)  # fmt: skip
_SYMBOL = re.compile(r"[A-Za-z]\w{0,30}")


@checked
def load_exported(path: Path) -> nn.Module:
    """The module of an exported program, weights included."""
    raw = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            for name in archive.namelist():
                _require_harmless(path, name.partition("/")[2], archive, name)
    except zipfile.BadZipFile as error:
        raise InputError(
            str(path), expected="a file written by torch.export.save", got=str(error), fix="Export the network again."
        ) from None
    program = torch.export.load(io.BytesIO(raw))
    program._guards_code = []  # program text that would be executed; they only check the shapes of inputs
    return _Callable(program.module(check_guards=False))


class _Callable(nn.Module):
    """An exported program as a network: it is what it is in evaluation, and ``eval()`` is allowed."""

    def __init__(self, program: nn.Module) -> None:
        super().__init__()
        self.program = program

    def train(self, mode: bool = True) -> _Callable:
        """The mode was fixed when the program was exported."""
        self.training = mode
        return self

    def forward(self, x: torch.Tensor) -> Any:
        return self.program(x)


def _require_harmless(path: Path, inner: str, archive: zipfile.ZipFile, name: str) -> None:
    if inner.endswith("_config.json"):
        folder = name.rpartition("/")[0]
        for fqn, payload in json.loads(archive.read(name)).get("config", {}).items():
            if payload["path_name"].startswith(("custom_obj", "opaque_obj")):
                raise _refused(path, f"a pickled object {fqn}")
            if payload.get("use_pickle"):
                _require_tensors(path, fqn, archive.read(f"{folder}/{payload['path_name']}"))
    elif inner.endswith(".pt"):
        _require_tensors(path, inner, archive.read(name))
    elif inner.startswith("data/aotinductor"):
        raise _refused(path, f"compiled code {inner}")
    elif inner.startswith("models/"):
        for text in _expressions(json.loads(archive.read(name))):
            if not _is_arithmetic(text):
                raise _refused(path, f"the expression {text[:60]!r}")


def _require_tensors(path: Path, what: str, data: bytes) -> None:
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise _refused(path, f"{what}: {str(error).splitlines()[0]}") from None


def _expressions(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "expr_str" and isinstance(inner, str):
                yield inner
            else:
                yield from _expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _expressions(inner)


def _is_arithmetic(text: str) -> bool:
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            return False
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS):
            return False
        if isinstance(node, ast.Name) and (node.id.startswith("_") or not _SYMBOL.fullmatch(node.id)):
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not _SYMBOL.fullmatch(node.value):
            return False
    return True


def _refused(path: Path, what: str) -> UnsafeFileError:
    return UnsafeFileError(
        str(path),
        expected="a program of tensors and operations",
        got=what,
        fix="Nothing of it was run. Export the network from its source, or give MODEL as package.module:factory.",
    )
