"""dSprites: the order of the original, the renderer against an obvious twin, the original file without its pickle."""

from __future__ import annotations

import itertools
from math import cos, pi, sin
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from intertwine.data import DSPRITES, FactorGrid, SpriteImages, load
from intertwine.errors import InputError

FILE = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"


def render(*classes: int, size: tuple[int, int] = (64, 64), antialias: bool = False) -> torch.Tensor:
    source = SpriteImages(DSPRITES, size, antialias=antialias)
    return source.read(DSPRITES.index(torch.tensor([classes])))[0, 0]


def test_the_order_is_that_of_the_original() -> None:
    assert DSPRITES.sizes == (3, 6, 40, 32, 32)
    assert len(DSPRITES) == 737280
    # The published bases of the latents, without the color.
    assert DSPRITES.strides == (245760, 40960, 1024, 32, 1)
    some = torch.tensor([0, 1, 31, 32, 1023, 1024, 40959, 40960, 245759, 245760, 737279, 123456])
    expected = np.stack(np.unravel_index(some.numpy(), (3, 6, 40, 32, 32)), 1)
    assert np.array_equal(DSPRITES.classes(some).numpy(), expected)
    assert torch.equal(DSPRITES.index(DSPRITES.classes(some)), some)
    values = DSPRITES.value(torch.tensor([[0, 0, 0, 0, 0], [2, 5, 39, 31, 31], [1, 2, 1, 16, 8]]))
    assert values[0].tolist() == [1, 0.5, 0, 0, 0]
    assert values[1].tolist() == pytest.approx([3, 1, 2 * pi, 1, 1])
    assert values[2].tolist() == pytest.approx([2, 0.7, 2 * pi / 39, 16 / 31, 8 / 31])


def test_the_part_that_the_topographic_vae_uses() -> None:
    every_other = range(0, 30, 2)
    indices = DSPRITES.indices(scale=range(1, 6), orientation=every_other, x=every_other, y=every_other)
    assert len(indices) == 3 * 5 * 15**3
    assert bool((indices.diff() > 0).all())
    classes = DSPRITES.classes(indices)
    assert classes.amin(0).tolist() == [0, 1, 0, 0, 0]
    assert classes.amax(0).tolist() == [2, 5, 28, 28, 28]
    with pytest.raises(InputError, match="factors among shape, scale, orientation, x, y; got color"):
        DSPRITES.indices(color=[0])
    with pytest.raises(InputError, match="largest"):
        DSPRITES.index(torch.tensor([[0, 6, 0, 0, 0]]))


def obvious(shape: int, scale: float, angle: float, x: float, y: float, size: int) -> np.ndarray:
    """One pixel after the other."""
    image = np.zeros((size, size), np.uint8)
    center_x, center_y = ((16.5 + 31 * place) / 64 for place in (x, y))
    for i, j in itertools.product(range(size), range(size)):
        right, up = (j + 0.5) / size - center_x, center_y - (i + 0.5) / size
        u = (cos(angle) * right + sin(angle) * up) / scale
        v = (cos(angle) * up - sin(angle) * right) / scale
        if shape == 1:
            image[i, j] = max(abs(u), abs(v)) <= 0.14 - 1e-9
        elif shape == 2:
            image[i, j] = (u / 0.19) ** 2 + (v / 0.11) ** 2 <= 1 - 1e-9
        else:
            u, v = u / 0.139, v / 0.139
            image[i, j] = (u * u + v * v - 1) ** 3 - u * u * v**3 <= -1e-9
    return image


@pytest.mark.parametrize("size", [64, 24, 7])
def test_the_renderer_agrees_with_the_obvious_one(size: int) -> None:
    indices = torch.randint(len(DSPRITES), (40,), generator=torch.Generator().manual_seed(size))
    corners = DSPRITES.indices(scale=[5], orientation=[0, 5], x=[0, 31], y=[0, 31])
    indices = torch.cat([indices, corners])
    images = SpriteImages(DSPRITES, (size, size)).read(indices)
    for image, factors in zip(images, DSPRITES.value(DSPRITES.classes(indices)), strict=True):
        shape, *rest = factors.tolist()
        assert np.array_equal(image[0].numpy(), obvious(int(shape), *rest, size=size))


def test_one_step_in_position_is_one_pixel_and_nothing_is_cut_off() -> None:
    for shape, scale, orientation in ((0, 5, 5), (1, 5, 3), (2, 5, 0), (2, 0, 17)):
        corner = render(shape, scale, orientation, 0, 0)
        assert torch.equal(render(shape, scale, orientation, 1, 0), corner.roll(1, 1)), "x is to the right"
        assert torch.equal(render(shape, scale, orientation, 0, 1), corner.roll(1, 0)), "y is down"
        assert torch.equal(render(shape, scale, orientation, 31, 31), corner.roll((31, 31), (0, 1)))
    everywhere = SpriteImages(DSPRITES, (64, 64)).read(DSPRITES.indices(scale=[5], x=[0, 31], y=[0, 31]))
    edge = torch.ones(64, 64, dtype=torch.bool)
    edge[1:-1, 1:-1] = False
    assert not everywhere[..., edge].any()


def test_shapes_have_their_symmetries_and_only_these() -> None:
    square = [render(0, 5, k, 15, 15) for k in range(40)]
    # At position 15.5 the middle would be between pixels, so symmetry is checked about the center of the sprite.
    crop = [image[16:48, 16:48] for image in square]
    assert torch.equal(square[0], square[39]), "the last orientation repeats the first, as in the original"
    assert torch.equal(crop[0][:31, :31], crop[0][:31, :31].T)
    hearts = [render(2, 5, k, 15, 15) for k in range(39)]
    assert len({heart.numpy().tobytes() for heart in hearts}) == 39
    heart = hearts[0]
    rows, columns = heart.nonzero().unbind(1)
    assert torch.equal(heart[:, : 2 * 31 + 1], heart[:, : 2 * 31 + 1].flip(1)), "upright, it is its own mirror image"
    widths = heart.sum(1)[rows.min() : rows.max() + 1]
    assert widths[-1] < widths[0], "the tip is down"
    assert columns.float().mean() == 31


def test_orientation_is_counterclockwise() -> None:
    ellipse = render(1, 5, 4, 16, 16)  # 37 degrees
    rows, columns = ellipse.nonzero().double().unbind(1)
    assert torch.corrcoef(torch.stack([columns, -rows]))[0, 1] > 0.4


def test_area_grows_with_scale_and_the_mean_is_that_of_the_original() -> None:
    for shape in range(3):
        small, large = (int(render(shape, scale, 3, 10, 10).sum()) for scale in (0, 5))
        assert large / small == pytest.approx(4, abs=0.4)
    normalization = load("dsprites").normalization
    assert normalization.mean[0] == pytest.approx(0.0425, abs=0.001)
    assert normalization.std[0] == pytest.approx(0.2016, abs=0.002)


def test_anti_aliasing_counts_points_in_a_pixel() -> None:
    soft = load("dsprites", antialias=True)
    index = int(DSPRITES.index(torch.tensor([2, 5, 7, 12, 20])))
    fine = render(2, 5, 7, 12, 20, size=(256, 256)).float().reshape(64, 4, 64, 4).mean((1, 3))
    assert torch.equal(soft.train[index][0][0], fine)
    assert load("dsprites").train[index][0].unique().tolist() == [0.0, 1.0]


def test_it_is_a_dataset_with_factors_as_labels() -> None:
    data = load("dsprites", size=24)
    assert data.origin == "rendered"
    assert data.shape == (1, 24, 24)
    assert len(data.test) == 0
    images, labels = next(iter(DataLoader(data.train.subset(6), batch_size=6)))
    assert images.shape == (6, 1, 24, 24)
    assert labels.shape == (6, 5)
    assert labels[:, 0].bincount().tolist() == [2, 2, 2], "the shapes are balanced"
    assert data.factors is not None
    picked = data.train.select(data.factors.indices(shape=[2], scale=[5], orientation=[0], x=[3], y=[4]))
    assert picked.labels.tolist() == [[2, 5, 0, 3, 4]]
    assert torch.equal(picked[0][0][0].byte(), render(2, 5, 0, 3, 4, size=(24, 24)))


def write_original(path: Path, *, side: int = 8, **change: np.ndarray) -> dict[str, np.ndarray]:
    """A file like the published one with a coarser grid; its ``metadata`` is a pickle, as there."""
    grid = FactorGrid(DSPRITES.names, ((1.0, 2.0, 3.0), (0.5, 1.0), (0.0, 1.5, 3.0), (0.0, 1.0), (0.0, 0.5, 1.0)))
    classes = grid.classes(torch.arange(len(grid)))
    white = np.ones((len(grid), 1))
    arrays = {
        "metadata": np.array({"run": Malicious()}, dtype=object),
        "imgs": np.random.default_rng(0).integers(0, 2, (len(grid), side, side), dtype=np.uint8),
        "latents_classes": np.concatenate([0 * white, classes.numpy()], 1).astype(np.int64),
        "latents_values": np.concatenate([white, grid.value(classes).numpy()], 1),
    } | change
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    return arrays


class Malicious:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("pickle-has-run"),))


@pytest.mark.parametrize("below", ["", "dsprites"])
def test_the_original_file_is_read_and_its_pickle_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / below).mkdir(exist_ok=True)
    arrays = write_original(tmp_path / below / FILE)
    data = load("dsprites", folder=tmp_path)
    assert data.origin.endswith(FILE)
    assert data.factors is not None
    assert data.factors.sizes == (3, 2, 3, 2, 3)
    assert data.factors.values[2] == (0.0, 1.5, 3.0)
    assert np.array_equal(data.train.raw()[:, 0].numpy(), arrays["imgs"])
    assert np.array_equal(data.train.labels.numpy(), arrays["latents_classes"][:, 1:])
    assert torch.equal(data.train.batch(torch.tensor([7]))[0][0, 0], torch.from_numpy(arrays["imgs"][7]).float())
    assert load("dsprites", folder=tmp_path / below / FILE, size=4).shape == (1, 4, 4)
    assert load("dsprites", folder=tmp_path, original=False).origin == "rendered"
    assert not Path("pickle-has-run").exists()


def test_odd_sizes_are_packed_and_unpacked(tmp_path: Path) -> None:
    arrays = write_original(tmp_path / FILE, side=5)
    assert np.array_equal(load("dsprites", folder=tmp_path).train.raw()[:, 0].numpy(), arrays["imgs"])


def test_it_is_rendered_unless_the_file_is_required(tmp_path: Path) -> None:
    assert load("dsprites", folder=tmp_path).origin == "rendered"
    with pytest.raises(InputError, match=rf"expected {FILE} in FOLDER or FOLDER/dsprites; got .*, which is empty"):
        load("dsprites", folder=tmp_path, original=True)


def test_files_that_are_not_the_original(tmp_path: Path) -> None:
    arrays = write_original(tmp_path / FILE)
    shuffled = arrays["latents_classes"][::-1]
    for change, message in (
        ({"latents_classes": shuffled}, "in order, each combination once"),
        ({"latents_values": arrays["latents_values"][:, :4]}, "in order, each combination once"),
        ({"imgs": arrays["imgs"][:-1]}, "expected 108 images; got 107"),
        ({"imgs": arrays["imgs"] * 7}, "pixels that are on or off"),
        ({"imgs": arrays["imgs"].astype(np.float32)}, r"imgs \(n, height, width\) of bytes; got float32"),
    ):
        write_original(tmp_path / FILE, **change)
        with pytest.raises(InputError, match=message):
            load("dsprites", folder=tmp_path)
    np.savez(tmp_path / FILE, imgs=arrays["imgs"])
    with pytest.raises(InputError, match="got no latents_classes, latents_values"):
        load("dsprites", folder=tmp_path)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    write_original(tmp_path / FILE, side=16)
    content = bytearray((tmp_path / FILE).read_bytes())
    start = content.index(b"imgs.npy")
    for place in (start + 200, start + 1500):
        content[place] ^= 0xFF
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(InputError, match="expected a complete file"):
        load("dsprites", folder=tmp_path)


def test_a_part_can_be_held_out() -> None:
    data = load("dsprites", test_fraction=0.25)
    assert data.train.labels[:, 0].bincount().tolist() == [184320] * 3
    assert data.test.labels[:, 0].bincount().tolist() == [61440] * 3
