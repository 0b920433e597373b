"""Audits look at ordinary torch modules, also of networks that are built from our layers."""

from __future__ import annotations

import torch

from intertwine import models, nn
from intertwine._plain_form import plain_form
from intertwine.groups import Cyclic
from intertwine.measure import audit


def correlations(net: torch.nn.Module, images: torch.Tensor) -> list[float]:
    readings = audit(net, images, "c4").readings
    return [reading.value for reading in readings if reading.metric == "matched_correlation"]


def test_an_audit_finds_the_partners_that_layers_have_by_construction() -> None:
    torch.manual_seed(0)
    images = torch.rand(24, 1, 8, 8)
    built = correlations(models.GroupCNN(Cyclic(4), 1, 3, widths=(2, 3)), images)
    free = correlations(models.plain_cnn(1, 3, widths=(8, 12)), images)
    assert built
    assert min(built) > 1 - 1e-5
    assert min(free) < 0.99


def test_an_audit_names_no_module_that_makes_filters() -> None:
    result = audit(models.GroupCNN(Cyclic(4), 1, 3, widths=(2, 3)), torch.rand(8, 1, 8, 8), "c4")
    named = " ".join([*(reading.layer for reading in result.readings), *(note.about for note in result.notes)])
    assert "expansion" not in named
    assert "invariants" not in named


def test_a_network_of_others_is_left_as_it_is() -> None:
    net = models.plain_cnn(1, 3)
    assert plain_form(net) is net
    assert any(isinstance(module, nn.Layer) for module in models.GroupCNN(Cyclic(4), 1, 3).modules())
