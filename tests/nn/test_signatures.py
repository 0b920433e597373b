"""Constructors of layers: essential arguments by position, options by keyword, the same names in the same order."""

import inspect

import pytest
import torch

from intertwine import nn, relaxed
from intertwine.errors import InputError
from intertwine.groups import Dihedral
from intertwine.nn import LAYERS
from intertwine.spaces import Grid2d

D4 = Dihedral(4)
PLANE = Grid2d(D4)
FIELD = PLANE.field(D4.regular)

OPTIONS = [
    "stride",
    "padding",
    "output_padding",
    "dilation",
    "groups",
    "bias",
    "padding_mode",
    "gain",
    "allow_asymmetric",
]
FAMILY = [
    *(nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.DepthwiseConv2d, nn.ConvNeXtBlock),
    *(nn.AvgPool2d, nn.AvgPool3d, nn.MaxPool2d, nn.MaxPool3d, nn.BlurPool2d, nn.BlurPool3d),
    *(relaxed.LowRankLocalConv2d, relaxed.InputLowRankLocalConv2d, relaxed.LocallyConnected2d, relaxed.CoordConv2d),
]


def parameters(layer: type) -> list[inspect.Parameter]:
    return list(inspect.signature(layer).parameters.values())


@pytest.mark.parametrize("layer", FAMILY, ids=lambda layer: layer.__name__)
def test_options_of_windows_come_in_torchs_order(layer: type) -> None:
    names = [p.name for p in parameters(layer) if p.name in OPTIONS]
    assert names == sorted(names, key=OPTIONS.index)
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters(layer) if p.name in OPTIONS)


@pytest.mark.parametrize("name", list(LAYERS))
def test_only_essential_arguments_are_positional(name: str) -> None:
    positional = [p for p in parameters(LAYERS[name]) if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert len(positional) <= (4 if name == "Plain" else 3)
    # A default is fine for what torch takes by position as well, such as the kernel size or the rate of a dropout.
    optional = {p.name for p in positional if p.default is not p.empty}
    assert optional <= {"kernel_size", "scale_factor", "p", "function", "shortcut"}


def _conv(in_type):
    return nn.Conv2d(in_type, FIELD, 3)


def _pool(in_type):
    return nn.MaxPool2d(in_type, 2)


@pytest.mark.parametrize("wrong", [3, D4, PLANE, D4.regular, "8*regular"], ids=str)
@pytest.mark.parametrize("make", [nn.ReLU, nn.BatchNorm, _conv, _pool])
def test_anything_but_a_field_type_is_answered_with_how_to_make_one(make, wrong) -> None:
    with pytest.raises(InputError, match=r'expected in_type to be a FieldType; got .*Grid2d\("C4"\)\.field\('):
        make(wrong)


def test_layers_in_a_list() -> None:
    with pytest.raises(InputError, match=r"Sequential\(\*layers\)"):
        nn.Sequential([nn.ReLU(FIELD)])
    with pytest.raises(InputError, match="Plain"):
        nn.Sequential(nn.ReLU(FIELD), torch.nn.ReLU())


def test_convolutions_of_torch_written_with_our_class() -> None:
    with pytest.raises(InputError, match="Conv2d: expected in_type to be a FieldType; got 3"):
        nn.Conv2d(3, 8, 3)
    with pytest.raises(TypeError, match="positional"):
        nn.Conv2d(FIELD, FIELD, 3, 1, 1)
    with pytest.raises(InputError, match="SoftConv2d: expected in_type to be a whole number or a FieldType; got D4"):
        relaxed.SoftConv2d(D4, 8)
    with pytest.raises(InputError, match=r"expected \(batch, 8, height, width\)"):
        nn.Conv2d(FIELD, FIELD, 3)(torch.zeros(8, 9, 9))
