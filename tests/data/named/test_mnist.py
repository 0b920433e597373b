"""IDX files, as MNIST and Fashion-MNIST come in: true ones are read exactly, damaged ones are named."""

from __future__ import annotations

import gzip
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch

from intertwine.data import describe, load
from intertwine.data.named import _mnist
from intertwine.errors import InputError, SizeLimitError
from tests.data.files import idx_bytes, write_mnist


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("below", ["", "mnist", "MNIST/raw"])
def test_what_is_written_is_read(tmp_path: Path, below: str, compress: bool) -> None:
    arrays = write_mnist(tmp_path / below, compress=compress)
    data = load("mnist", folder=tmp_path)
    for split, part in ((data.train, "train"), (data.test, "t10k")):
        assert np.array_equal(split.raw()[:, 0].numpy(), arrays[f"{part}-images-idx3-ubyte"])
        assert np.array_equal(split.labels.numpy(), arrays[f"{part}-labels-idx1-ubyte"])
    assert data.shape == (1, 28, 28)
    assert data.origin == str(tmp_path / below)


def test_the_spelling_with_a_dot_is_known(tmp_path: Path) -> None:
    write_mnist(tmp_path, compress=False)
    for path in list(tmp_path.iterdir()):
        path.rename(path.with_name(path.name.replace("-idx", ".idx")))
    assert len(load("mnist", folder=tmp_path).test) == 20


def test_two_datasets_share_a_folder(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist", train=30)
    write_mnist(tmp_path / "fashion-mnist", train=40)
    assert len(load("mnist", folder=tmp_path).train) == 30
    fashion = load("fashion-mnist", folder=tmp_path)
    assert len(fashion.train) == 40
    assert fashion.classes[9] == "Ankle boot"


def test_without_a_folder_it_is_looked_for_where_datasets_are_kept(tmp_path: Path) -> None:
    write_mnist(tmp_path / "kept" / "mnist")
    assert len(load("mnist").train) == 30


def test_the_files_of_the_other_dataset_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = write_mnist(tmp_path)
    digest = sha256(arrays["t10k-labels-idx1-ubyte"].tobytes()).hexdigest()
    monkeypatch.setattr(_mnist, "FASHION_MNIST", replace(_mnist.FASHION_MNIST, test_labels=digest))
    with pytest.raises(InputError, match=r"expected the files of mnist; got the files of fashion-mnist"):
        load("mnist", folder=tmp_path)


def test_a_wrong_folder_says_what_was_looked_for_and_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputError) as caught:
        load("mnist", folder=tmp_path)
    text = str(caught.value)
    assert "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte" in text
    assert "FOLDER/mnist, FOLDER/MNIST/raw" in text
    assert "which contains notes.txt, pictures/" in text
    assert f"put the files into {tmp_path / 'mnist'}" in text
    assert "train-images-idx3-ubyte.gz" in text
    with pytest.raises(InputError, match="missing, which does not exist"):
        load("mnist", folder=tmp_path / "missing")
    with pytest.raises(InputError, match="pictures, which is empty"):
        load("mnist", folder=tmp_path / "pictures")


def damage(folder: Path, name: str, content: bytes, *, compress: bool = False) -> None:
    write_mnist(folder, compress=False)
    (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with 00 00 08 03; got an empty file"),
        (idx_bytes(np.zeros((30,))), "begins with 00 00 08 03; got 00 00 08 01"),
        (b"\x00\x00\x0d\x03" + bytes(20), "got 00 00 0d 03"),
        (idx_bytes(np.zeros((30, 28, 28)))[:10], "IDX header of 3 lengths; got a file that ends after 10 bytes"),
        (idx_bytes(np.zeros((30, 28, 28)))[:-5], r"23520 bytes for 30 x 28 x 28; got 23515 \(truncated\)"),
        (idx_bytes(np.zeros((30, 28, 28))) + b"x", "23520 bytes for 30 x 28 x 28; got more"),
        (gzip.compress(idx_bytes(np.zeros((30, 28, 28))), mtime=0)[:-20], "expected a complete gzip file"),
        (
            gzip.compress(idx_bytes(np.zeros((30, 28, 28))), mtime=0)[:30] + b"garbage" * 9,
            "expected a complete gzip file",
        ),
        (idx_bytes(np.zeros((29, 28, 28))), "29 labels, one per image; got 30 labels"),
    ],
    # named, because bytes in an identifier differ between processes as soon as they hold a time stamp
    ids=[
        "empty",
        "labels-for-images",
        "floats",
        "short-header",
        "truncated",
        "too-long",
        "gzip-cut",
        "gzip-garbage",
        "one-image-less",
    ],
)
def test_damaged_images_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    damage(tmp_path, "train-images-idx3-ubyte", content)
    with pytest.raises(InputError, match=message) as caught:
        load("mnist", folder=tmp_path)
    assert "train-" in str(caught.value)


def test_labels_out_of_range_are_named(tmp_path: Path) -> None:
    labels = np.arange(30) % 10
    labels[17] = 12
    damage(tmp_path, "train-labels-idx1-ubyte", idx_bytes(labels))
    with pytest.raises(InputError, match=r"labels from 0 to 9; got label 12 at position 17 \(out of range\)"):
        load("mnist", folder=tmp_path)


def test_a_header_that_promises_too_much_allocates_nothing(tmp_path: Path) -> None:
    damage(tmp_path, "train-images-idx3-ubyte", b"\x00\x00\x08\x03" + b"\xff" * 12)
    with pytest.raises(SizeLimitError, match="4294967295 x 4294967295 x 4294967295 bytes"):
        load("mnist", folder=tmp_path)


def test_a_compressed_file_is_read_no_further_than_its_header_says(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    bomb = gzip.compress(idx_bytes(np.zeros((30, 28, 28))) + bytes(200_000_000))
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(bomb)
    with pytest.raises(InputError, match="got more"):
        load("mnist", folder=tmp_path)


def test_published_files_are_listed_with_digests() -> None:
    for dataset in (_mnist.MNIST, _mnist.FASHION_MNIST):
        assert len({resource.sha256 for resource in dataset.resources}) == 4
        assert all(len(resource.sha256) == 64 and resource.size > 4000 for resource in dataset.resources)
    assert {r.sha256 for r in _mnist.MNIST.resources}.isdisjoint(r.sha256 for r in _mnist.FASHION_MNIST.resources)
    assert "plain or .gz" in describe("mnist").files


def test_images_are_bytes_and_share_no_memory_between_loads(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    first, second = load("mnist", folder=tmp_path).train.raw(), load("mnist", folder=tmp_path).train.raw()
    assert first.dtype == torch.uint8
    first.zero_()
    assert second.any()
