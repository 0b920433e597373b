"""Class folders: splits, labels, sizes, kinds of images, and files that cannot be read."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from intertwine.data import SkippedImagesWarning, load
from intertwine.errors import InputError
from tests.data.files import picture

Folders = Callable[..., Path]


@pytest.mark.parametrize("other", ["test", "val", "validation"])
def test_its_own_split(folders: Folders, other: str) -> None:
    data = load(folders("train", other))
    assert (len(data.train), len(data.test)) == (10, 10)
    assert data.classes == ("cat", "dog")
    assert data.shape == (3, 5, 6)
    assert data.name == "pets"
    assert data.train.labels.tolist() == data.test.labels.tolist() == [0] * 5 + [1] * 5


def test_test_goes_before_val(folders: Folders) -> None:
    root = folders("train", "test", "val")
    data = load(root)
    expected = np.asarray(Image.open(root / "test/cat/0.png")).transpose(2, 0, 1)
    assert np.array_equal(data.test.raw()[0].numpy(), expected)


@pytest.mark.parametrize("lazy", [True, False])
def test_pixels_are_those_of_the_files(tmp_path: Path, lazy: bool) -> None:
    pixels = [picture(tmp_path / "pets" / "cat" / f"{k}.png", seed=k) for k in range(4)]
    data = load(tmp_path / "pets", test_fraction=0.0, lazy=lazy)
    assert data.train.source.in_memory != lazy
    for k in range(4):
        image, label = data.train[k]
        assert torch.equal(image, torch.from_numpy(pixels[k]).movedim(-1, 0).float() / 255)
        assert label == 0


def test_lazy_and_eager_agree_and_workers_can_read(folders: Folders) -> None:
    root = folders("train", "test")
    eager, lazy = load(root, size=4).train.as_tensors()[0], load(root, size=4, lazy=True).train
    assert torch.equal(lazy.as_tensors()[0], eager)
    assert torch.equal(torch.cat([images for images, _ in DataLoader(lazy, batch_size=3, num_workers=2)]), eager)
    assert torch.equal(pickle.loads(pickle.dumps(lazy)).as_tensors()[0], eager)


def test_large_sets_are_lazy_by_themselves(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    from intertwine.data.readers import _class_folder

    root = folders("train", "test")
    assert load(root).train.source.in_memory
    monkeypatch.setattr(_class_folder, "_EAGER_BYTES", 100)
    assert not load(root).train.source.in_memory


def test_a_part_is_held_out_by_name_not_by_order(folders: Folders) -> None:
    root = folders(n=10)
    data = load(root)
    assert data.train.labels.bincount().tolist() == [8, 8]
    assert data.test.labels.bincount().tolist() == [2, 2]
    assert torch.equal(load(root).test.raw(), data.test.raw())
    assert not torch.equal(load(root, seed=1).test.raw(), data.test.raw())
    assert load(root, test_fraction=0.5).test.labels.bincount().tolist() == [5, 5]
    # A file that joins later changes at most one other: the digests of the old ones stay as they are.
    before = {image.numpy().tobytes() for image in data.test.raw()}
    picture(root / "cat" / "new.png", seed=99)
    after = {image.numpy().tobytes() for image in load(root).test.raw()}
    assert len(before & after) >= 3


def test_deeper_folders_belong_to_their_class_and_other_files_do_not_matter(folders: Folders) -> None:
    root = folders("train", "test")
    picture(root / "train" / "cat" / "more" / "x.JPG", seed=50)
    (root / "train" / "cat" / "notes.txt").write_text("x")
    (root / "train" / ".hidden").mkdir()
    (root / "README.md").write_text("x")
    assert load(root).train.labels.bincount().tolist() == [6, 5]


def test_a_class_may_be_called_train(folders: Folders) -> None:
    assert load(folders(classes=("bus", "train"))).classes == ("bus", "train")
    root = folders("train", "test", classes=("bus", "train"))
    for part in ("bus", "train"):
        for file in (root / part).glob("*.png"):
            file.unlink()
    (root / "bus").rmdir()
    assert load(root).classes == ("bus", "train")


def test_numbered_classes_are_in_the_order_of_the_numbers(folders: Folders) -> None:
    data = load(folders("train", "test", classes=("0", "1", "2", "10"), n=1))
    assert data.classes == ("0", "1", "2", "10")


def encoded(mode: str, kind: str, size: tuple[int, int] = (5, 4)) -> bytes:
    stream = io.BytesIO()
    gray = np.random.default_rng(0).integers(0, 256, (size[1], size[0]), dtype=np.uint8)
    image = Image.fromarray(gray.astype(np.uint16) * 257) if mode == "I;16" else Image.fromarray(gray).convert(mode)
    image.save(stream, kind)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("mode", "kind", "channels"),
    [
        ("L", "png", 1),
        ("1", "png", 1),
        ("LA", "png", 1),
        ("I;16", "png", 1),
        ("L", "jpeg", 1),
        ("L", "tiff", 1),
        ("RGB", "bmp", 3),
        ("RGB", "webp", 3),
        ("RGBA", "png", 3),
        ("P", "gif", 3),
        ("CMYK", "jpeg", 3),
    ],
)
def test_kinds_of_images(tmp_path: Path, mode: str, kind: str, channels: int) -> None:
    for label in ("a", "b"):
        (tmp_path / "set" / label).mkdir(parents=True)
        (tmp_path / "set" / label / f"x.{kind}").write_bytes(encoded(mode, kind))
    data = load(tmp_path / "set", test_fraction=0.0)
    assert data.shape == (channels, 4, 5)
    gray = np.random.default_rng(0).integers(0, 256, (4, 5), dtype=np.uint8)
    if mode in ("L", "I;16", "RGBA", "LA") and kind == "png":
        assert np.array_equal(data.train.raw()[0, 0].numpy(), gray)
    assert load(tmp_path / "set", channels=4 - channels, test_fraction=0.0).shape == (4 - channels, 4, 5)


def test_gray_among_color_becomes_color(tmp_path: Path) -> None:
    gray = picture(tmp_path / "set" / "a" / "x.png", mode="L")
    picture(tmp_path / "set" / "b" / "y.png")
    data = load(tmp_path / "set", test_fraction=0.0)
    assert data.shape[0] == 3
    assert np.array_equal(data.train.raw()[0].numpy(), np.stack([gray] * 3))


def test_mixed_sizes_need_a_size(tmp_path: Path) -> None:
    picture(tmp_path / "set" / "a" / "x.png", size=(8, 8))
    picture(tmp_path / "set" / "b" / "y.png", size=(12, 6))
    with pytest.raises(InputError, match=r"one size, or size=; got 2 sizes in .*8 x 8 \(a/x.png\), 6 x 12 \(b/y.png\)"):
        load(tmp_path / "set")
    assert load(tmp_path / "set", size=5, test_fraction=0.0).shape == (3, 5, 5)
    assert load(tmp_path / "set", size=(5, 7), test_fraction=0.0).shape == (3, 5, 7)


def test_cropping_keeps_the_middle_and_the_aspect_ratio(tmp_path: Path) -> None:
    image = np.zeros((4, 12), np.uint8)
    image[:, 4:8] = 200
    (tmp_path / "set" / "a").mkdir(parents=True)
    Image.fromarray(image).save(tmp_path / "set" / "a" / "x.png")
    root = tmp_path / "set"
    assert load(root, size=4, test_fraction=0.0).train.raw().unique().tolist() == [200]
    # Like resizing the shorter side and cropping then: what is cropped still takes part in the interpolation.
    smaller = np.asarray(Image.fromarray(image).resize((6, 2), Image.Resampling.BILINEAR))[:, 2:4]
    assert np.array_equal(load(root, size=2, test_fraction=0.0).train.raw()[0, 0].numpy(), smaller)
    stretched = load(root, size=4, fit="stretch", test_fraction=0.0).train.raw()
    assert stretched[0, 0, 0, 0] == 0
    ramp = np.tile(np.arange(0, 160, 10, dtype=np.uint8), (16, 1))
    Image.fromarray(ramp).save(root / "a" / "x.png")
    kept = load(root, size=8, crop_ratio=0.5, test_fraction=0.0).train.raw()[0, 0, 0]
    assert kept.tolist() == list(range(40, 120, 10))
    half = load(root, size=4, crop_ratio=0.5, test_fraction=0.0).train.raw()[0, 0].numpy()
    assert np.array_equal(half, np.asarray(Image.fromarray(ramp).resize((8, 8), Image.Resampling.BILINEAR))[2:6, 2:6])
    with pytest.raises(InputError, match="expected fit='crop' or 'stretch'"):
        load(root, fit="bend")


def test_rounding_never_leads_out_of_the_image(tmp_path: Path) -> None:
    # 23 / 41 * 41 is more than 23 in floating point, and Pillow refuses a box that is wider than the image.
    assert 23 / 41 * 41 > 23
    picture(tmp_path / "set" / "a" / "x.png", size=(23, 30))
    for size in (41, *range(1, 30)):
        for ratio in (1.0, 0.875):
            assert len(load(tmp_path / "set", size=size, crop_ratio=ratio, test_fraction=0.0).train) == 1


def test_unreadable_images_are_named_skipped_and_counted(folders: Folders) -> None:
    root = folders("train", "test")
    whole = (root / "train/cat/0.png").read_bytes()
    (root / "train/cat/broken.png").write_bytes(whole[: len(whole) // 2])
    (root / "train/dog/text.jpg").write_text("not an image")
    (root / "test/dog/empty.png").write_bytes(b"")
    with pytest.warns(SkippedImagesWarning, match="3 unreadable image") as caught:
        data = load(root)
    assert (len(data.train), len(data.test)) == (10, 10)
    assert {bad.path for bad in data.skipped} == {"train/cat/broken.png", "train/dog/text.jpg", "test/dog/empty.png"}
    assert "train/dog/text.jpg (not an image)" in str(caught[0].message)
    assert caught[0].filename == __file__, "the warning points at the caller"
    assert data.train.labels.tolist() == [0] * 5 + [1] * 5


def test_a_truncated_file_in_a_lazy_set_is_named_when_it_is_read(folders: Folders) -> None:
    root = folders("train", "test")
    whole = (root / "train/cat/0.png").read_bytes()
    (root / "train/cat/0.png").write_bytes(whole[:-30])
    data = load(root, lazy=True)
    data.train[1]
    with pytest.raises(InputError, match=r"train/cat/0.png: expected a complete image; got .*lazy=False"):
        data.train[0]


def test_a_file_that_vanishes_is_named(folders: Folders) -> None:
    root = folders("train", "test")
    data = load(root, lazy=True)
    (root / "train/cat/0.png").unlink()
    with pytest.raises(InputError, match=r"train/cat/0.png.*No such file"):
        data.train[0]


def test_an_empty_class_folder(folders: Folders) -> None:
    root = folders("train", "test")
    (root / "train" / "emu").mkdir()
    with pytest.raises(InputError, match=r"expected images in every class folder; got .* with the empty train/emu"):
        load(root)
    (root / "train" / "emu" / "notes.txt").write_text("x")
    with pytest.raises(InputError, match="with the empty train/emu"):
        load(root)
    (root / "train" / "emu" / "bad.png").write_text("x")
    with pytest.raises(InputError, match=r"at least one readable image in every class; got .* with none in emu"):
        load(root)


def test_other_layouts_say_what_is_there(tmp_path: Path, folders: Folders) -> None:
    root = folders("train")
    with pytest.raises(InputError, match=r"ROOT/train/CLASS/\*.png .* got .* with train/ only. Load .*train itself"):
        load(root)
    assert len(load(root / "train").train) == 8
    (root / "train").rename(root / "val")
    with pytest.raises(InputError, match="with val/ only"):
        load(root)
    flat = tmp_path / "flat"
    picture(flat / "x.png")
    with pytest.raises(InputError, match=r"flat, which contains x.png. .*load\(NAME, folder="):
        load(flat)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty, which is empty"):
        load(tmp_path / "empty")


def test_a_class_only_for_testing(folders: Folders) -> None:
    root = folders("train", "test")
    picture(root / "test" / "emu" / "x.png")
    with pytest.raises(InputError, match="the same classes for testing as for training; got emu"):
        load(root)


def test_options_are_checked(folders: Folders) -> None:
    root = folders("train", "test")
    with pytest.raises(InputError, match=r"expected options of .*size, channels, fit, .*; got sise"):
        load(root, sise=5)
