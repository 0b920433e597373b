"""The published layers compute what they always did: outputs for fixed seeds, from before their inside changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from intertwine import relaxed

ROWS = json.loads((Path(__file__).parent / "published_outputs.json").read_text())


def as_then(kind: type[relaxed.RelaxedLayer]) -> type[relaxed.RelaxedLayer]:
    """The layer with angles as numbers, in (−π, π], which was the only form then."""
    if kind not in (relaxed.SoftGroupConv2d, relaxed.PartialGroupConv2d):
        return kind

    def start(self: Any, *types: Any, **options: Any) -> None:
        kind.__init__(self, *types, **{"angles": "principal", **options})

    return type("Principal", (kind,), {"__init__": start})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['layer']}-{row['example']}")
def test_outputs_and_counts_stay(row: dict[str, Any]) -> None:
    torch.manual_seed(row["example"])
    layer = list(as_then(getattr(relaxed, row["layer"])).examples())[row["example"]].double()
    noise = torch.Generator().manual_seed(row["example"])
    layer.perturb_(0.5, generator=noise).eval()
    assert sum(p.numel() for p in layer.parameters()) == row["parameters"]
    if isinstance(layer, relaxed.LocallyConnected2d):  # channels came before the window then
        then = layer.weight.detach().reshape(*layer.weight.shape[:2], layer.in_type.dim, *layer.window.kernel_size)
        layer.weight = torch.nn.Parameter(then.movedim(2, -1))
    x = torch.randn(row["input"], generator=noise, dtype=torch.float64)
    with torch.no_grad():
        y = layer(x.flatten(1, 2) if x.ndim == 5 else x).flatten()  # fields and samples were two axes then
    assert float(y.norm()) == pytest.approx(row["norm"], rel=1e-10)
    assert y[row["at"]].tolist() == pytest.approx(row["values"], rel=1e-9, abs=1e-12)
    assert float(layer.penalty().detach()) == pytest.approx(row["penalty"], rel=1e-10)
