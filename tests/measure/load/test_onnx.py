"""ONNX files: the same answers as torch, layers that can be looked at, and clear errors."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from intertwine.errors import InputError
from intertwine.measure import audit, invariance_error, layer_errors, load_network

X = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5)
    ).eval()
    path = tmp_path_factory.mktemp("onnx") / "net.onnx"
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(model, (X,), path, dynamo=True, dynamic_shapes=({0: torch.export.Dim("n")},), verbose=False)
    return model, path


def test_the_same_answers(exported):
    model, path = exported
    found = load_network(str(path)).model
    torch.testing.assert_close(found(X), model(X), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found(X[:1]), model(X[:1]), rtol=1e-5, atol=1e-6)
    assert invariance_error(found, X).mean == pytest.approx(invariance_error(model, X).mean, rel=1e-4)


def test_layers(exported):
    model, path = exported
    expected = {layer.kind: layer for layer in layer_errors(model, X, "hflip").layers}
    found = {layer.kind: layer for layer in layer_errors(load_network(str(path)).model, X, "hflip").layers}
    for kind, name in (("Conv2d", "Conv"), ("ReLU", "Relu"), ("MaxPool2d", "MaxPool")):
        assert found[name].equivariance.mean == pytest.approx(expected[kind].equivariance.mean, rel=1e-4)


def test_audit(exported):
    found = audit(load_network(str(exported[1])).model, X, "hflip")
    assert found.reading("invariance_error").n == 4
    assert any("central difference" in note.text for note in found.notes), "no derivatives, and it says so"


def test_bad_input(exported, tmp_path):
    with pytest.raises(InputError, match="ONNX network: expected images of shape"):
        load_network(str(exported[1])).model(X[:, :1])
    (tmp_path / "net.onnx").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"net\.onnx"):
        load_network(str(tmp_path / "net.onnx"))
    with pytest.raises(InputError, match="the file has its own weights"):
        load_network(str(exported[1]), weights=exported[1])
