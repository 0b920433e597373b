"""Programs as people export them load in spite of the checks, and give the same answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import intertwine as tw
from intertwine._torchvision import declare_missing_operations
from intertwine.measure.load._exported import load_exported

X = torch.rand(2, 3, 32, 32)
BATCH = torch.export.Dim("batch", min=1, max=64)


def reloaded(model: nn.Module, path: Path, x: Tensor = X, **options: Any) -> nn.Module:
    torch.export.save(torch.export.export(model.eval(), (x,), **options), path)
    return load_exported(path)


def assert_same(model: nn.Module, path: Path, x: Tensor = X, **options: Any) -> nn.Module:
    loaded = reloaded(model, path, x, **options)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x), model(x))
    return loaded


class Sizes(nn.Module):
    """Height and width are not fixed, and arithmetic is done with them."""

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        y = nn.functional.avg_pool2d(x, 2)
        y = nn.functional.interpolate(y, size=(2 * (h // 2), 2 * (w // 2)), mode="bilinear")
        y = y.reshape(n, c, -1) * (h * w) / (h + w)
        return y.new_ones(h) @ torch.ones(h, w + 1) + y.mean()


class Kept(nn.Module):
    """Buffers, a constant that is not one, and a weight that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(12.0).reshape(3, 4))
        self.register_buffer("hidden", torch.ones(3), persistent=False)
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        shift = torch.tensor([1.0, 2.0, 3.0, 4.0])
        y = self.second(self.first(x[..., :4] + shift)) @ self.table.T * self.hidden
        return y, {"sum": y.sum(), "mean": y.mean()}


class Counting(nn.Module):
    """A buffer that the program writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return x * self.calls


class Regions(nn.Module):
    """Parts without gradients and in lower precision."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            scale = x.mean() + 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.conv(x)
        return y.float() * scale


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, stride=8)
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.patches(x).flatten(2).transpose(1, 2)).mean(1)


def group_network() -> nn.Module:
    group = tw.groups.Dihedral(4)
    grid = tw.spaces.Grid2d(group)
    images, inner = grid.field(3 * group.trivial), grid.field(2 * group.regular)
    return tw.nn.Sequential(
        tw.nn.Conv2d(images, inner, 3), tw.nn.BatchNorm(inner), tw.nn.ReLU(inner), tw.nn.Conv2d(inner, inner, 3)
    )


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        Kept(),
        Regions(),
        Attention(),
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.Hardswish(), nn.ConvTranspose2d(4, 2, 3)),
        nn.ModuleDict({"1x1-in": nn.Conv2d(3, 2, 1)})["1x1-in"],
        tw.models.plain_cnn(3, 10),
    ],
    ids=lambda model: type(model).__name__,
)
def test_plain_layers(model, tmp_path):
    assert_same(model, tmp_path / "net.pt2")


def test_our_own_layers(tmp_path):
    assert_same(group_network(), tmp_path / "net.pt2")


def test_a_soft_layer(tmp_path):
    assert_same(tw.relaxed.SoftConv2d(3, 4, kernel_size=3, learn=True), tmp_path / "net.pt2")


def test_a_batch_that_is_not_fixed(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 30 * 30, 5))
    loaded = assert_same(model, tmp_path / "net.pt2", dynamic_shapes=({0: BATCH},))
    assert loaded(torch.rand(7, 3, 32, 32)).shape == (7, 5)


def test_sizes_that_are_not_fixed(tmp_path):
    height, width = torch.export.Dim("height", min=8, max=128), torch.export.Dim("width", min=8, max=128)
    loaded = assert_same(Sizes(), tmp_path / "net.pt2", dynamic_shapes=({0: BATCH, 2: height, 3: width},))
    other = torch.rand(3, 3, 21, 40)
    torch.testing.assert_close(loaded(other), Sizes()(other))


def test_sizes_that_are_multiples(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.MaxPool2d(2), nn.Conv2d(4, 2, 3))
    height, width = torch.export.Dim("height", min=2, max=8), torch.export.Dim("width", min=2, max=8)
    loaded = assert_same(model, tmp_path / "net.pt2", dynamic_shapes=({2: 16 * height, 3: 16 * width},))
    other = torch.rand(2, 3, 48, 64)
    torch.testing.assert_close(loaded(other), model(other))


def test_half_precision(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).bfloat16()
    assert_same(model, tmp_path / "net.pt2", X.bfloat16())


def test_a_buffer_that_is_written_to(tmp_path):
    """Working out the costs on tensors without content leaves the buffers of the program alone."""
    loaded = reloaded(Counting(), tmp_path / "net.pt2")
    torch.testing.assert_close(loaded(X), X)
    torch.testing.assert_close(loaded(X), 2 * X)
    torch.testing.assert_close(loaded(X[:2].clone()), 3 * X[:2])


def test_derivatives_and_hooks_see_no_tensors_without_content(tmp_path):
    loaded = reloaded(Regions(), tmp_path / "net.pt2")
    seen: list[Tensor] = []
    for module in loaded.modules():
        module.register_forward_hook(lambda module, given, out: seen.append(out))
    model = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Tanh())
    again = reloaded(model, tmp_path / "other.pt2")
    torch.testing.assert_close(torch.func.jvp(again, (X,), (X,)), torch.func.jvp(model, (X,), (X,)))
    loaded(X)
    flat = [value for out in seen for value in (out if isinstance(out, tuple | list) else [out])]
    assert flat
    assert all(type(value) is Tensor for value in flat)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
@pytest.mark.whole
def test_torchvision(name, tmp_path):
    declare_missing_operations()
    import torchvision

    assert_same(getattr(torchvision.models, name)(num_classes=5), tmp_path / "net.pt2")


@pytest.mark.parametrize("name", ["resnet10t", "mobilenetv3_small_050"])
@pytest.mark.whole
def test_timm(name, tmp_path):
    declare_missing_operations()
    import timm

    assert_same(timm.create_model(name, num_classes=5), tmp_path / "net.pt2")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["vit_tiny_patch16_224", "convnext_atto", "efficientnet_lite0", "mixer_s32_224",
             "swin_tiny_patch4_window7_224", "edgenext_xx_small", "ghostnet_050", "regnetx_002", "densenet121"],
)  # fmt: skip
def test_more_of_timm(name, tmp_path):
    declare_missing_operations()
    import timm

    model = timm.create_model(name, num_classes=5)
    size = model.pretrained_cfg["input_size"][1]
    assert_same(model, tmp_path / "net.pt2", torch.rand(1, 3, size, size))
