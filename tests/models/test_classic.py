"""The plain baselines: sizes, shapes, and the error for a wrong image."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError
from intertwine.models import LeNet5, linear_classifier, multilayer_perceptron


def count(model):
    return sum(p.numel() for p in model.parameters())


def test_sizes():
    assert count(linear_classifier(1, 28, 10)) == 7_850
    assert count(multilayer_perceptron(1, 28, 10)) == 238_510
    # 156 + 2416 + 48120 + 10164 + 850: the paper's layers with full connections
    assert count(LeNet5(1, 28, 10)) == 61_706


@pytest.mark.parametrize("size", [8, 9, 12, 16, 17, 28, 32, 40])
def test_any_size_from_eight_on(size):
    model = LeNet5(3, size, 7)
    out = model(torch.randn(2, 3, size, size))
    assert out.shape == (2, 7)
    out.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_wrong_images():
    with pytest.raises(InputError, match=r"LeNet5: expected images \(1, 28, 28\); got \(1, 32, 32\)"):
        LeNet5(1, 28, 10)(torch.zeros(1, 1, 32, 32))
    with pytest.raises(InputError, match="at least 8 x 8; got 4 x 4"):
        LeNet5(1, 4, 10)
