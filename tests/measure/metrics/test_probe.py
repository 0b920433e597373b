"""The linear probe reads off what is linear, and nothing else."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError
from intertwine.measure.metrics import linear_probe


def test_linear_classes_and_noise():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (800,), generator=generator)
    centers = torch.randn(4, 6, generator=generator)
    clear = centers[labels] + 0.1 * torch.randn(800, 6, generator=generator)
    noise = torch.randn(800, 6, generator=generator)
    assert linear_probe(clear[:400], labels[:400], clear[400:], labels[400:]).mean > 0.98
    assert linear_probe(noise[:400], labels[:400], noise[400:], labels[400:]).mean == pytest.approx(0.25, abs=0.08)
    constant = torch.ones(800, 6)
    assert linear_probe(constant[:400], labels[:400], constant[400:], labels[400:]).mean < 0.4


def test_bad_input():
    with pytest.raises(InputError, match="as many labels"):
        linear_probe(torch.rand(4, 2), torch.zeros(3), torch.rand(4, 2), torch.zeros(4))
