"""The published layers compute what they always did: outputs for fixed seeds, written down before their inside changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from intertwine.relaxed import RELAXED

ROWS = json.loads((Path(__file__).parent / "published_outputs.json").read_text())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['layer']}-{row['example']}")
def test_outputs_and_counts_stay(row: dict[str, Any]) -> None:
    torch.manual_seed(row["example"])
    layer = list(RELAXED[row["layer"]].examples())[row["example"]].double()
    noise = torch.Generator().manual_seed(row["example"])
    layer.perturb_(0.5, noise).eval()
    assert sum(p.numel() for p in layer.parameters()) == row["parameters"]
    with torch.no_grad():
        y = layer(layer.sample_input(noise)).flatten()
    assert float(y.norm()) == pytest.approx(row["norm"], rel=1e-10)
    assert y[row["at"]].tolist() == pytest.approx(row["values"], rel=1e-9, abs=1e-12)
    assert float(layer.penalty().detach()) == pytest.approx(row["penalty"], rel=1e-10)
