"""Networks by name, and those that were trained and saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from intertwine import nn
from intertwine.errors import InputError
from intertwine.models import MODELS, Recipe, resnet, trained
from intertwine.testing import assert_equivariant

SLOW = ("resnet101", "resnet152", "convnext_small", "convnext_base", "wide_resnet28_10")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in MODELS])
def test_the_listed_number_of_weights_is_that_of_the_plain_network(name: str) -> None:
    with torch.device("meta"):
        network = MODELS[name].make(group=None, channels=3, classes=10)
    assert sum(p.numel() for p in network.parameters()) == MODELS[name].weights


def recipe(**changes: object) -> Recipe:
    image = {"channels": 2, "size": (17, 20), "mean": (0.1, 0.4), "std": (0.3, 0.2)}
    return Recipe("wide_resnet16_4", **{"group": "D4", "classes": 3, "width": 1, **image, **changes})


def test_a_saved_network_computes_the_same(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = recipe().build()
    x = torch.rand(4, 2, 17, 20)
    network.train()(x)  # statistics other than 0 and 1
    recipe().save(network, tmp_path)
    loaded, plain = trained(tmp_path), trained(tmp_path, plain=True)
    assert Recipe.read(tmp_path) == recipe()
    assert not loaded.training
    assert not any(isinstance(part, nn.Layer) for part in plain.modules())
    with torch.no_grad():
        expected = network.eval()(x)
        assert torch.equal(loaded(x), expected)
        assert (plain(x) - expected).abs().max() < 1e-5
    assert_equivariant(loaded, size=16)


def test_images_are_normalized_first() -> None:
    torch.manual_seed(0)
    bare, network = recipe(mean=(), std=()).build().eval(), recipe().build().eval()
    network.load_state_dict(
        {**network.state_dict(), **{f"{int(k.split('.')[0]) + 1}.{k.split('.', 1)[1]}": v
                                    for k, v in bare.state_dict().items()}}
    )  # fmt: skip
    x = torch.rand(1, 2, 17, 20)
    mean, std = torch.tensor([0.1, 0.4]).view(2, 1, 1), torch.tensor([0.3, 0.2]).view(2, 1, 1)
    with torch.no_grad():
        torch.testing.assert_close(network(x), bare((x - mean) / std), rtol=1e-4, atol=1e-4)
    assert not network[0].module.weight.requires_grad


def test_small_images_keep_their_resolution() -> None:
    for size, stem in ((32, "cifar"), (224, "imagenet")):
        ours = Recipe("resnet18", group="C4", channels=3, classes=10, size=(size, size), width=1).build()
        assert ours.state_dict().keys() == resnet(18, group="C4", stem=stem, width=1).state_dict().keys()
    for size in (8, 16, 65):
        network = Recipe("convnext_tiny", group=None, channels=1, classes=2, size=(size, size), width=2).build()
        assert network.eval()(torch.rand(1, 1, size, size)).shape == (1, 2)


def test_wrong_recipes_are_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 means and as many standard deviations"):
        recipe(mean=(0.1,))
    with pytest.raises(InputError, match="2 means and as many standard deviations"):
        recipe(std=(0.0, 1.0))
    with pytest.raises(InputError, match="Did you mean resnet18"):
        Recipe("resnet19", group="D4", channels=1, classes=2, size=(8, 8)).build()
    with pytest.raises(InputError, match=r"a folder of 'intertwine train', with model\.json"):
        trained(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({"model": "resnet18", "code": "print(1)"}))
    with pytest.raises(InputError, match=r"model\.json: expected an object with channels, classes"):
        trained(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({"model": "resnet18", "group": 3}))
    with pytest.raises(InputError):
        trained(tmp_path)
