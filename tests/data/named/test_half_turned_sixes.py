"""Sixes and their half turns."""

from __future__ import annotations

from pathlib import Path

import torch

from intertwine.data import load
from tests.data.files import write_mnist


def test_a_random_half_of_the_sixes_is_turned(tmp_path: Path) -> None:
    arrays = write_mnist(tmp_path, train=400, test=205)
    data = load("mnist6-180", folder=tmp_path)
    assert repr(data) == "ImageData(mnist6-180: 40 train, 20 test, 1 x 28 x 28, 2 classes)"
    sixes = torch.from_numpy(arrays["train-images-idx3-ubyte"][arrays["train-labels-idx1-ubyte"] == 6])[:, None]
    images, labels = data.train.raw(), data.train.labels
    assert int(labels.sum()) == 20
    assert torch.equal(images[labels == 0], sixes[labels == 0])
    assert torch.equal(images[labels == 1], sixes[labels == 1].flip(-1).flip(-2))
    assert not torch.equal(images[labels == 1], sixes[labels == 1])
    assert 0 < int(labels[:20].sum()) < 20, "not the first half"
    assert torch.equal(load("mnist6-180", folder=tmp_path).train.labels, labels), "always the same half"
    assert not torch.equal(data.test.labels, labels[:20]), "another half of the test images"


def test_pixels_are_scaled_as_those_they_come_from(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    plain, sixes = load("mnist", folder=tmp_path).test, load("mnist6-180", folder=tmp_path).test
    upright = sixes.labels == 0
    assert torch.equal(sixes.as_tensors()[0][upright], plain.as_tensors()[0][plain.labels == 6][upright])


def test_the_embedded_sixes() -> None:
    data, plain = load("digits6-180"), load("digits")
    assert len(data.train) == int((plain.train.labels == 6).sum()) == 2 * int(data.train.labels.sum())
    assert data.shape == (1, 8, 8)
    assert data.classes == ("upright", "turned by 180°")
    assert float(data.train.as_tensors()[0].max()) == 1
