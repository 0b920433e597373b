"""Every model runs on another device than the CPU, for which meta stands in, and can be made without memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from intertwine import models
from intertwine.groups import Cyclic, Dihedral
from intertwine.spaces import Sphere
from intertwine.testing import assert_deferred, assert_follows_device

DIGITS, COLORS, SEQUENCES = (2, 1, 16, 16), (2, 3, 32, 32), (2, 5, 1, 8, 8)
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear_classifier": (lambda: models.linear_classifier(1, 16, 10), DIGITS),
    "multilayer_perceptron": (lambda: models.multilayer_perceptron(1, 16, 10), DIGITS),
    "LeNet5": (lambda: models.LeNet5(1, 16, 10), DIGITS),
    "plain_cnn": (lambda: models.plain_cnn(1, 10, widths=(4, 4, 4)), DIGITS),
    "GroupCNN": (lambda: models.GroupCNN(Cyclic(8), 1, 10, widths=(2, 2, 2)), DIGITS),
    "GroupCNN D4": (lambda: models.GroupCNN(Dihedral(4), 1, 10, widths=(2, 2, 2)), DIGITS),
    "SphericalCNN": (lambda: spherical(), (2, 1, 12, 12)),
    "VGG11": (lambda: models.VGG11(3, 10, width=0.1), COLORS),
    "GVGG11": (lambda: models.GVGG11(3, 10, width=0.125), COLORS),
    "resnet": (lambda: models.resnet(18, group="D4", channels=1, stem="cifar", width=0.5), DIGITS),
    "resnet of a mirror": (lambda: models.resnet(50, group="hflip", width=0.5), COLORS),
    "wide_resnet": (lambda: models.wide_resnet(10, 2, group="C8", channels=1, width=1), DIGITS),
    "convnext": (lambda: models.convnext(group="C4", patch=2, width=0.5), COLORS),
    "unet": (lambda: models.unet(2, group="D4", channels=1, width=1), DIGITS),
    "VAE": (lambda: models.VAE((1, 8, 8), capsules=3, length=4), SEQUENCES),
    "VAE conv": (lambda: models.VAE((1, 8, 8), capsules=3, length=4, network="conv", likelihood="gaussian"), SEQUENCES),
    "BubbleVAE": (lambda: models.BubbleVAE((1, 8, 8), capsules=3, length=4), SEQUENCES),
    "TopographicVAE": (lambda: models.TopographicVAE((1, 8, 8), capsules=3, length=4), SEQUENCES),
    "TopographicVAE of a product": (lambda: models.TopographicVAE((1, 8, 8), capsules=3, group="C2 x C2"), SEQUENCES),
    **{
        f"SimpleNet {kind}": (
            lambda kind=kind, options=options: models.SimpleNet(1, 16, 10, layer=kind, **options),
            DIGITS,
        )
        for kind, options in {
            "conv": {"width": 4},
            "coord": {"width": 4},
            "spatial-bias": {"width": 4, "where": 1},
            "low-rank": {"width": 4, "where": 1, "rank": 2},
            "input-low-rank": {"width": 4, "where": 1, "rank": 2},
            "local": {"width": 4, "where": 3},
        }.items()
    },
    **{
        f"SoftResNet {name}": (
            lambda options=options: models.SoftResNet(1, 10, width=4, hidden=4, kernel_size=3, samples=4, **options),
            DIGITS,
        )
        for name, options in {
            "soft": {"rotation_softness": 0.5, "translation_softness": 0.5},
            "mirrored": {"mirrored": True, "sampling": "train"},
            "partial": {"partial": True},
            "fourier": {"net": "fourier"},
        }.items()
    },
}


def spherical() -> nn.Module:
    grid = Sphere().grid("equiangular", band_limit=5)
    return models.SphericalCNN(grid, 1, 10, widths=(2,), band_limits=(3,), frequencies=(1,))


def test_all_models_are_here() -> None:
    offered = {name for name, value in vars(models).items() if callable(value) and not name.startswith("_")}
    offered -= {"NotCyclicWarning", "VAEOutput", "topographic_pool", "lazy_face"}  # no networks
    offered -= {"NamedModel", "Recipe", "trained"}  # networks by name: tests/models/test_recipe.py
    offered -= {"point_network", "point_block"}  # takes several inputs: tests/models/test_point_network.py
    assert offered == {name.split()[0] for name in MODELS}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::intertwine.models.NotCyclicWarning")
def test_follows_its_input_to_another_device(name: str) -> None:
    make, shape = MODELS[name]
    torch.manual_seed(0)
    assert_follows_device(make(), torch.rand(shape))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::intertwine.models.NotCyclicWarning")
def test_made_without_memory(name: str) -> None:
    make, shape = MODELS[name]
    assert_deferred(make, torch.rand(shape))
