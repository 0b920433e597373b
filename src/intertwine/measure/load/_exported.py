"""Read exported programs (``.pt2``) without running any code in the file.

torch unpickles parts of such a file, evaluates expressions in it, and turns the rest into Python source. So torch never
sees the file itself. It sees an archive that is written here and contains only a description that was checked field by
field (:mod:`._program_check`), operators from a closed list (:mod:`._program_operators`), and weights as plain bytes
whose sizes were checked.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from ..._checked import checked
from ..._untrusted import parse_json
from ...errors import InputError, IntertwineError, UnsafeFileError
from ._loader import Network, register_loader
from ._program_budget import Budget
from ._program_check import TENSOR, RefusedError, checked_program, flag, path_name, require_inside
from ._stored_zip import StoredZip

LONGEST_DESCRIPTION = 64 * 2**20
_MADE_BY = "torch.export.save (2.9 or newer)"
_TRUST = (
    "Export the network again, or give MODEL as package.module:factory. "
    "If you trust the author of the file, --trust loads it as torch does, which may run code in it."
)
_CODE = {"data/aotinductor/": "compiled code", "data/executorch/": "compiled code"}
_MODEL = "models/model.json"
_WEIGHTS = ("data/weights/", "model_weights_config.json", "weight_")
_CONSTANTS = ("data/constants/", "model_constants_config.json", "tensor_")


@checked
def load_exported(path: Path, *, trust: bool = False) -> nn.Module:
    """The module of an exported program, with its weights.

    Args:
        path: the file.
        trust: pass the file to torch as it is. This may run code in it; use it only for files from people you trust.
    """
    if trust:
        return ExportedNetwork(_module(path, torch.export.load(path)))
    archive = _rewritten(path)
    try:
        from torch.export.pt2_archive._package import load_pt2
    except ImportError:
        raise InputError(
            str(path), expected="torch 2.9 or newer", got=f"torch {torch.__version__}", fix="Upgrade torch."
        ) from None
    try:
        with _silence():
            program = load_pt2(archive).exported_programs["model"]
    except Exception as error:  # the program is harmless, but torch may reject it in any way
        raise _unreadable(path, error) from None
    return ExportedNetwork(_module(path, program), Budget(str(path)))


@contextmanager
def _silence() -> Iterator[None]:
    """Mute torch, which logs what it cannot read, at any length, before it raises."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


def _module(path: Path, program: Any) -> fx.GraphModule:
    program._guards_code = []  # Python source that torch would run; it only checks the shapes of inputs
    try:
        module: fx.GraphModule = program.module(check_guards=False)
    except Exception as error:
        raise _unreadable(path, error) from None
    return module


class ExportedNetwork(nn.Module):
    """An exported program as a network. Its mode is fixed, but ``train()`` and ``eval()`` are allowed.

    Args:
        program: the module of the program.
        budget: checked before the program runs on images of a new shape.
    """

    def __init__(self, program: fx.GraphModule, budget: Budget | None = None) -> None:
        super().__init__()
        self.program = program
        self._budget = budget

    def train(self, mode: bool = True) -> ExportedNetwork:
        """Set the flag only: the mode was fixed when the program was exported."""
        self.training = mode
        return self

    def forward(self, x: torch.Tensor) -> Any:
        # Tracing and meta tensors allocate nothing.
        if self._budget is not None and not x.is_meta and not torch.compiler.is_compiling():
            self._budget.require(self.program, x)
        return self.program(x)


def _rewritten(path: Path) -> io.BytesIO:
    """An archive that contains only what was checked."""
    with StoredZip(path, made_by=_MADE_BY, fix=_TRUST) as old:
        for name in old.names:
            for prefix, content in _CODE.items():
                if name.startswith(prefix):
                    raise old.refused(f"{content}, {name}")
        for legacy in ("data/weights/model.pt", "data/constants/model.pt"):
            if legacy in old:
                raise old.refused(f"{legacy}, the layout of an older torch, which is unpickled")
        if _MODEL not in old:
            raise old.refused(f"no {_MODEL}")
        entries: dict[str, bytes | bytearray] = {
            "archive_format": b"pt2",
            "archive_version": b"0",
            "data/sample_inputs/model.pt": b"",
        }
        try:
            description = _json(old, _MODEL)
            entries[_MODEL] = json.dumps(checked_program(description)).encode()
            for place in (_WEIGHTS, _CONSTANTS):
                entries.update(_payloads(old, *place))
        except RefusedError as error:
            raise old.refused(str(error)) from None
    return _archive(entries)


def _json(archive: StoredZip, name: str) -> Any:
    return parse_json(bytes(archive.read(name, LONGEST_DESCRIPTION)), caller=f"{archive.path}: {name}")


def _payloads(old: StoredZip, folder: str, config: str, prefix: str) -> Mapping[str, bytes | bytearray]:
    """The weights, or the constants, and the list that says where each tensor is."""
    listed = _json(old, folder + config)
    if not isinstance(listed, dict) or not isinstance(listed.get("config"), dict):
        raise RefusedError(f"{config} without a list of tensors")
    kept: dict[str, dict[str, Any]] = {}
    entries: dict[str, bytes | bytearray] = {}
    places: dict[str, tuple[str, int]] = {}  # file of the old archive -> file of the new one and its number type
    for name, meta in listed["config"].items():
        if not isinstance(meta, dict) or flag(meta.get("use_pickle")) or meta.get("tensor_meta") is None:
            raise RefusedError(f"a pickled object {str(name)[:80]!r}")
        tensor = TENSOR(meta["tensor_meta"])
        source = path_name(meta.get("path_name"))
        if source not in places:
            places[source] = (f"{prefix}{len(places)}", tensor["dtype"])
            entries[folder + places[source][0]] = old.read(folder + source)
        target, kind = places[source]
        if kind != tensor["dtype"]:
            raise RefusedError(f"{str(name)[:80]!r} with the bytes of another dtype")
        require_inside(tensor, len(entries[folder + target]), _itemsize(kind))
        kept[path_name(name)] = {
            "path_name": target,
            "is_param": flag(meta.get("is_param")),
            "use_pickle": False,
            "tensor_meta": tensor,
        }
    entries[folder + config] = json.dumps({"config": kept}).encode()
    return entries


def _itemsize(kind: int) -> int:
    from torch._export.serde.serialize import deserialize_scalar_type

    try:
        return int(deserialize_scalar_type(kind).itemsize)  # type: ignore[arg-type]
    except KeyError:
        raise RefusedError(f"a tensor of dtype {kind}") from None


def _archive(entries: Mapping[str, bytes | bytearray]) -> io.BytesIO:
    buffer = io.BytesIO()
    writer = torch._C.PyTorchFileWriter(buffer)
    for name, content in entries.items():
        writer.write_record(name, bytes(content), len(content))
    writer.write_end_of_file()
    buffer.seek(0)
    return buffer


def _unreadable(path: Path, error: Exception) -> IntertwineError:
    text = str(error).strip()
    # torch appends the traceback to the full description of a step; only its last line says what happened.
    last = text.splitlines()[-1] if text else type(error).__name__
    kind = UnsafeFileError if isinstance(error, MemoryError) else InputError
    return kind(
        str(path), expected=f"a program that this torch can read ({_MADE_BY})", got=last, fix="Export it again."
    )


@register_loader(".pt2")
def _load_pt2(spec: str, options: Mapping[str, Any], trust: bool) -> Network:
    return Network(spec, load_exported(Path(spec), trust=trust))
