"""ONNX files, read so that no other file is opened than those beside the model that hold its weights.

A model may keep weights in files that it names. The names are checked before any of them is opened: plain files in the
model's own folder, no links, no way out of it. Operators are those of the standard and of onnxruntime itself; loops are
refused, since nothing bounds how often they run.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from ..._numerics import memory_limit
from ...errors import InputError, SizeLimitError, UnsafeFileError

LONGEST = 2**31 - 1
"""Bytes of the file itself, as protobuf allows."""

_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
_UNBOUNDED = frozenset({"Loop"})
_TRUST = "If you trust whoever made the file, --trust runs it all the same."
_DEEPEST = 10


def read_onnx(onnx: Any, path: Path, *, trust: bool = False) -> Any:
    """The model in an ONNX file, with its weights.

    Args:
        onnx: the package.
        path: the file.
        trust: leave out the checks of operators and sizes. Weights in other files are checked all the same.
    """
    if path.stat().st_size > LONGEST:
        raise InputError(str(path), expected=f"a file of at most {LONGEST} bytes", got="a longer one", fix="Check it.")
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # protobuf has exceptions of its own
        raise InputError(str(path), expected="an ONNX file", got=_first_line(error), fix="Export it again.") from None
    if not trust:
        for graph in _graphs(onnx, path, model):
            _require_known(path, graph)
    _fill(onnx, path, model)
    if not trust:
        _require_sizes(onnx, path, model)
    return model


def _graphs(onnx: Any, path: Path, model: Any) -> Iterator[Any]:
    """The graph, those inside of its nodes, and the functions."""
    waiting = [(model.graph, 0), *((function, 0) for function in model.functions)]
    while waiting:
        graph, depth = waiting.pop()
        if depth > _DEEPEST:
            raise _refused(path, "graphs nested too deeply")
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                inner = [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else list(attribute.graphs)
                waiting += [(g, depth + 1) for g in inner]


def _require_known(path: Path, graph: Any) -> None:
    for node in graph.node:
        if node.domain not in _DOMAINS:
            raise _refused(path, f"the operator {node.op_type!r} of {node.domain!r}, which is not part of ONNX")
        if node.op_type in _UNBOUNDED:
            raise _refused(path, f"the operator {node.op_type!r}, which may run without end")


def _fill(onnx: Any, path: Path, model: Any) -> None:
    """Read the weights that are in files beside the model."""
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    for tensor in _tensors(onnx, path, model):
        if not uses_external_data(tensor):
            continue
        try:
            told = ExternalDataInfo(tensor)
            offset, length = int(told.offset or 0), int(told.length) if told.length else None
        except (ValueError, TypeError, AttributeError):
            raise _refused(path, f"weights {tensor.name!r} without a place") from None
        place = _beside(path, told.location)
        size = place.stat().st_size
        count = size - offset if length is None else length
        if offset < 0 or count < 0 or offset + count > size:
            raise _refused(path, f"weights {tensor.name!r} outside of {place.name}, which has {size} bytes")
        with open(place, "rb") as file:
            file.seek(offset)
            tensor.raw_data = file.read(count)
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _tensors(onnx: Any, path: Path, model: Any) -> Iterator[Any]:
    for graph in _graphs(onnx, path, model):
        if isinstance(graph, onnx.GraphProto):
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        for node in graph.node:
            for attribute in node.attribute:
                yield from (attribute.t, *attribute.tensors)
                for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                    yield from (sparse.values, sparse.indices)


def _beside(path: Path, location: str) -> Path:
    """The file of this name in the folder of the model, or below it."""
    parts = PurePosixPath(location).parts
    absolute = PurePosixPath(location).is_absolute() or bool(PureWindowsPath(location).drive)
    if not parts or absolute or ".." in parts or "\\" in location or "\0" in location:
        raise _refused(path, f"weights in {location!r}, which is not beside the model")
    place = path.parent
    for part in parts:
        place = place / part
        if place.is_symlink():
            raise _refused(path, f"weights in {location!r}, which is a link; put the file itself there")
    if not place.is_file():
        raise InputError(
            str(path), expected=f"a file {location} beside the model", got="none there", fix="Copy both files."
        )
    return place


def _require_sizes(onnx: Any, path: Path, model: Any) -> None:
    """Refuse results that would not fit, as far as their shapes can be told from the file."""
    try:
        shapes = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.value_info
    except Exception:  # onnxruntime says better what is wrong with the model
        return
    limit = memory_limit()
    for value in shapes:
        sizes = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
        if prod(sizes) > limit:
            raise SizeLimitError(
                str(path),
                expected=f"results of at most {limit} bytes",
                got=f"{value.name!r} of shape {tuple(sizes)}",
                fix=f"{_TRUST} (INTERTWINE_MEMORY_LIMIT moves the limit.)",
            )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _refused(path: Path, what: str) -> UnsafeFileError:
    return UnsafeFileError(
        str(path), expected="a model with its weights in it or beside it", got=what, fix=f"Nothing was run. {_TRUST}"
    )
