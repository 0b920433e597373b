"""ONNX files that point elsewhere, or ask for more than there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from intertwine.errors import InputError, SizeLimitError, UnsafeFileError
from intertwine.measure import load_network

X = torch.rand(2, 4)
WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3)


def model(nodes: list[Any], weights: list[Any], **options: Any) -> Any:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    options.setdefault("opset_imports", [helper.make_opsetid("", 17)])
    return helper.make_model(graph, ir_version=8, **options)


def outside(location: str, **more: Any) -> Any:
    """A weight that is in another file."""
    weight = numpy_helper.from_array(WEIGHT, "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        weight.external_data.add(key=key, value=str(value))
    return weight


def saved(path: Path, weight: Any) -> str:
    onnx.save(model([helper.make_node("MatMul", ["x", "w"], ["y"])], [weight]), path)
    return str(path)


def test_weights_beside_the_model_are_read(tmp_path):
    (tmp_path / "below").mkdir()
    for place in ("net.data", "below/net.data"):
        (tmp_path / place).write_bytes(bytes(8) + WEIGHT.tobytes())
        spec = saved(tmp_path / "net.onnx", outside(place, offset=8, length=48))
        torch.testing.assert_close(load_network(spec).model(X), X @ torch.from_numpy(WEIGHT))


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../secret", "..\\secret", "C:\\a", "", "."])
def test_weights_elsewhere_are_not(tmp_path, location):
    (tmp_path / "secret").write_bytes(bytes(48))
    (tmp_path / "in").mkdir()
    spec = saved(tmp_path / "in" / "net.onnx", outside(location))
    with pytest.raises(InputError, match=r"in the folder of the model|without a location"):
        load_network(spec)
    with pytest.raises(InputError):
        load_network(spec, trust=True)  # there is no reason to go there for those who are trusted, either


@pytest.mark.parametrize("link", ["net.data", "folder"])
def test_links_are_not_followed(tmp_path, link):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "net.data").write_bytes(bytes(48))
    (tmp_path / "in").mkdir()
    if link == "folder":
        (tmp_path / "in" / "folder").symlink_to(tmp_path / "out")
    else:
        (tmp_path / "in" / "net.data").symlink_to(tmp_path / "out" / "net.data")
    spec = saved(tmp_path / "in" / "net.onnx", outside("folder/net.data" if link == "folder" else link))
    with pytest.raises(UnsafeFileError, match="a link"):
        load_network(spec)


@pytest.mark.parametrize("more", [{"offset": 40}, {"length": 10**12}, {"offset": -8}, {"length": -1}, {"offset": "x"}])
def test_weights_outside_of_their_file(tmp_path, more):
    (tmp_path / "net.data").write_bytes(bytes(48))
    spec = saved(tmp_path / "net.onnx", outside("net.data", **{"length": 48, **more}))
    with pytest.raises(InputError):
        load_network(spec)


def test_weights_inside_of_attributes_count_as_well(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(48))
    (tmp_path / "in").mkdir()
    constant = helper.make_node("Constant", [], ["w"], value=outside("../secret"))
    path = tmp_path / "in" / "net.onnx"
    onnx.save(model([constant, helper.make_node("MatMul", ["x", "w"], ["y"])], []), path)
    with pytest.raises(UnsafeFileError, match="in the folder of the model"):
        load_network(str(path))


def test_operators_of_others(tmp_path):
    node = helper.make_node("Run", ["x"], ["y"], domain="evil")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("evil", 1)]
    onnx.save(model([node], [], opset_imports=opsets), tmp_path / "net.onnx")
    with pytest.raises(UnsafeFileError, match="not part of ONNX"):
        load_network(str(tmp_path / "net.onnx"))


def test_loops_without_end(tmp_path):
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Identity", ["v"], ["u"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("u", TensorProto.FLOAT, None),
        ],
    )
    weights = [numpy_helper.from_array(np.array(2**62), "m"), numpy_helper.from_array(np.array(True), "t")]
    onnx.save(model([helper.make_node("Loop", ["m", "t", "x"], ["y"], body=body)], weights), tmp_path / "net.onnx")
    with pytest.raises(UnsafeFileError, match="run forever"):
        load_network(str(tmp_path / "net.onnx"))


def test_results_of_terabytes(tmp_path):
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["z"]),
        helper.make_node("ReduceSum", ["z"], ["r"], keepdims=0),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    weights = [numpy_helper.from_array(np.array([10**7, 10**6]), "s")]
    onnx.save(model(nodes, weights), tmp_path / "net.onnx")
    with pytest.raises(SizeLimitError, match="results of at most"):
        load_network(str(tmp_path / "net.onnx"))


@pytest.mark.parametrize("content", [b"", b"x" * 1000, b"\x0a" * 1000, b"\xff" * 100])
def test_junk(tmp_path, content):
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_network(str(tmp_path / "net.onnx"))
    assert len(str(caught.value)) < 3000
