"""A network by name, with what it needs to be built again and to load its weights."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .._checked import Positive, checked
from .._files import replace_file
from .._untrusted import read_json
from ..errors import InputError
from ..nn import Exact, Plain, Sequential, to_plain
from ..spaces import FieldType
from ._names import MODELS
from ._width import Match

RECIPE, WEIGHTS = "model.json", "model.safetensors"


@checked
@dataclass(frozen=True)
class Recipe:
    """How to build a ready-made network by name: what ``intertwine train`` writes next to the weights.

    Attributes:
        model: a name from ``intertwine list models``.
        group: the name of its group; None for the plain network.
        channels: the channels of the images.
        classes: the number of classes.
        size: the height and width of the training images. Small images keep their resolution in the first layer: a
            3 x 3 convolution in a ResNet, smaller patches in a ConvNeXt. The network takes other sizes too.
        match: what the width is chosen to match, ``weights`` or ``cost``.
        width: the width, instead of a match.
        mean: of each channel, which the network subtracts first.
        std: of each channel, by which it then divides.
        labels: the names of the classes.

    >>> image = {"channels": 1, "size": (28, 28), "mean": (0.1,), "std": (0.3,)}
    >>> recipe = Recipe("resnet18", group="D4", classes=10, width=1, **image)
    >>> recipe.build()(torch.rand(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    model: str
    group: str | None
    channels: Positive
    classes: Positive
    size: tuple[Positive, Positive]
    match: Match = "cost"
    width: float | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.mean) == len(self.std) in (0, self.channels) or not all(value > 0 for value in self.std):
            raise InputError(
                "Recipe",
                expected=f"{self.channels} means and as many standard deviations above 0, or none",
                got=f"mean={self.mean}, std={self.std}",
            )

    def build(self) -> Sequential:
        """The network with random weights, behind its normalization."""
        named = MODELS[self.model]
        options = {"channels": self.channels, "classes": self.classes, "match": self.match, "width": self.width}
        network = named.make(group=self.group, **options, **named.for_size(min(self.size)))
        return Sequential(*(_normalized(network.in_type, self.mean, self.std) if self.mean else ()), *network)

    @checked
    def save(self, network: nn.Module, folder: str | Path) -> None:
        """Write ``model.json`` and the weights, ``model.safetensors``, which :func:`trained` reads."""
        from safetensors.torch import save

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        state = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
        replace_file(folder / WEIGHTS, save(state))
        replace_file(folder / RECIPE, (json.dumps(asdict(self), indent=2) + "\n").encode())

    @staticmethod
    @checked
    def read(folder: str | Path) -> Recipe:
        """Read ``model.json`` in a folder."""
        path = Path(folder) / RECIPE
        if not path.is_file():
            raise InputError(str(folder), expected=f"a folder of 'intertwine train', with {RECIPE}", got=f"no {path}")
        values = read_json(path)
        known = {field.name for field in fields(Recipe)}
        if not isinstance(values, dict) or not set(values) <= known:
            raise InputError(str(path), expected=f"an object with {', '.join(sorted(known))}", got=str(values)[:200])
        arguments: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return Recipe(**arguments)


@checked
def trained(folder: str | Path, *, plain: bool = False) -> nn.Module:
    """The network that ``intertwine train`` wrote to a folder, in evaluation mode.

    It takes images in [0, 1], as :func:`intertwine.data.load` returns them, and normalizes them itself.

    Args:
        folder: the folder, with ``model.json`` and ``model.safetensors``.
        plain: return ordinary torch modules (:func:`intertwine.nn.to_plain`) instead of layers with types.

    >>> import tempfile
    >>> recipe = Recipe("wide_resnet16_4", group="hflip", channels=1, classes=2, size=(8, 8), width=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     recipe.save(recipe.build(), folder)
    ...     trained(folder).out_type
    Field(2 trivial on Grid2d(D1))
    """
    from ..measure import load_weights_into  # imported here because nothing else in this room measures

    network = Recipe.read(folder).build()
    load_weights_into(network, Path(folder) / WEIGHTS)
    return to_plain(network) if plain else network.eval()


def _normalized(field: FieldType, mean: tuple[float, ...], std: tuple[float, ...]) -> tuple[Plain]:
    """(f - mean) / std per channel, as a convolution that is not trained."""
    scale = nn.Conv2d(field.dim, field.dim, 1, groups=field.dim)
    with torch.no_grad():
        scale.weight.copy_((1 / torch.tensor(std)).view(-1, 1, 1, 1))
        scale.bias.copy_(-torch.tensor(mean) / torch.tensor(std))  # type: ignore[union-attr]
    return (Plain(scale.requires_grad_(False), field, field, Exact(), shift_step=1),)
