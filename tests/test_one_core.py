"""One space with its group serves every verb: layers, relaxation, measures, surgery, augmentation, capsules."""

from __future__ import annotations

import torch
from torch import nn

import intertwine as tw


def test_one_object_for_every_verb() -> None:
    torch.manual_seed(0)
    plane = tw.spaces.Grid2d("D4")
    x, h = plane.field("3*trivial"), plane.field("2*regular")
    images = torch.rand(6, 3, 12, 12)
    # impose
    net = tw.nn.Sequential(tw.nn.Conv2d(x, h, 5), tw.nn.ReLU(h), tw.nn.Conv2d(h, h, 5))
    tw.testing.assert_equivariant(net)
    # relax
    soft = tw.relaxed.relax(net, images, how="soft", softness=0.3)
    assert repr(soft[2].claim) == "Relaxed(translation=0.0, D4=0.0)"
    tw.testing.assert_equivariant(soft)
    # measure
    somebodys = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )
    assert tw.measure.invariance_error(somebodys, images, plane).mean > 1e-4
    twin = tw.measure.symmetrize(somebodys, images, plane)
    assert tw.measure.invariance_error(twin.model, images, plane).mean < 1e-5
    typed = tw.nn.typed(twin)
    assert isinstance(typed, tw.nn.Sequential)
    tw.testing.assert_equivariant(typed, size=12)
    assert torch.allclose(typed(images), twin.model(images), atol=1e-5)
    # augment
    moved = tw.data.RandomMotion(plane)(images, torch.Generator().manual_seed(0))
    assert moved.shape == images.shape
    # learn
    vae = tw.models.TopographicVAE((1, 8, 8), capsules=2, group="D4", window=3)
    assert vae.latent_type == tw.spaces.Point("D4").field("2*regular")


def test_names_stand_for_the_same_objects() -> None:
    images = torch.rand(4, 3, 8, 8)
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    by_name = tw.measure.invariance_error(net, images, "D4")
    by_space = tw.measure.invariance_error(net, images, tw.spaces.Grid2d("D4"))
    assert by_name.mean == by_space.mean
    mirrored = tw.measure.invariance_error(net, images, "hflip")
    assert mirrored.mean == tw.measure.invariance_error(net, images, tw.spaces.Grid2d("D1")).mean
