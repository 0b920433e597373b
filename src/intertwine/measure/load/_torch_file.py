"""Read files of ``torch.save``: tensors only, each one inside its own bytes of the file.

torch's reader decompresses without bound, and trusts the pickle about the length of each storage, so a file can make it
read foreign memory. Here torch's restricted unpickler reads the pickle without running anything, and storages are made
from the bytes in the file; they cannot grow.
"""

from __future__ import annotations

import io
import pickle
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch
from torch.storage import TypedStorage, UntypedStorage

from ...errors import InputError, IntertwineError, UnsafeFileError
from ._stored_zip import StoredZip

LONGEST_PICKLE = 256 * 2**20
_MADE_BY = "torch.save"
_FIX = "Save model.state_dict() instead, or a safetensors file."
_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # in files from before torch 1.6
_ZIP = b"PK\x03\x04"
_PADDING = 16  # bytes for an empty storage, which could grow if it had none

# Of the functions that torch's unpickler may call, these make tensors from existing storages, and plain containers. The
# others make tensors, or bytes, of any size that the pickle asks for.
_CALLED = frozenset(
    {f"torch._utils._rebuild_{name}" for name in ("tensor", "tensor_v2", "tensor_v3", "sparse_tensor")}
    | {f"torch._utils._rebuild_{name}" for name in ("parameter", "parameter_with_state")}
    | {"torch._tensor._rebuild_from_type_v2", "torch.nn.parameter.Parameter", "torch.Tensor", "torch.Size"}
    | {"torch.device", "torch.serialization._get_layout", "_codecs.encode", "builtins.set", "builtins.complex"}
    | {"collections.OrderedDict", "collections.Counter"}
)
_TYPE = re.compile(r"torch\.(storage\.)?(\w+Storage|[a-z]+\d+(_\w+)?|bool|half|float|double|long|int|short)", re.ASCII)

Find = Callable[[Any], TypedStorage]


def read_torch_file(path: Path) -> Any:
    """The content of a ``torch.save`` file: tensors, numbers, strings and containers of them; nothing else is built."""
    try:
        with open(path, "rb") as file:
            if file.read(4) == _ZIP:
                return _zipped(path)
            file.seek(0)
            return _old(file, path.stat().st_size)
    except IntertwineError:
        raise
    except pickle.UnpicklingError as error:
        raise _refused(path, error) from None
    except RecursionError:
        reason = "a pickle that is nested too deeply"
    # torch's unpickler may raise anything for an invalid pickle
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'cut off'}"
    raise InputError(str(path), expected="weights", got=reason, fix="Save or copy the file again.")


def _zipped(path: Path) -> Any:
    with StoredZip(path, made_by=_MADE_BY, fix=_FIX) as archive:
        if "data.pkl" not in archive or "constants.pkl" in archive:
            raise archive.refused("a TorchScript program" if "constants.pkl" in archive else "no data.pkl")
        order = bytes(archive.read("byteorder", 64)).decode() if "byteorder" in archive else sys.byteorder
        storages: dict[str, TypedStorage] = {}

        def find(saved: Any) -> TypedStorage:
            dtype, key, elements = _asked(saved, 4)
            if key not in storages:
                storages[key] = _storage(archive.read(f"data/{key}"), dtype, elements, swap=order != sys.byteorder)
            return storages[key]

        return _unpickled(io.BytesIO(archive.read("data.pkl", LONGEST_PICKLE)), find)


def _old(file: IO[bytes], length: int) -> Any:
    """A file from before torch 1.6: the pickle, then the bytes of each storage.

    The pickle is read twice: once with meta tensors, to find out which storages there are, and once with the storages.
    """
    if _unpickled(file) != _MAGIC or _unpickled(file) != _PROTOCOL:
        raise pickle.UnpicklingError("no torch file")
    _unpickled(file)  # facts about the machine that wrote it
    start = file.tell()
    declared: dict[str, tuple[torch.dtype, int]] = {}

    def declare(saved: Any) -> TypedStorage:
        dtype, key, elements = _asked(saved, 5)
        declared.setdefault(key, (dtype, elements))
        view = saved[5]
        size = elements if view is None else view[2]
        return _typed(UntypedStorage(size * dtype.itemsize, device="meta"), dtype)

    _unpickled(file, declare)
    storages: dict[str, TypedStorage] = {}
    for key in _unpickled(file):
        dtype, elements = declared[key]
        size = elements * dtype.itemsize
        if struct.unpack("<q", file.read(8))[0] != elements or size > length - file.tell():
            raise EOFError("a truncated tensor")
        storages[key] = _storage(bytearray(file.read(size)), dtype, elements, swap=sys.byteorder == "big")

    def find(saved: Any) -> TypedStorage:
        dtype, key, _ = _asked(saved, 5)
        if saved[5] is None:
            return storages[key]
        _, offset, size = saved[5]
        begin, end = offset * dtype.itemsize, (offset + size) * dtype.itemsize
        return _typed(storages[key]._untyped_storage[begin:end], dtype)

    file.seek(start)
    return _unpickled(file, find)


def _unpickled(file: IO[bytes], find: Find | None = None) -> Any:
    from torch._weights_only_unpickler import Unpickler, get_globals_in_pkl

    start = file.tell()
    for name in sorted(get_globals_in_pkl(file)):
        if name not in _CALLED and not _TYPE.fullmatch(name):
            raise pickle.UnpicklingError(f"GLOBAL {name}")
    file.seek(start)
    unpickler = Unpickler(file, encoding="utf-8")
    unpickler.persistent_load = find if find is not None else _nowhere  # type: ignore[method-assign]
    return unpickler.load()


def _nowhere(saved: Any) -> TypedStorage:
    raise pickle.UnpicklingError("a tensor where none belongs")


def _asked(saved: Any, parts: int) -> tuple[torch.dtype, str, int]:
    """The dtype, key and length of the storage that the pickle asks for."""
    if not isinstance(saved, tuple) or len(saved) != parts + 1 or saved[0] not in ("storage", b"storage"):
        raise pickle.UnpicklingError("something other than a tensor")
    kind, key, elements = saved[1], saved[2], saved[4]
    dtype = torch.uint8 if kind is UntypedStorage else kind.dtype
    if not isinstance(key, str | int) or not isinstance(elements, int) or not 0 <= elements < 2**48:
        raise pickle.UnpicklingError("a tensor without a valid storage")
    return dtype, str(key), elements


def _storage(content: bytearray, dtype: torch.dtype, elements: int, *, swap: bool) -> TypedStorage:
    """A storage made of these bytes; it cannot grow."""
    size = elements * dtype.itemsize
    if len(content) != size:
        raise EOFError(f"{elements} numbers in {len(content)} bytes")
    storage = torch.frombuffer(content or bytearray(_PADDING), dtype=torch.uint8).untyped_storage()
    if swap and content:
        storage.byteswap(dtype)
    return _typed(storage, dtype)


def _typed(storage: UntypedStorage, dtype: torch.dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def _refused(path: Path, error: pickle.UnpicklingError) -> InputError:
    # torch's message recommends loading the file anyway; only the name of the function is useful.
    name = re.search(r"GLOBAL ([\w.]+)", str(error))
    if name is None:
        return InputError(
            str(path),
            expected="weights, as safetensors or as a torch file of tensors",
            got="another kind of file",
            fix="Save model.state_dict() with torch.save, or a safetensors file.",
        )
    return UnsafeFileError(
        str(path),
        expected="a file of tensors",
        got=f"a pickle that calls {name[1]}",
        fix=f"Nothing in it was run. {_FIX}",
    )
