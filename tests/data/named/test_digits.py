"""The embedded digits are those that everybody knows."""

from __future__ import annotations

import hashlib
from importlib.resources import files

import torch

from intertwine.data import load


def test_counts_and_scale() -> None:
    data = load("digits")
    assert (len(data.train), len(data.test)) == (1437, 360)
    labels = torch.cat([data.train.labels, data.test.labels])
    assert labels.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert data.test.labels.bincount().tolist() == [35, 36, 35, 37, 37, 37, 37, 36, 33, 37]
    assert data.train.raw().max() == 16
    assert data.train.as_tensors()[0].max() == 1.0
    assert data.classes == tuple("0123456789")


def test_pixels_are_those_of_the_published_set() -> None:
    data = load("digits")
    assert data.train.raw()[0, 0].tolist() == [
        [0, 0, 5, 13, 9, 1, 0, 0],
        [0, 0, 13, 15, 10, 15, 5, 0],
        [0, 3, 15, 2, 0, 11, 8, 0],
        [0, 4, 12, 0, 0, 8, 8, 0],
        [0, 5, 8, 0, 0, 9, 8, 0],
        [0, 4, 11, 0, 1, 12, 7, 0],
        [0, 2, 14, 5, 10, 12, 0, 0],
        [0, 0, 6, 13, 10, 0, 0, 0],
    ]
    raw = torch.cat([data.train.raw(), data.test.raw()])
    assert (
        hashlib.sha256(raw.numpy().tobytes()).hexdigest()
        == "8f26b2bd9d135c256808f68f14fdabddde6d9c7f869ae419704b051f0f14b3b3"
    )


def test_the_attribution_travels_with_the_data() -> None:
    text = (files("intertwine.data.named") / "digits.txt").read_text(encoding="utf-8")
    assert "Alpaydin" in text
    assert "CC BY 4.0" in text


def test_a_linear_map_learns_them() -> None:
    data = load("digits")
    images, labels = data.train.as_tensors()
    x = torch.cat([images.flatten(1), torch.ones(len(images), 1)], 1).double()
    weights = torch.linalg.lstsq(x.T @ x + torch.eye(65), x.T @ torch.eye(10).double()[labels]).solution
    test, truth = data.test.as_tensors()
    guess = (torch.cat([test.flatten(1), torch.ones(len(test), 1)], 1).double() @ weights).argmax(1)
    assert (guess == truth).double().mean() > 0.85
