"""Images turned by any angle."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.functional import affine_grid, grid_sample

from intertwine.data import load, random_rotation
from intertwine.data.named import _rotated_mnist
from intertwine.errors import InputError
from tests.data.files import write_mnist


def test_a_turn_keeps_the_center_and_fills_with_zeros() -> None:
    images = torch.zeros(50, 1, 9, 9)
    images[:, :, 4, 4] = 1
    turned = random_rotation(images, torch.Generator().manual_seed(0))
    assert torch.allclose(turned[:, 0, 4, 4], torch.ones(50), atol=1e-5)
    corners = random_rotation(torch.ones(50, 1, 9, 9), torch.Generator().manual_seed(0))[:, 0, 0, 0]
    assert bool((corners < 0.5).any())


def test_angles_are_bounded_and_drawn_for_each_image() -> None:
    ramp = torch.linspace(-1, 1, 21).expand(1, 21, 21)
    batch = ramp.expand(200, 1, 21, 21)
    turned = random_rotation(batch, torch.Generator().manual_seed(1), degrees=30)
    # a ramp turned by a has the slope cos a along the width and ± sin a along the height
    dx, dy = turned[:, 0, 10, 12] - turned[:, 0, 10, 8], turned[:, 0, 12, 10] - turned[:, 0, 8, 10]
    angle = torch.rad2deg(torch.atan2(dy, dx))
    assert angle.abs().max() < 30.5
    assert angle.abs().max() > 25
    assert len(angle.round(decimals=3).unique()) > 150


def test_a_rectangle_is_turned_not_sheared() -> None:
    """Distances are kept also where height and width differ."""
    image = torch.zeros(1, 1, 21, 61)
    image[..., 10, 34] = 1
    turned = random_rotation(image.expand(30, 1, 21, 61), torch.Generator().manual_seed(0))
    y, x = torch.meshgrid(torch.arange(21.0) - 10, torch.arange(61.0) - 30, indexing="ij")
    mass = turned.sum((1, 2, 3))
    center = torch.stack([(turned[:, 0] * axis).sum((1, 2)) / mass for axis in (x, y)], -1)
    assert torch.allclose(center.norm(dim=-1), torch.full((30,), 4.0), atol=0.15)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_turns_are_those_of_affine_grid(dtype: torch.dtype, bound: float) -> None:
    images = torch.rand(20, 3, 12, 17, dtype=dtype)
    angle = (2 * torch.rand(20, generator=torch.Generator().manual_seed(3), dtype=torch.float64) - 1) * torch.pi
    cos, sin, zero, stretch = angle.cos(), angle.sin(), torch.zeros(20), 12 / 17
    rows = [cos, -sin * stretch, zero], [sin / stretch, cos, zero]
    turn = torch.stack([torch.stack(row, -1) for row in rows], 1).to(dtype)
    expected = grid_sample(images, affine_grid(turn, [20, 3, 12, 17], align_corners=False), align_corners=False)
    assert (random_rotation(images, torch.Generator().manual_seed(3)) - expected).abs().max() < bound


def test_rotated_mnist(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    data, again = load("rotated-mnist", folder=tmp_path), load("rotated-mnist", folder=tmp_path)
    plain = load("mnist", folder=tmp_path)
    assert torch.equal(data.test.raw(), again.test.raw()), "the angles are part of the dataset"
    assert torch.equal(data.test.labels, plain.test.labels)
    assert not torch.equal(data.test.raw(), plain.test.raw())
    assert data.shape == (1, 28, 28)
    with pytest.raises(InputError, match="more than 12000 training digits"):
        load("rotated-mnist", folder=tmp_path, evaluate="val")


def test_rotated_mnist_uses_every_digit_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rotation, to recognize them: training, test and validation images together are those of MNIST."""
    monkeypatch.setattr(_rotated_mnist, "TRAIN", 12)
    monkeypatch.setattr(_rotated_mnist, "VALIDATION", 8)
    monkeypatch.setattr(_rotated_mnist, "random_rotation", lambda images, generator: images)
    write_mnist(tmp_path)
    data, validation = load("rotated-mnist", folder=tmp_path), load("rotated-mnist", folder=tmp_path, evaluate="val")
    plain = load("mnist", folder=tmp_path)
    assert (len(data.train), len(data.test), len(validation.test)) == (12, 30, 8)
    digits = {image.numpy().tobytes(): int(label) for part in (plain.train, plain.test) for image, label in part}
    parts = (data.train, data.test, validation.test)
    assert {image.numpy().tobytes(): int(label) for part in parts for image, label in part} == digits
    assert torch.equal(data.test.raw()[:20], plain.test.raw()), "first the test digits of MNIST"
