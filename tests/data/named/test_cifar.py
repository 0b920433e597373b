"""CIFAR in each layout it comes in gives the same images; pickles are refused and never run."""

from __future__ import annotations

import io
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from intertwine.data import ImageData, load
from intertwine.data.named._cifar10 import CIFAR10
from intertwine.data.named._cifar100 import COARSE, FINE
from intertwine.errors import InputError

RANDOM = np.random.default_rng(0)
TRAIN, TRAIN_LABELS = RANDOM.integers(0, 256, (20, 3, 32, 32), dtype=np.uint8), np.arange(20, dtype=np.uint8) % 10
TEST, TEST_LABELS = RANDOM.integers(0, 256, (10, 3, 32, 32), dtype=np.uint8), np.arange(10, dtype=np.uint8)[::-1]


def records(images: np.ndarray, *labels: np.ndarray) -> bytes:
    return np.concatenate([*(label[:, None] for label in labels), images.reshape(len(images), -1)], 1).tobytes()


def binary_files() -> dict[str, bytes]:
    batches = {
        f"data_batch_{k + 1}.bin": records(TRAIN[4 * k : 4 * k + 4], TRAIN_LABELS[4 * k : 4 * k + 4]) for k in range(5)
    }
    return {**batches, "test_batch.bin": records(TEST, TEST_LABELS), "batches.meta.txt": b"airplane\n"}


def write_binary(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in binary_files().items():
        (folder / name).write_bytes(content)


def write_tar(path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in binary_files().items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def png_files(*, by_number: bool = False) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for part, images, labels in (("train", TRAIN, TRAIN_LABELS), ("test", TEST, TEST_LABELS)):
        for k, (image, label) in enumerate(zip(images, labels, strict=True)):
            stream = io.BytesIO()
            Image.fromarray(image.transpose(1, 2, 0)).save(stream, "png")
            kind = str(label) if by_number else CIFAR10.classes[label]
            files[f"{part}/{kind}/{k:02}.png"] = stream.getvalue()
    return files


def write_class_folders(root: Path, **kind: bool) -> None:
    for name, content in png_files(**kind).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in png_files().items():
            archive.writestr(f"cifar10/{name}", content)


def write_npz(path: Path) -> None:
    x_train, x_test = TRAIN.transpose(0, 2, 3, 1), TEST.transpose(0, 2, 3, 1)
    np.savez_compressed(path, x_train=x_train, y_train=TRAIN_LABELS[:, None], x_test=x_test, y_test=TEST_LABELS)


def by_content(images: torch.Tensor, labels: torch.Tensor) -> dict[bytes, int]:
    return {image.numpy().tobytes(): int(label) for image, label in zip(images, labels, strict=True)}


def check(data: ImageData, *, ordered: bool = True) -> None:
    assert data.name == "cifar10"
    assert data.classes == CIFAR10.classes
    for split, images, labels in ((data.train, TRAIN, TRAIN_LABELS), (data.test, TEST, TEST_LABELS)):
        if ordered:
            assert np.array_equal(split.raw().numpy(), images)
            assert np.array_equal(split.labels.numpy(), labels)
        expected = by_content(torch.from_numpy(images), torch.from_numpy(labels.copy()))
        assert by_content(split.raw(), split.labels) == expected


@pytest.mark.parametrize("below", ["", "cifar10", "cifar-10-batches-bin", "cifar10/cifar-10-batches-bin"])
def test_binary_files(tmp_path: Path, below: str) -> None:
    write_binary(tmp_path / below)
    check(load("cifar10", folder=tmp_path))


def test_the_original_archive_in_the_folder_or_given_itself(tmp_path: Path) -> None:
    write_tar(tmp_path / "cifar-10-binary.tar.gz")
    check(load("cifar10", folder=tmp_path))
    check(load("cifar10", folder=tmp_path / "cifar-10-binary.tar.gz"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cifar-10-binary.tar.gz"], "nothing is unpacked"


def test_npz(tmp_path: Path) -> None:
    write_npz(tmp_path / "cifar10.npz")
    check(load("cifar10", folder=tmp_path))
    write_npz(tmp_path / "other.npz")
    check(load("cifar10", folder=tmp_path / "other.npz"))


@pytest.mark.parametrize("by_number", [True, False])
@pytest.mark.parametrize("below", ["", "cifar10"])
def test_class_folders_are_numbered_as_in_the_original(tmp_path: Path, below: str, by_number: bool) -> None:
    write_class_folders(tmp_path / below, by_number=by_number)
    check(load("cifar10", folder=tmp_path), ordered=False)


def test_a_zip_of_class_folders(tmp_path: Path) -> None:
    write_zip(tmp_path / "cifar10.zip")
    check(load("cifar10", folder=tmp_path), ordered=False)
    check(load("cifar10", folder=tmp_path / "cifar10.zip"), ordered=False)


def test_truncated_records_and_labels_out_of_range(tmp_path: Path) -> None:
    write_binary(tmp_path)
    whole = (tmp_path / "data_batch_3.bin").read_bytes()
    (tmp_path / "data_batch_3.bin").write_bytes(whole[:-1])
    with pytest.raises(
        InputError, match=r"data_batch_3.bin: expected complete records of 3073 bytes; got 12291 bytes \(tr"
    ):
        load("cifar10", folder=tmp_path)
    (tmp_path / "data_batch_3.bin").write_bytes(whole[:3073] + b"\x0a" + whole[3074:])
    with pytest.raises(InputError, match=r"data_batch_3.bin: expected labels from 0 to 9; got label 10 at position 1"):
        load("cifar10", folder=tmp_path)
    (tmp_path / "data_batch_3.bin").unlink()
    with pytest.raises(
        InputError, match=r"which contains batches.meta.txt, data_batch_1.bin, data_batch_2.bin, data_bat"
    ):
        load("cifar10", folder=tmp_path)


def test_an_archive_without_a_batch_says_which(tmp_path: Path) -> None:
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        content = binary_files()["test_batch.bin"]
        member = tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    with pytest.raises(InputError, match=r"got no data_batch_1.bin, data_batch_2.bin"):
        load("cifar10", folder=tmp_path)


class Malicious:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("pickle-has-run"),))


@pytest.mark.parametrize("layout", ["data_batch_1", "cifar-10-batches-py/data_batch_1", "cifar-10-python.tar.gz"])
def test_pickles_are_refused_with_the_reason_and_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "data" / layout
    path.parent.mkdir(parents=True)
    path.write_bytes(pickle.dumps(Malicious()))
    given = [path.parent if layout == "data_batch_1" else tmp_path / "data"]
    given += [path] if layout.endswith("gz") else []
    for folder in given:
        with pytest.raises(InputError, match="refused because loading one can run any code") as caught:
            load("cifar10", folder=folder)
        assert "cifar-10-binary.tar.gz from https://" in str(caught.value)
    assert not Path("pickle-has-run").exists()


def test_other_images_are_not_taken_for_cifar(tmp_path: Path) -> None:
    np.savez(tmp_path / "cifar10.npz", images=np.zeros((9, 28, 28), np.uint8), labels=np.arange(9) % 3)
    with pytest.raises(InputError, match="expected images of 3 x 32 x 32; got 1 x 28 x 28"):
        load("cifar10", folder=tmp_path)
    write_class_folders(tmp_path / "own")
    (tmp_path / "own/train/cat").rename(tmp_path / "own/train/kitten")
    with pytest.raises(InputError, match=r"class folders among airplane, automobile, bird, .*; got kitten"):
        load("cifar10", folder=tmp_path / "own")


def write_cifar100(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    coarse, fine = np.arange(20, dtype=np.uint8), (np.arange(20, dtype=np.uint8) * 5 + 4)
    (folder / "train.bin").write_bytes(records(TRAIN, coarse, fine))
    (folder / "test.bin").write_bytes(records(TEST, coarse[:10], fine[:10]))


def test_cifar100_has_fine_and_coarse_labels(tmp_path: Path) -> None:
    write_cifar100(tmp_path / "cifar-100-binary")
    fine, coarse = load("cifar100", folder=tmp_path), load("cifar100", folder=tmp_path, labels="coarse")
    assert fine.train.labels.tolist() == list(range(4, 104, 5))
    assert coarse.train.labels.tolist() == list(range(20))
    assert (fine.classes[99], coarse.classes[19]) == ("worm", "vehicles_2")
    assert np.array_equal(fine.train.raw().numpy(), TRAIN)
    assert np.array_equal(coarse.test.raw().numpy(), TEST)
    with pytest.raises(InputError, match="expected labels='fine' or 'coarse'; got 'medium'"):
        load("cifar100", folder=tmp_path, labels="medium")


def test_cifar100_names_are_complete() -> None:
    assert (len(set(FINE)), len(set(COARSE))) == (100, 20)
    assert list(FINE) == sorted(FINE)
    assert list(COARSE) == sorted(COARSE)


def test_coarse_labels_are_not_guessed_from_other_layouts(tmp_path: Path) -> None:
    np.savez(tmp_path / "cifar100.npz", x_train=TRAIN, y_train=TRAIN_LABELS, x_test=TEST, y_test=TEST_LABELS)
    assert load("cifar100", folder=tmp_path).train.labels.tolist() == TRAIN_LABELS.tolist()
    with pytest.raises(InputError, match=r"expected cifar-100-binary.tar.gz"):
        load("cifar100", folder=tmp_path, labels="coarse")
    with pytest.raises(InputError, match="the only file with these labels"):
        load("cifar100", folder=tmp_path / "cifar100.npz", labels="coarse")


def test_records_of_the_other_dataset_do_not_fit(tmp_path: Path) -> None:
    write_cifar100(tmp_path)
    content = (tmp_path / "train.bin").read_bytes()
    write_binary(tmp_path)
    (tmp_path / "data_batch_1.bin").write_bytes(content)
    with pytest.raises(InputError, match="another layout"):
        load("cifar10", folder=tmp_path)
