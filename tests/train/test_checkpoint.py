from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from intertwine.errors import InputError, StorageError
from intertwine.train import CheckpointWarning, load_weights
from intertwine.train.records._checkpoint import Checkpoint, CheckpointFolder
from tests.train import tiny


def checkpoint(step: int, **tensors: Tensor) -> Checkpoint:
    return Checkpoint(step, {"model": tensors or {"w": torch.full((3,), float(step))}}, {"step": step})


def test_every_kind_of_tensor_comes_back(tmp_path: Path) -> None:
    shared = torch.randn(4, 4)
    tensors = {
        "float": torch.randn(3, 2),
        "double": torch.randn(2, dtype=torch.float64),
        "half": torch.randn(2).bfloat16(),
        "complex": torch.randn(2, dtype=torch.complex128),
        "complex64": torch.randn(2, dtype=torch.complex64),
        "integer": torch.tensor(3),
        "bool": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
        "transposed": torch.randn(3, 5).T,
        "tied": shared,
        "tied too": shared,
        "a view": shared[1:, ::2],
        "a weight": torch.nn.Parameter(torch.randn(2)),
    }
    folder = CheckpointFolder(tmp_path, keep=1)
    folder.save(checkpoint(1, **tensors))
    found = folder.latest()
    assert found is not None
    assert set(found.tensors["model"]) == set(tensors)
    for name, tensor in tensors.items():
        assert torch.equal(found.tensors["model"][name], tensor), name
        assert found.tensors["model"][name].dtype == tensor.dtype


def test_the_last_ones_are_kept(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "c", keep=3)
    assert folder.steps() == []
    assert folder.latest() is None
    for step in (5, 10, 100000000, 15):
        folder.save(checkpoint(step))
    assert folder.steps() == [10, 15, 100000000]


def test_nothing_in_a_checkpoint_is_pickled(tmp_path: Path) -> None:
    tiny.run(tmp_path, epochs=1)
    files = {path.name for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()}
    assert files == {"model.safetensors", "optimizer.safetensors", "ema.safetensors", "state.json"}
    for path in (tmp_path / "checkpoints").rglob("*.safetensors"):
        header = int.from_bytes(path.read_bytes()[:8], "little")
        json.loads(path.read_bytes()[8 : 8 + header])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def alter(path: Path) -> None:
    path.write_text(path.read_text().replace('"epoch": ', '"epoch": 1'))


DAMAGES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "weights cut off": ("model.safetensors", cut, "model.safetensors does not match its checksum"),
    "a bit of the optimizer": ("optimizer.safetensors", flip, "optimizer.safetensors does not match its checksum"),
    "average missing": ("ema.safetensors", Path.unlink, "ema.safetensors is missing"),
    "state missing": ("state.json", Path.unlink, "state.json is missing"),
    "state cut off": ("state.json", cut, "state.json cannot be read"),
    "state altered": ("state.json", alter, "state.json does not match its digest"),
    "state empty": ("state.json", lambda path: path.write_text(""), "state.json cannot be read"),
    "state no object": ("state.json", lambda path: path.write_text("[]"), "state.json cannot be read"),
    "not even text": ("state.json", lambda path: path.write_bytes(b"\xff\xfe\x00"), "state.json cannot be read"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    tiny.run(folder, epochs=2)
    return folder


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_taken(tmp_path: Path, finished: Path, damage: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    file, spoil, message = DAMAGES[damage]
    newest = folder / "checkpoints" / "step-00000012"
    spoil(newest / file)
    with pytest.warns(CheckpointWarning) as caught:
        result = tiny.run(folder, epochs=2)
    (warning,) = [str(item.message) for item in caught]
    assert str(newest) in warning
    assert message in warning
    assert warning.endswith("trying step-00000010")
    assert result.resumed_from == 10
    assert tiny.outcome(folder) == tiny.outcome(finished)
    assert (folder / "checkpoints" / "damaged-step-00000012").is_dir(), "kept for inspection"


def test_with_all_checkpoints_damaged_the_run_begins_anew(tmp_path: Path, finished: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    for file in (folder / "checkpoints").rglob("model.safetensors"):
        cut(file)
    with pytest.warns(CheckpointWarning) as caught:
        result = tiny.run(folder, epochs=2)
    assert [str(item.message).rsplit("; ", 1)[1] for item in caught] == [
        "trying step-00000010",
        "starting from the beginning",
    ]
    assert result.resumed_from is None
    assert tiny.outcome(folder) == tiny.outcome(finished)


def test_a_checkpoint_of_another_schema_is_an_error_and_stays(tmp_path: Path) -> None:
    from intertwine.train import content_hash

    folder = CheckpointFolder(tmp_path, keep=1)
    path = folder.save(checkpoint(1)) / "state.json"
    body = json.loads(path.read_text())
    del body["digest"]
    body["schema"] = 99
    path.write_text(json.dumps({"digest": content_hash(body), **body}))
    with pytest.raises(InputError, match="schema 99"):
        folder.latest(set_aside=True)
    assert folder.steps() == [1]


def test_weights_are_read_by_step(tmp_path: Path, finished: Path) -> None:
    assert set(load_weights(finished)) == set(tiny.network().state_dict())
    assert not torch.equal(load_weights(finished)["0.weight"], load_weights(finished, ema=True)["0.weight"])
    assert not torch.equal(load_weights(finished)["0.weight"], load_weights(finished, step=10)["0.weight"])
    with pytest.raises(StorageError, match=r"whole checkpoint of step 3; .* steps: 10, 12"):
        load_weights(finished, step=3)
    with pytest.raises(InputError, match="no checkpoint"):
        load_weights(tmp_path)


def test_reading_weights_changes_nothing(tmp_path: Path, finished: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    cut(folder / "checkpoints" / "step-00000012" / "model.safetensors")
    before = sorted(path.name for path in folder.rglob("*"))
    with pytest.warns(CheckpointWarning):
        found = load_weights(folder)
    assert torch.equal(found["0.weight"], load_weights(finished, step=10)["0.weight"])
    assert sorted(path.name for path in folder.rglob("*")) == before
