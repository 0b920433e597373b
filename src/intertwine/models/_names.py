"""Ready-made networks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .._registry import Registry
from ..nn import Sequential
from ._convnext import convnext
from ._resnet import resnet
from ._unet import unet
from ._wide_resnet import wide_resnet

_SMALL = 64
"""Images up to this size keep their resolution in the first layer of a network."""


@dataclass(frozen=True)
class NamedModel:
    """A ready-made network with a name.

    Attributes:
        name: the name.
        about: a line about it.
        weights: the number of weights of the plain network for three channels and ten classes. Networks with a group
            have nearly as many, with ``match="weights"``.
        make: makes it from the arguments that all of them take: ``group``, ``channels``, ``classes``, ``match``,
            ``width``.
        for_size: further arguments for images of a given size, the smaller of height and width.
        classifies: whether it returns class scores, instead of maps of scores.
    """

    name: str
    about: str
    weights: int
    make: Callable[..., Sequential]
    for_size: Callable[[int], Mapping[str, Any]] = field(default=lambda size: {})
    classifies: bool = True


MODELS: Registry[NamedModel] = Registry("model")
"""All ready-made networks by name."""


def _stem(size: int) -> Mapping[str, Any]:
    return {"stem": "cifar" if size <= _SMALL else "imagenet"}


def _patch(size: int) -> Mapping[str, Any]:
    return {"patch": 4 if size > _SMALL else 2 if size >= 16 else 1}


_RESNET = "residual network (He et al. 2016)"
_WIDE = "wide residual network for small images (Zagoruyko & Komodakis 2016)"
_CONVNEXT = "depthwise 7 x 7 convolutions, layer norm and GELU (Liu et al. 2022)"
_UNET = "images to maps of scores, through four coarser scales and back (Ronneberger et al. 2015)"

for _model in (
    NamedModel("resnet18", _RESNET, 11_181_642, partial(resnet, 18), _stem),
    NamedModel("resnet34", _RESNET, 21_289_802, partial(resnet, 34), _stem),
    NamedModel("resnet50", _RESNET, 23_528_522, partial(resnet, 50), _stem),
    NamedModel("resnet101", _RESNET, 42_520_650, partial(resnet, 101), _stem),
    NamedModel("resnet152", _RESNET, 58_164_298, partial(resnet, 152), _stem),
    NamedModel("wide_resnet16_4", _WIDE, 2_748_890, partial(wide_resnet, 16, 4)),
    NamedModel("wide_resnet28_10", _WIDE, 36_479_194, partial(wide_resnet, 28, 10)),
    NamedModel("convnext_tiny", _CONVNEXT, 27_827_818, partial(convnext, "tiny"), _patch),
    NamedModel("convnext_small", _CONVNEXT, 49_462_378, partial(convnext, "small"), _patch),
    NamedModel("convnext_base", _CONVNEXT, 87_576_714, partial(convnext, "base"), _patch),
    NamedModel("unet", _UNET, 28_950_218, unet, classifies=False),
):
    MODELS.add(_model.name, _model)
