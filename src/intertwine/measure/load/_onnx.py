"""ONNX files as networks, run by onnxruntime, with the outputs of layers on demand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..._numerics import is_memory
from ...errors import InputError, MissingExtraError
from ._loader import Network, register_loader
from ._onnx_file import read_onnx
from ._output import chosen

LAYERS = frozenset(
    {
        "Conv",
        "ConvTranspose",
        "Gemm",
        "MatMul",
        "Relu",
        "Clip",
        "LeakyRelu",
        "Elu",
        "Sigmoid",
        "Tanh",
        "Gelu",
        "MaxPool",
    }
    | {"AveragePool", "GlobalAveragePool", "BatchNormalization", "LayerNormalization", "InstanceNormalization", "Add"}
    | {"Concat", "Softmax", "Flatten", "ReduceMean", "HardSwish", "PRelu"}
)
"""Operators that count as layers."""


class OnnxNetwork(nn.Module):
    """A network in an ONNX file, with one input for images. One of its outputs is looked at.

    It has no torch weights and no derivatives, so its outputs and layers can be measured but not its filters. If the
    file has a fixed batch, images go through it in batches of that size, the last one filled up.

    Args:
        path: the file.
        trust: skip the checks of operators and sizes.
    """

    def __init__(self, path: Path, *, trust: bool = False) -> None:
        super().__init__()
        onnx, _ = _libraries()
        self._build(read_onnx(onnx, path, trust=trust), path)

    def _build(self, model: Any, path: Path) -> None:
        onnx, runtime = _libraries()
        self._path, self._content = path, model.SerializeToString()
        self._inputs = [i for i in model.graph.input if i.name not in {w.name for w in model.graph.initializer}]
        if len(self._inputs) != 1 or not model.graph.output:
            raise InputError(
                str(path),
                expected="one input, the images, and an output",
                got=f"{len(self._inputs)} inputs and {len(model.graph.output)} outputs",
                fix="Export the network with one input.",
            )
        self.outputs = tuple(out.name for out in model.graph.output)
        self._name, self.output = self._inputs[0].name, self.outputs[0]
        self._shape = [d.dim_value or d.dim_param for d in self._inputs[0].type.tensor_type.shape.dim]
        self._plain = _session(runtime, model, path)
        self._taps: dict[str, str] = {}
        for node in model.graph.node:
            if node.op_type in LAYERS:
                name = _module_name(node.name or node.output[0], set(self._taps))
                self._taps[name] = node.output[0]
                self.add_module(name, type(node.op_type, (_Seen,), {})())
                if node.output[0] not in self.outputs:
                    model.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
        self._tapped = _session(runtime, model, path)

    def __reduce__(self) -> tuple[Any, ...]:
        # A session of onnxruntime cannot be copied or sent to another process, but the model can.
        return _rebuilt, (self._content, self._path, self.output)

    @property
    def batch(self) -> int | None:
        """The fixed number of images per batch, if there is one."""
        first = self._shape[0] if self._shape else None
        return first if isinstance(first, int) and first > 0 else None

    def choose_output(self, output: str | int) -> None:
        """Look at the output with this name or number, counted from 0."""
        self.output = chosen(self.outputs, output)

    def forward(self, x: Tensor) -> Tensor:
        if torch._C._are_functorch_transforms_active():
            raise NotImplementedError("an ONNX file has no forward-mode derivatives")
        watched = any(child._forward_hooks for child in self.children())
        names = list(dict.fromkeys([*(self._taps.values() if watched else ()), self.output]))
        parts = [self._run(piece, names) for piece in x.detach().cpu().float().split(self.batch or max(len(x), 1))]
        values = {name: self._joined(name, [part[name] for part in parts], len(x)) for name in names}
        for name, value in self._taps.items() if watched else ():
            self.get_submodule(name)(values[value])
        return values[self.output]

    def _run(self, x: Tensor, names: list[str]) -> dict[str, Tensor]:
        """The values with these names for one batch, filled up to the fixed size by repeating its last image."""
        missing = (self.batch or len(x)) - len(x)
        full = torch.cat([x, x[-1:].expand(missing, *x.shape[1:])]) if missing else x
        session = self._plain if names == [self.output] else self._tapped
        try:
            values = session.run(names, {self._name: full.numpy()})
        except Exception as error:  # onnxruntime has exceptions of its own for wrong shapes
            if is_memory(error):
                raise MemoryError(str(error)) from None
            raise InputError(
                "ONNX network",
                expected=f"images of shape {self._shape}",
                got=f"{tuple(full.shape)}: {str(error).splitlines()[0][:200]}",
            ) from None
        return {name: torch.from_numpy(value) for name, value in zip(names, values, strict=True)}

    def _joined(self, name: str, parts: list[Tensor], count: int) -> Tensor:
        """The values of all batches, one row per image, without those of images that only fill up."""
        if self.batch is None:
            return parts[0]
        if all(part.ndim and len(part) == self.batch for part in parts):
            return torch.cat(parts)[:count]
        if name != self.output:
            return parts[0]  # a layer without a batch axis, which the caller skips
        raise InputError(
            "ONNX network",
            expected=f"an output with {self.batch} rows, one per image of the fixed batch",
            got=f"{name!r} of shape {tuple(parts[0].shape)}",
            fix=f"Choose another output with --output: {', '.join(self.outputs)}." if len(self.outputs) > 1 else "",
        )


def _rebuilt(content: bytes, path: Path, output: str) -> OnnxNetwork:
    """A network from a model that was read, and checked, before."""
    onnx, _ = _libraries()
    network = OnnxNetwork.__new__(OnnxNetwork)
    nn.Module.__init__(network)
    network._build(onnx.load_from_string(content), path)
    network.choose_output(output)
    return network


class _Seen(nn.Module):
    """Passes the output of a node through, so that hooks can see it."""

    def forward(self, x: Tensor) -> Tensor:
        return x


def _libraries() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError(
            "ONNX", expected="onnx and onnxruntime", got=str(error), fix="pip install 'intertwine[onnx]'"
        ) from None
    return onnx, onnxruntime


def _session(runtime: Any, model: Any, path: Path) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = torch.get_num_threads()
    # Stronger optimization would fuse nodes whose outputs are needed.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InputError(
            str(path), expected="a network that onnxruntime can run", got=str(error).splitlines()[0]
        ) from None


def _module_name(name: str, taken: set[str]) -> str:
    """The name of a node as a unique module name, without dots."""
    plain = name.strip("/").replace(".", "_").replace("/", "_") or "node"
    while plain in taken or hasattr(nn.Module, plain):
        plain += "_"
    return plain


@register_loader(".onnx")
def load_onnx(spec: str, options: Mapping[str, Any], trust: bool) -> Network:
    """The network in an ONNX file."""
    model = OnnxNetwork(Path(spec), trust=trust)
    notes = [] if model.batch is None else [f"images pass in batches of {model.batch}, the fixed batch of the file"]
    return Network(spec, model, notes=notes)
