"""Names and paths, registration, and what importing the room costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from intertwine.data import ImageData, data_folder, describe, load, names, register_dataset
from intertwine.data._registry import unregister_dataset
from intertwine.errors import InputError


def test_an_unknown_name_lists_the_known_ones() -> None:
    every = (
        "bars-by-color, bars-by-direction, celeba, cifar10, cifar100, digits, digits-but-six, digits-few, "
        "digits-mirrored, digits-rotated, digits-shuffled, digits-turned, digits6-180, dsprites, fashion-mnist, "
        "ising, mnist, mnist6-180, rotated-mnist, tic-tac-toe, tic-tac-toe-corner"
    )
    with pytest.raises(InputError, match=rf"dataset among {every}, or the path .*got 'fasion-mnist', .*mean 'fashion-"):
        load("fasion-mnist")
    with pytest.raises(InputError, match=rf"among {every}; got 'xyzzy'"):
        describe("xyzzy")


def test_a_path_that_does_not_exist_or_is_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a name nor an existing path"):
        load(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputError, match=r"notes.txt', a file of another kind"):
        load(tmp_path / "notes.txt")


def test_a_relative_path_is_looked_for_in_the_folder_too(folders: Callable[..., Path]) -> None:
    root = folders("train", "test")
    assert len(load("pets", folder=root.parent).train) == 10
    assert len(load(Path("pets") / "train", folder=root.parent).train) == 8


def test_unknown_options_list_the_known_ones() -> None:
    with pytest.raises(InputError, match="options of cifar100: labels; got lables"):
        load("cifar100", lables="fine")
    with pytest.raises(InputError, match="options of digits: none; got antialias, seed"):
        load("digits", seed=1, antialias=True)


@pytest.mark.parametrize("name", names())
def test_every_dataset_says_what_it_is_and_which_files_it_wants(name: str) -> None:
    entry = describe(name)
    assert entry.name == name
    assert entry.about.endswith(".")
    assert "FOLDER" in entry.files or entry.files.startswith("none")
    assert (entry.read.__doc__ or "").strip()


@pytest.fixture
def _toy() -> Iterator[None]:
    @register_dataset("toy", about="A toy.", files="none")
    def toy(folder: Path | None, *, download: bool, n: int = 3) -> ImageData:
        return load("digits").subset(n)

    yield
    unregister_dataset("toy")


@pytest.mark.usefixtures("_toy")
def test_a_dataset_is_added_by_registering_its_reader() -> None:
    assert "toy" in names()
    assert len(load("toy").train) == 3
    assert load("toy", n=5, size=4).train.shape == (1, 4, 4)
    assert describe("toy").options == ("n",)
    with pytest.raises(InputError, match="expected a name that is not taken; got 'toy', which is taken"):
        register_dataset("toy", about="", files="")(lambda folder, *, download: load("digits"))


def test_where_datasets_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_folder() == tmp_path / "kept"
    monkeypatch.delenv("INTERTWINE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "intertwine" / "data"


def test_a_folder_called_like_a_dataset_is_reached_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load("digits").name == "digits"
    with pytest.raises(InputError, match="class folder"):
        load("./digits")
