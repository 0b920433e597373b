"""ONNX files: the same answers as torch, layers that can be looked at, and clear errors."""

from __future__ import annotations

import copy
import pickle
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
    loaded = load_network(str(path)).model
    torch.testing.assert_close(loaded(X), model(X), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(loaded(X[:1]), model(X[:1]), rtol=1e-5, atol=1e-6)
    assert invariance_error(loaded, X).mean == pytest.approx(invariance_error(model, X).mean, rel=1e-4)


def test_layers(exported):
    model, path = exported
    expected = {layer.kind: layer for layer in layer_errors(model, X, "hflip").layers}
    errors = {layer.kind: layer for layer in layer_errors(load_network(str(path)).model, X, "hflip").layers}
    for kind, name in (("Conv2d", "Conv"), ("ReLU", "Relu"), ("MaxPool2d", "MaxPool")):
        assert errors[name].equivariance.mean == pytest.approx(expected[kind].equivariance.mean, rel=1e-4)


def test_audit(exported):
    result = audit(load_network(str(exported[1])).model, X, "hflip")
    assert result.reading("invariance_error").n == 4
    assert any("central difference" in note.text for note in result.notes), "no derivatives, and it says so"


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4, 5)

    def forward(self, x):
        h = self.conv(x).relu().mean((2, 3))
        return h, self.head(h)


@pytest.fixture(scope="module")
def fixed(tmp_path_factory):
    """A file that takes exactly three images, with two outputs."""
    torch.manual_seed(0)
    model = Two().eval()
    path = tmp_path_factory.mktemp("onnx") / "fixed.onnx"
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(model, (X[:3],), path, dynamo=True, verbose=False, output_names=["features", "scores"])
    return model, path


class TestFixedBatch:
    def test_the_same_answers_for_any_number_of_images(self, fixed):
        model, path = fixed
        loaded = load_network(str(path), output="scores").model
        for n in (1, 3, 4):
            torch.testing.assert_close(loaded(X[:n]), model(X[:n])[1], rtol=1e-5, atol=1e-6)

    def test_layers(self, fixed):
        model, path = fixed
        (expected,) = (layer for layer in layer_errors(model, X, "hflip").layers if layer.kind == "Conv2d")
        layers = layer_errors(load_network(str(path)).model, X, "hflip").layers
        (conv,) = (layer for layer in layers if layer.kind == "Conv")
        torch.testing.assert_close(conv.equivariance.values, expected.equivariance.values, rtol=1e-4, atol=0)

    def test_audit(self, fixed):
        model, path = fixed
        network = load_network(str(path), output="scores")
        result = audit(network.model, (X, torch.arange(4)), "hflip")
        one = nn.Sequential(model.conv, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), model.head)
        assert result.reading("invariance_error").value == pytest.approx(invariance_error(one, X).mean, rel=1e-3)
        assert network.notes[0] == "images pass in batches of 3, the fixed batch of the file"

    def test_rows_that_are_not_images(self, tmp_path):
        """Without a row per image, nothing can be compared."""

        class Boxes(nn.Module):
            def forward(self, x):
                return x.flatten()[:40].view(20, 2), x.mean((2, 3))

        path = tmp_path / "boxes.onnx"
        with warnings.catch_warnings(action="ignore"):
            torch.onnx.export(Boxes(), (X[:1],), path, dynamo=True, verbose=False, output_names=["boxes", "means"])
        with pytest.raises(InputError, match=r"1 rows, one per image .* 'boxes' of shape \(20, 2\)"):
            load_network(str(path)).model(X)
        torch.testing.assert_close(load_network(str(path), output=1).model(X), X.mean((2, 3)))


def test_copies(fixed):
    network = load_network(str(fixed[1]), output="scores").model
    for twin in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert torch.equal(twin(X), network(X))


def test_several_outputs(fixed):
    model, path = fixed
    first, second = load_network(str(path)), load_network(str(path), output="1")
    assert first.notes[-1] == "looks at the output features; --output chooses another (scores)"
    assert second.notes[-1] == "looks at the output scores; --output chooses another (features)"
    torch.testing.assert_close(first.model(X), model(X)[0], rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="--output: expected one of features, scores, or a number from 0 to 1; got"):
        load_network(str(path), output="score")


def test_bad_input(exported, tmp_path):
    with pytest.raises(InputError, match="ONNX network: expected images of shape"):
        load_network(str(exported[1])).model(X[:, :1])
    (tmp_path / "net.onnx").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"net\.onnx"):
        load_network(str(tmp_path / "net.onnx"))
    with pytest.raises(InputError, match="the file has its own weights"):
        load_network(str(exported[1]), weights=exported[1])
