"""Symmetrized networks in files: they load into the original architecture, and a file cannot do anything else."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from intertwine.errors import InputError
from intertwine.measure import load_weights_into, symmetrize
from intertwine.measure.surgery import GroupAverage
from intertwine.measure.surgery._saved import KEY
from tests.measure import nets
from tests.measure.surgery.test_refit import resnet

X = torch.randn(30, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Gated(nn.Module):
    """Depthwise filters, squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 6, 3, 2, 1), nn.BatchNorm2d(6)
        self.depth = nn.Conv2d(6, 12, 3, 1, 1, groups=6)
        self.squeeze, self.excite = nn.Conv2d(12, 4, 1), nn.Conv2d(4, 12, 1)
        self.slope, self.head = nn.PReLU(12), nn.Linear(12, 5)

    def forward(self, x):
        x = self.depth(torch.relu(self.norm(self.stem(x))))
        x = x * torch.sigmoid(self.excite(torch.relu(self.squeeze(x.mean((2, 3), keepdim=True)))))
        return self.head(self.slope(x).mean((2, 3)))


@pytest.mark.parametrize("make", [Gated, lambda: nets.Residual(option_a=False), lambda: nets.vgg(4, norm=True)])
@pytest.mark.parametrize("symmetry", ["hflip", "c4"])
def test_there_and_back(make, symmetry, tmp_path):
    torch.manual_seed(0)
    model, other = make().eval(), make().eval()
    twin = symmetrize(model, X, symmetry, width=1.7)
    twin.save(tmp_path / "twin.safetensors")
    assert not torch.allclose(other(X), twin.model(X), atol=1e-3)
    load_weights_into(other, tmp_path / "twin.safetensors")
    assert torch.equal(other(X), twin.model(X))
    for ours, theirs in zip(other.modules(), twin.model.modules(), strict=True):
        assert repr(ours) == repr(theirs)


def test_gated_networks_reach_the_average_over_the_group():
    torch.manual_seed(0)
    model, x = Gated().double().eval(), X.double()
    twin = symmetrize(model, x, "d4", width=8.0)
    torch.testing.assert_close(twin.model(x), GroupAverage(model, "d4")(x), atol=1e-10, rtol=1e-10)


def test_files_that_lie(tmp_path):
    x, path = torch.randn(20, 1, 8, 8), tmp_path / "twin.safetensors"
    symmetrize(resnet().eval(), x, "hflip").save(path)
    state, good = load_file(path), {"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0], "dilation": [1, 1]}
    for layers, message in (
        ("[1]", "convolutions and max pools"),
        (json.dumps({"4.shortcut": {"kind": "Conv2d", **good, "groups": 1, "stride": [2, 10**9]}}), "max pools"),
        (json.dumps({"4.shortcut": {"kind": "Conv2d", **good, "groups": 1, "kernel_size": [9, 9]}}), "filters of size"),
        (json.dumps({"4.shortcut": {"kind": "Bilinear", **good}}), "convolutions and max pools"),
        (json.dumps({"nowhere": {"kind": "Conv2d", **good, "groups": 1}}), "one without 'nowhere'"),
        ("{", "JSON"),
    ):
        save_file(state, path, {KEY: layers})
        with pytest.raises(InputError, match=message):
            load_weights_into(resnet(), path)
    save_file(state, path)
    with pytest.raises(InputError, match="of another shape"):
        load_weights_into(resnet(), path)
