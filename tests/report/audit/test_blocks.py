"""One row per block: residual blocks, and filters with the layers that follow them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from intertwine.measure import audit
from intertwine.report import audit_page
from intertwine.report.audit._blocks import block_lines
from intertwine.report.audit._table import audit_text
from intertwine.report.audit._text import layer_lines


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.norm = nn.Conv2d(channels, channels, 3, 1, 1), nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.conv2(torch.relu(self.norm(self.conv1(x)))))


@pytest.fixture(scope="module")
def result():
    torch.manual_seed(0)
    stem, head = [nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU()], [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)]
    net = nn.Sequential(*stem, Block(4), Block(4), *head)
    return audit(net, (torch.rand(12, 3, 8, 8), torch.arange(12) % 3), ["hflip", "c4"])


def test_blocks_of_a_residual_network(result):
    lines = layer_lines(result.readings)
    blocks = [line for line in block_lines(lines) if line.symmetry == "hflip"]
    assert [block.layer for block in blocks] == ["0", "2", "3", "4", "6"]
    every = {line.layer: line for line in lines if line.symmetry == "hflip"}
    output = every["2.relu#2"].values["layer_equivariance_error"]
    assert blocks[1].values["layer_equivariance_error"] == output, "the error of the output of the block"
    residuals = [every[f"2.{name}"].values["kernel_residual"].value for name in ("conv1", "conv2")]
    assert blocks[1].values["kernel_residual"].value == pytest.approx(sum(residuals) / 2)
    assert blocks[1].kind == "block of 6"


def test_the_table_has_a_row_per_block_and_all_layers_on_demand(result):
    text = audit_text(result)
    assert "--all-layers shows every layer" in text
    assert "2.norm" not in text
    assert "2.norm" in audit_text(result, all_layers=True)
    assert max(map(len, text.splitlines())) <= 140


def test_the_page_decides_first(result):
    page = audit_page(result)
    places = [
        page.index(text)
        for text in (
            "symmetric under the left-right mirror",
            "symmetric under c4",
            "<h2>Layers that break the symmetry",
            "<h2>The whole network",
            "<h2>Where the symmetry is lost",
            "<h2>Every layer",
        )
    ]
    assert places == sorted(places)
    widest = max(table.count('<th scope="col"') for table in page.split("<table")[1:])
    assert widest <= 5, "up to five columns fold on a phone"


def test_layers_of_a_symmetric_network_break_nothing():
    """A slice cannot commute with the mirror, but the mean of both slices does."""

    class BothSlices(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x[..., :-1] + x[..., 1:]).mean((2, 3))

    net = nn.Sequential(BothSlices(), nn.Linear(3, 3))
    page = audit_page(audit(net, torch.rand(4, 3, 8, 8), "hflip"))
    assert "<h2>Layers that keep the symmetry only together" in page
    assert "Layers that break the symmetry" not in page
