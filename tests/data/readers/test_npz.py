"""Any ``.npz`` file of images and labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from intertwine.data import ImageData, load
from intertwine.errors import InputError, SizeLimitError

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (30, 7, 6, 3), dtype=np.uint8)
LABELS = np.arange(30) % 3


def saved(path: Path, **arrays: object) -> Path:
    np.savez(path / "some.npz", **arrays)  # type: ignore[arg-type]
    return path / "some.npz"


def whole(data: ImageData) -> torch.Tensor:
    """All images in their original order, which the split keeps within each part."""
    order = torch.cat([data.train.positions, data.test.positions]).argsort()  # type: ignore[list-item]
    return torch.cat([data.train.raw(), data.test.raw()])[order]


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 3, 1, 2)])
def test_channels_last_and_first(tmp_path: Path, axes: tuple[int, ...]) -> None:
    data = load(saved(tmp_path, images=IMAGES.transpose(axes), labels=LABELS))
    assert data.shape == (3, 7, 6)
    assert np.array_equal(whole(data).numpy(), IMAGES.transpose(0, 3, 1, 2))


def test_gray_without_a_channel_axis(tmp_path: Path) -> None:
    assert load(saved(tmp_path, images=IMAGES[..., 0], labels=LABELS)).shape == (1, 7, 6)


def test_an_order_that_cannot_be_told_must_be_given(tmp_path: Path) -> None:
    path = saved(tmp_path, images=np.zeros((9, 3, 8, 3), np.uint8), labels=np.arange(9) % 3)
    with pytest.raises(InputError, match=r"got shape \(9, 3, 8, 3\).*layout='NHWC' or 'NCHW'"):
        load(path)
    assert load(path, layout="NHWC").shape == (3, 3, 8)
    assert load(path, layout="NCHW").shape == (3, 8, 3)


def test_a_part_of_every_class_is_held_out_the_same_every_time(tmp_path: Path) -> None:
    path = saved(tmp_path, images=IMAGES, labels=LABELS)
    data = load(path)
    assert data.train.labels.bincount().tolist() == [8, 8, 8]
    assert data.test.labels.bincount().tolist() == [2, 2, 2]
    assert torch.equal(load(path).test.raw(), data.test.raw())
    assert not torch.equal(load(path, seed=1).test.raw(), data.test.raw())
    assert len(load(path, test_fraction=0.0).test) == 0
    with pytest.raises(InputError, match="0 ≤ test_fraction < 1"):
        load(path, test_fraction=1.0)


def test_its_own_split_is_kept(tmp_path: Path) -> None:
    path = saved(tmp_path, x_train=IMAGES[:20], y_train=LABELS[:20, None], x_test=IMAGES[20:], y_test=LABELS[20:])
    data = load(path)
    assert (len(data.train), len(data.test)) == (20, 10)
    assert data.name == "some"
    assert data.train.labels.tolist() == LABELS[:20].tolist()


@pytest.mark.parametrize(
    ("images", "white"),
    [
        (IMAGES, 255.0),
        (IMAGES.astype(np.int32), 255.0),
        (IMAGES.astype(np.float64), 255.0),
        ((IMAGES / 255).astype(np.float16), 1.0),
        (IMAGES > 127, 1.0),
        ((IMAGES > 127).astype(np.uint8), 1.0),
    ],
)
def test_the_range_is_brought_to_one(tmp_path: Path, images: np.ndarray, white: float) -> None:
    data = load(saved(tmp_path, images=images, labels=LABELS), test_fraction=0.0)
    expected = torch.from_numpy(np.asarray(images, dtype=np.float32)).movedim(-1, 1) / white
    assert torch.allclose(data.train.as_tensors()[0], expected)


def test_the_range_is_told_from_both_parts(tmp_path: Path) -> None:
    dark = np.zeros_like(IMAGES[20:])
    path = saved(tmp_path, x_train=IMAGES[:20], y_train=LABELS[:20], x_test=dark + 1, y_test=LABELS[20:])
    assert load(path).test[0][0].max() == pytest.approx(1 / 255)


def test_names_of_classes(tmp_path: Path) -> None:
    assert load(saved(tmp_path, images=IMAGES, labels=LABELS)).classes == ("0", "1", "2")
    path = saved(tmp_path, images=IMAGES, labels=LABELS, classes=np.array(["ant", "bee", "cow"]))
    assert load(path).classes == ("ant", "bee", "cow")
    path = saved(tmp_path, images=IMAGES, labels=LABELS, classes=np.array(["ant", "bee"]))
    with pytest.raises(InputError, match="labels from 0 to 1; got label 2 at position 2"):
        load(path)


def test_size(tmp_path: Path) -> None:
    assert load(saved(tmp_path, images=IMAGES, labels=LABELS), size=(4, 5)).shape == (3, 4, 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": LABELS - 1}, "labels from 0 to 1; got label -1 at position 0"),
        ({"labels": LABELS[:-1]}, "30 labels, one per image; got 29 labels"),
        ({"labels": LABELS * 0.5}, r"whole numbers \(n,\); got float64"),
        ({"images": IMAGES / 255 - 1}, "numbers from 0 to 1 or from 0 to 255; got float64 from -1"),
        ({"images": np.full((30, 4, 4), np.nan)}, "got float64 from nan"),
        ({"images": IMAGES.astype(np.int32) * 2}, "got int32 from 0 to 510"),
        ({"images": IMAGES[0]}, "7 labels, one per image"),
        ({"images": IMAGES[..., 0, 0]}, r"got shape \(30, 7\)"),
    ],
)
def test_wrong_arrays_are_named(tmp_path: Path, change: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(saved(tmp_path, **({"images": IMAGES, "labels": LABELS} | change)))


def test_wrong_names_say_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="arrays x_train, y_train, x_test, y_test, or images, labels; got data, target"
    ):
        load(saved(tmp_path, data=IMAGES, target=LABELS))


class Malicious:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("pickle-has-run"),))


def test_objects_are_refused_and_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    objects = np.array([Malicious()] * 30, dtype=object)
    with pytest.raises(InputError, match="Python objects are refused because loading them can run any code"):
        load(saved(tmp_path, images=objects, labels=LABELS))
    with open(tmp_path / "raw.npz", "wb") as file:
        np.save(file, objects, allow_pickle=True)
    with pytest.raises(InputError, match=r"expected a .npz file of plain arrays"):
        load(tmp_path / "raw.npz")
    assert not Path("pickle-has-run").exists()


def test_other_files_and_damaged_ones(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(InputError, match=r"expected a .npz file of plain arrays"):
        load(tmp_path / "text.npz")
    path = saved(tmp_path, images=IMAGES, labels=LABELS)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"expected a .npz file of plain arrays"):
        load(path)
    broken = bytearray(content)
    broken[400] ^= 0xFF
    path.write_bytes(broken)
    with pytest.raises(InputError, match="expected images as a plain array of numbers; got Bad CRC"):
        load(path)


def test_what_does_not_fit_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, images=IMAGES, labels=LABELS)
    monkeypatch.setenv("INTERTWINE_MEMORY_LIMIT", "1K")
    with pytest.raises(SizeLimitError, match="the array images"):
        load(path)


def test_training_and_test_images_must_agree(tmp_path: Path) -> None:
    path = saved(tmp_path, x_train=IMAGES, y_train=LABELS, x_test=IMAGES[:, :5], y_test=LABELS)
    with pytest.raises(InputError, match=r"training and test images of the same shape; got \(3, 7, 6\) and \(3, 5,"):
        load(path)
