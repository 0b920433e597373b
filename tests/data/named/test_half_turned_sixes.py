"""Sixes and their half turns."""

from __future__ import annotations

from pathlib import Path

import torch

from intertwine.data import load
from tests.data.files import write_mnist


def test_every_six_is_followed_by_its_half_turn(tmp_path: Path) -> None:
    arrays = write_mnist(tmp_path, train=40, test=20)
    data = load("mnist6-180", folder=tmp_path)
    assert repr(data) == "ImageData(mnist6-180: 8 train, 4 test, 1 x 28 x 28, 2 classes)"
    assert data.train.labels.tolist() == [0, 1] * 4
    sixes = torch.from_numpy(arrays["train-images-idx3-ubyte"][arrays["train-labels-idx1-ubyte"] == 6])[:, None]
    images = data.train.raw()
    assert torch.equal(images[::2], sixes)
    assert torch.equal(images[1::2], sixes.flip(-1).flip(-2))
    assert not torch.equal(images[1::2], sixes)


def test_pixels_are_scaled_as_those_they_come_from(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    plain, sixes = load("mnist", folder=tmp_path).test, load("mnist6-180", folder=tmp_path).test
    assert torch.equal(sixes.as_tensors()[0][::2], plain.as_tensors()[0][plain.labels == 6])


def test_the_embedded_sixes() -> None:
    data, plain = load("digits6-180"), load("digits")
    assert len(data.train) == 2 * int((plain.train.labels == 6).sum())
    assert data.shape == (1, 8, 8)
    assert data.classes == ("upright", "turned by 180°")
    assert float(data.train.as_tensors()[0].max()) == 1
