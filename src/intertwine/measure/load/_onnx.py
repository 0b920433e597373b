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
    """A network in an ONNX file, with one input for images and one output.

    It has no torch weights and no derivatives, so its outputs and layers can be measured but not its filters.

    Args:
        path: the file.
        trust: skip the checks of operators and sizes.
    """

    def __init__(self, path: Path, *, trust: bool = False) -> None:
        super().__init__()
        onnx, runtime = _libraries()
        model = read_onnx(onnx, path, trust=trust)
        self._inputs = [i for i in model.graph.input if i.name not in {w.name for w in model.graph.initializer}]
        if len(self._inputs) != 1 or not model.graph.output:
            raise InputError(
                str(path),
                expected="one input, the images, and an output",
                got=f"{len(self._inputs)} inputs and {len(model.graph.output)} outputs",
                fix="Export the network with one input.",
            )
        self._name, self._output = self._inputs[0].name, model.graph.output[0].name
        self._plain = _session(runtime, model, path)
        self._taps: dict[str, str] = {}
        known = {out.name for out in model.graph.output}
        for node in model.graph.node:
            if node.op_type in LAYERS:
                name = _module_name(node.name or node.output[0], set(self._taps))
                self._taps[name] = node.output[0]
                self.add_module(name, type(node.op_type, (_Seen,), {})())
                if node.output[0] not in known:
                    model.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
        self._tapped = _session(runtime, model, path)

    def forward(self, x: Tensor) -> Tensor:
        if torch._C._are_functorch_transforms_active():
            raise NotImplementedError("an ONNX file has no forward-mode derivatives")
        feed = {self._name: x.detach().cpu().float().numpy()}
        try:
            if not any(child._forward_hooks for child in self.children()):
                return torch.from_numpy(self._plain.run([self._output], feed)[0])
            names = list(dict.fromkeys([*self._taps.values(), self._output]))
            values = dict(zip(names, self._tapped.run(names, feed), strict=True))
        except Exception as error:  # onnxruntime has exceptions of its own for wrong shapes
            if is_memory(error):
                raise MemoryError(str(error)) from None
            shape = [d.dim_value or d.dim_param for d in self._inputs[0].type.tensor_type.shape.dim]
            raise InputError(
                "ONNX network",
                expected=f"images of shape {shape}",
                got=f"{tuple(x.shape)}: {str(error).splitlines()[0][:200]}",
                fix="A file with a fixed batch needs --batch-size of that size; or export it with a dynamic batch.",
            ) from None
        for name, value in self._taps.items():
            self.get_submodule(name)(torch.from_numpy(values[value]))
        return torch.from_numpy(values[self._output])


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
    return Network(spec, OnnxNetwork(Path(spec), trust=trust))
