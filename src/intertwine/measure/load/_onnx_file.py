"""Read ONNX files without opening any other files than the model's weights next to it.

A model may name files that hold its weights. The names are checked before a file is opened: it must be a plain file in
the model's folder or below it, not a link. Only operators of the ONNX standard and of onnxruntime are allowed. Loops
are refused, because nothing bounds how often they run.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from ..._numerics import memory_limit
from ...errors import InputError, SizeLimitError, UnsafeFileError

MAX_BYTES = 2**31 - 1
"""The maximum size of the file itself, given by protobuf."""

_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
_UNBOUNDED = frozenset({"Loop"})
_TRUST = "If you trust the author of the file, --trust runs it anyway."
_MAX_DEPTH = 10


def read_onnx(onnx: Any, path: Path, *, trust: bool = False) -> Any:
    """The model in an ONNX file, with its weights.

    Args:
        onnx: the package.
        path: the file.
        trust: skip the checks of operators and sizes. Files with weights are checked in any case.
    """
    if path.stat().st_size > MAX_BYTES:
        raise InputError(str(path), expected=f"a file of at most {MAX_BYTES} bytes", got="a larger one")
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
    """The graph, the graphs inside its nodes, and the functions."""
    waiting = [(model.graph, 0), *((function, 0) for function in model.functions)]
    while waiting:
        graph, depth = waiting.pop()
        if depth > _MAX_DEPTH:
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
            raise _refused(path, f"the operator {node.op_type!r}, which may run forever")


def _fill(onnx: Any, path: Path, model: Any) -> None:
    """Read the weights that are in files next to the model."""
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    for tensor in _tensors(onnx, path, model):
        if not uses_external_data(tensor):
            continue
        try:
            info = ExternalDataInfo(tensor)
            offset, length = int(info.offset or 0), int(info.length) if info.length else None
        except (ValueError, TypeError, AttributeError):
            raise _refused(path, f"weights {tensor.name!r} without a location") from None
        place = _next_to(path, info.location)
        size = place.stat().st_size
        count = size - offset if length is None else length
        if offset < 0 or count < 0 or offset + count > size:
            raise _refused(path, f"weights {tensor.name!r} outside {place.name}, which has {size} bytes")
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


def _next_to(path: Path, location: str) -> Path:
    """The file with this name in the folder of the model or below it."""
    parts = PurePosixPath(location).parts
    absolute = PurePosixPath(location).is_absolute() or bool(PureWindowsPath(location).drive)
    if not parts or absolute or ".." in parts or "\\" in location or "\0" in location:
        raise _refused(path, f"weights in {location!r}, which is not in the folder of the model")
    place = path.parent
    for part in parts:
        place = place / part
        if place.is_symlink():
            raise _refused(path, f"weights in {location!r}, which is a link instead of a file")
    if not place.is_file():
        raise InputError(
            str(path), expected=f"a file {location} next to the model", got="no such file", fix="Copy both files."
        )
    return place


def _require_sizes(onnx: Any, path: Path, model: Any) -> None:
    """Refuse results that would not fit into memory, as far as their shapes can be inferred from the file."""
    try:
        shapes = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.value_info
    except Exception:  # onnxruntime will report what is wrong with the model
        return
    limit = memory_limit()
    for value in shapes:
        sizes = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
        if prod(sizes) > limit:
            raise SizeLimitError(
                str(path),
                expected=f"results of at most {limit} bytes",
                got=f"{value.name!r} of shape {tuple(sizes)}",
                fix=f"{_TRUST} (INTERTWINE_MEMORY_LIMIT changes the limit.)",
            )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _refused(path: Path, what: str) -> UnsafeFileError:
    return UnsafeFileError(
        str(path), expected="a model with its weights inside or next to it", got=what, fix=f"Nothing was run. {_TRUST}"
    )
