"""Networks and weights from files: whatever people have, and nothing that runs by itself."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from intertwine.errors import InputError, UnsafeFileError
from intertwine.measure import Network, load_network
from intertwine.measure.load._loader import LOADERS, register_loader
from intertwine.measure.load._weights import load_weights_into

X = torch.rand(2, 3, 8, 8)


def network(classes: int = 5) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, classes)
    ).eval()


class Evil:
    """Unpickled, it writes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


class TestWeights:
    @pytest.mark.parametrize("wrapper", [None, "state_dict", "model", "model_state_dict"])
    @pytest.mark.parametrize("prefix", ["", "module.", "module._orig_mod.", "model."])
    def test_wrappers_and_prefixes(self, tmp_path, wrapper, prefix):
        source, target = network(), network()
        state = {prefix + key: value for key, value in source.state_dict().items()}
        torch.save(state if wrapper is None else {wrapper: state, "epoch": 3}, tmp_path / "weights.pt")
        notes = load_weights_into(target, tmp_path / "weights.pt")
        torch.testing.assert_close(target(X), source(X), rtol=0, atol=0)
        assert len(notes) == (wrapper is not None) + prefix.count(".")

    def test_safetensors(self, tmp_path):
        source, target = network(), network()
        save_file(source.state_dict(), tmp_path / "weights.safetensors")
        assert load_weights_into(target, tmp_path / "weights.safetensors") == []
        torch.testing.assert_close(target(X), source(X), rtol=0, atol=0)

    def test_what_does_not_fit_is_named_and_nothing_is_changed(self, tmp_path):
        target = network()
        before = target(X)
        state = network(classes=7).state_dict()
        state["extra"] = state.pop("0.bias")
        torch.save(state, tmp_path / "weights.pt")
        with pytest.raises(InputError) as caught:
            load_weights_into(target, tmp_path / "weights.pt")
        assert "1 missing (0.bias)" in caught.value.got
        assert "1 not in the network (extra)" in caught.value.got
        assert "5.weight (7, 4) instead of (5, 4)" in caught.value.got
        assert torch.equal(target(X), before)

    def test_a_malicious_pickle_is_refused_and_does_not_run(self, tmp_path):
        torch.save({"state_dict": Evil(tmp_path / "ran")}, tmp_path / "weights.pt")
        with pytest.raises(UnsafeFileError, match="Nothing in it was run"):
            load_weights_into(network(), tmp_path / "weights.pt")
        assert not (tmp_path / "ran").exists()
        pickle.loads(pickle.dumps(Evil(tmp_path / "ran")))
        assert (tmp_path / "ran").exists(), "the trap works"

    @pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors"])
    def test_a_damaged_file(self, tmp_path, name):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(InputError, match=name):
            load_weights_into(network(), tmp_path / name)

    def test_no_weights_in_it(self, tmp_path):
        torch.save({"epoch": 3}, tmp_path / "weights.pt")
        with pytest.raises(InputError, match="tensors by name"):
            load_weights_into(network(), tmp_path / "weights.pt")


class TestNames:
    def test_a_factory_beside_the_user(self, tmp_path, monkeypatch):
        (tmp_path / "somebodys_net.py").write_text(
            "from torch import nn\ndef build(width=2):\n    return nn.Linear(3, width)\nready = nn.ReLU()\n"
        )
        monkeypatch.chdir(tmp_path)
        assert load_network("somebodys_net:build", options={"width": 7}).model.out_features == 7
        assert isinstance(load_network("somebodys_net:ready").model, nn.ReLU)
        with pytest.raises(InputError, match=r"such as build, ready; got 'bild'"):
            load_network("somebodys_net:bild")
        with pytest.raises(InputError, match="--arg"):
            load_network("somebodys_net:build", options={"depth": 7})

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("resnet", r"package.module:factory, timm:NAME"),
            ("no_such_package:build", "an importable module"),
            ("math:sqrt", "to take the given arguments"),
            ("builtins:dict", "to return a torch.nn.Module; got dict"),
            ("missing.pt2", "an existing file"),
        ],
    )
    def test_bad_names(self, spec, message):
        with pytest.raises(InputError, match=message):
            load_network(spec)

    def test_timm(self):
        network = load_network("timm:resnet10t", options={"num_classes": 3})
        assert network.model(torch.rand(1, 3, 64, 64)).shape == (1, 3)
        assert network.size is not None
        assert len(network.mean) == 3
        with pytest.raises(InputError, match="Did you mean"):
            load_network("timm:resnet10")


class TestExported:
    @pytest.fixture
    def exported(self, tmp_path) -> tuple[nn.Module, Path]:
        model = network()
        batch = torch.export.Dim("batch", min=1, max=512)
        program = torch.export.export(model, (X,), dynamic_shapes=({0: batch},))
        path = tmp_path / "net.pt2"
        torch.export.save(program, path)
        return model, path

    def test_the_same_network(self, exported):
        model, path = exported
        loaded = load_network(str(path)).model.eval()
        torch.testing.assert_close(loaded(X), model(X))
        assert loaded(X.repeat(4, 1, 1, 1)).shape == (8, 5)
        with pytest.raises(InputError, match="has its own weights"):
            load_network(str(path), weights=path)

    def test_no_archive(self, tmp_path):
        (tmp_path / "net.pt2").write_bytes(b"no")
        with pytest.raises(InputError, match=r"torch\.export\.save"):
            load_network(str(tmp_path / "net.pt2"))


def test_a_loader_is_found_by_its_suffix_or_prefix(tmp_path: Path) -> None:
    """Registered like those in the package; see docs/contributing.md."""
    register_loader(".fold")(lambda spec, options, trust: Network(spec, torch.nn.Flatten(), notes=[str(trust)]))
    register_loader("fold:")(lambda spec, options, trust: Network(spec, torch.nn.Flatten(**options)))
    try:
        (tmp_path / "net.fold").write_bytes(b"")
        assert load_network(str(tmp_path / "net.fold"), trust=True).notes == ["True"]
        assert load_network("fold:flat", options={"start_dim": 2}).model.start_dim == 2
        with pytest.raises(InputError, match="an existing file"):
            load_network(str(tmp_path / "other.fold"))
        with pytest.raises(InputError, match="none: the file has its own weights"):
            load_network(str(tmp_path / "net.fold"), weights=tmp_path / "w.safetensors")
        with pytest.raises(InputError, match=r"fold:NAME, timm:NAME or a file ending in \.fold or \.onnx or \.pt2"):
            load_network("nothing")
    finally:
        del LOADERS._entries[".fold"], LOADERS._entries["fold:"]


class TestOutputs:
    """Networks in Python that return several tensors."""

    @pytest.mark.parametrize(
        ("returned", "output", "index"),
        [("(x, 2 * x)", 1, 2), ("[x, 2 * x]", "0", 1), ("{'a': x, 'b': 2 * x}", "b", 2), ("x", 0, 1)],
    )
    def test_one_is_chosen(self, tmp_path, monkeypatch, returned, output, index):
        name = f"several_{abs(hash(returned))}"
        (tmp_path / f"{name}.py").write_text(
            f"from torch import nn\nclass Net(nn.Module):\n    def forward(self, x):\n        return {returned}\n"
        )
        monkeypatch.chdir(tmp_path)
        network = load_network(f"{name}:Net", output=output)
        assert torch.equal(network.model(torch.ones(2, 3)), index * torch.ones(2, 3))
        assert network.notes[-1] == f"looks at the output {output}"
        with pytest.raises(InputError, match="--output: expected one of"):
            load_network(f"{name}:Net", output="7").model(torch.ones(2, 3))
