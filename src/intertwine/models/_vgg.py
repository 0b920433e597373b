"""VGG11 for small images, plain and with built-in mirror symmetry: the networks of Bökman & Kahl (2023).

"Investigating how ReLU-networks encode symmetries", NeurIPS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from .._checked import Floats, Positive, checked
from ..errors import InputError
from ..groups import Dihedral
from ..nn import Conv2d, Linear, MaxPool2d, ReLU
from ..spaces import FieldType, Grid2d

WIDTHS = (64, 128, 256, 256, 512, 512, 512, 512)
POOLED = (0, 1, 3, 5, 7)
"""The indices of the layers followed by max pooling over 2 x 2 pixels."""

MIRROR = Dihedral(1)
PLANE = Grid2d(MIRROR)

Init = Literal["torch", "he"]


class VGG11(nn.Module):
    """Eight 3 x 3 convolutions with ReLU, five max poolings over 2 x 2 pixels, a global max pooling and a linear map.

    There is no normalization. Images of 32 x 32 end at one pixel, where global pooling changes nothing.

    Args:
        channels: the channels of the image.
        classes: the number of classes.
        width: a factor for all widths; 1 gives 64, 128, 256, 256, 512, 512, 512, 512.
        init: ``torch`` draws weights as torch's layers do, as in the paper; ``he`` keeps the variance of signals
            through ReLUs, with biases of 0, and trains in fewer epochs: the network has no norms to make up for it.

    Shapes: ``(batch, channels, height, width)`` to ``(batch, classes)``. The poolings commute with mirrors if sizes are
    multiples of 32; the filters are not symmetric.

    >>> sum(p.numel() for p in VGG11().parameters())
    9225610
    """

    @checked
    def __init__(
        self, channels: Positive = 3, classes: Positive = 10, *, width: float = 1.0, init: Init = "torch"
    ) -> None:
        super().__init__()
        self.features = nn.Sequential(*_layers(channels, width, 0))
        self.classifier: nn.Module = nn.Linear(_widths(width)[-1], classes)
        _reset(self, init)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The class scores of a batch of images."""
        return self.classifier(_features(self.features, x))


class GVGG11(nn.Module):
    """VGG11 with mirror symmetry built into its first layers: all of them (GCNN) or the first two (PGCNN).

    These layers are :mod:`intertwine.nn` layers between regular fields of D1, the group of the left-right mirror. Their
    channels come in mirrored pairs with tied weights.

    Args:
        channels: the channels of the image.
        classes: the number of classes.
        width: a factor for all widths, as for :class:`VGG11`.
        mirrored: how many of the eight convolutions commute with the mirror. 8 also ties the classifier, which makes
            the output exactly invariant.
        init: as for :class:`VGG11`; every layer is initialized like a plain one with the same fan-in.

    Shapes: ``(batch, channels, height, width)`` to ``(batch, classes)``. Sizes are at least 32, and the poolings among
    the mirrored layers must divide the width: it is a multiple of 32 for ``mirrored=8``.

    >>> [sum(p.numel() for p in GVGG11(mirrored=k).parameters()) for k in (8, 2)]
    [4612810, 9187786]
    """

    @checked
    def __init__(
        self,
        channels: Positive = 3,
        classes: Positive = 10,
        *,
        width: float = 1.0,
        mirrored: int = 8,
        init: Init = "torch",
    ) -> None:
        super().__init__()
        if not 1 <= mirrored <= len(WIDTHS):
            raise InputError("GVGG11", expected="1 to 8 mirrored layers", got=str(mirrored))
        self.channels, self.classes, self.width = channels, classes, width
        self.features = nn.Sequential(*_layers(channels, width, mirrored))
        last = _widths(width)[-1]
        scores = PLANE.field(classes * MIRROR.trivial)
        all_mirrored = mirrored == len(WIDTHS)
        self.classifier: nn.Module = Linear(_pairs(last), scores) if all_mirrored else nn.Linear(last, classes)
        _reset(self, init)
        self.register_load_state_dict_pre_hook(_refuse_old_names)  # type: ignore[no-untyped-call]

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The class scores of a batch of images."""
        return self.classifier(_features(self.features, x))

    def to_plain(self) -> VGG11:
        """The same function with all filters written out, as a plain VGG11.

        >>> net = GVGG11(width=0.0625)
        >>> x = torch.randn(2, 3, 32, 32)
        >>> torch.allclose(net(x), net.to_plain()(x), atol=1e-5)
        True
        """
        plain = VGG11(self.channels, self.classes, width=self.width)
        ours, others = [*self.features, self.classifier], [*plain.features, plain.classifier]
        with torch.no_grad():
            for old, new in zip(ours, others, strict=True):
                if isinstance(old, Conv2d | Linear):
                    weight, bias = old.expand()
                    state = {"weight": weight.view(new.weight.shape), "bias": bias}
                else:
                    state = old.state_dict()
                new.load_state_dict(state)
        example = next(self.parameters())
        return plain.to(example.device, example.dtype).train(self.training)

    def partners(self) -> list[Tensor]:
        """For each mirrored convolution, the mirror partner of each output channel."""
        sizes = [layer.out_type.dim for layer in self.features if isinstance(layer, Conv2d)]
        return [torch.arange(n).view(-1, 2).flip(1).flatten() for n in sizes]


def _widths(width: float) -> list[int]:
    if not 0 < width < math.inf:
        raise InputError("VGG11", expected="a finite width above 0", got=str(width))
    return [max(2, 2 * round(w * width / 2)) for w in WIDTHS]


def _pairs(channels: int) -> FieldType:
    return PLANE.field(channels // 2 * MIRROR.regular)


def _layers(channels: Positive, width: float, mirrored: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    before, field = channels, PLANE.field(channels * MIRROR.trivial)
    for k, after in enumerate(_widths(width)):
        pooled = k in POOLED
        if k < mirrored:
            layers += [Conv2d(field, _pairs(after), 3, padding=1), ReLU(_pairs(after))]
            layers += [MaxPool2d(_pairs(after), 2)] if pooled else []
            field = _pairs(after)
        else:
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), *([nn.MaxPool2d(2)] if pooled else [])]
        before = after
    return layers


def _reset(network: VGG11 | GVGG11, init: Init) -> None:
    """Draw the weights of every layer uniformly within √(1/fan-in) as torch does, or within √(6/fan-in) as He et al.

    The weights of our layers between permutation fields are entries of their filters, so each entry gets the
    distribution of a plain layer. The classifier has no ReLU behind it, so torch's bound is right for it either way.
    """
    for layer in network.modules():
        if isinstance(layer, Conv2d | Linear):
            fan_in = layer.in_type.dim * math.prod(layer.expansion.kernel_size)
        elif isinstance(layer, nn.Conv2d | nn.Linear):
            fan_in = layer.weight[0].numel()
        else:
            continue
        he = init == "he" and layer is not network.classifier
        bound = math.sqrt((6 if he else 1) / fan_in)
        for name, values in layer.named_parameters():
            if he and "bias" in name:
                nn.init.zeros_(values)
            else:
                nn.init.uniform_(values, -bound, bound)


def _refuse_old_names(module: nn.Module, state: Mapping[str, Tensor], prefix: str, *_: object) -> None:
    if f"{prefix}features.0.weight" in state:
        raise InputError(
            "GVGG11",
            expected="a checkpoint with weights of intertwine.nn layers (features.0.weights.0)",
            got="a checkpoint of version 0.1 or of a plain VGG11 (features.0.weight)",
            fix="Load a plain checkpoint into a VGG11. A GVGG11 of version 0.1 must be trained again.",
        )


def _features(layers: nn.Sequential, x: Tensor) -> Tensor:
    if x.ndim != 4 or min(x.shape[-2:]) < 32:
        raise InputError(
            "VGG11",
            expected="images of at least 32 x 32",
            got=f"{x.shape[-2]} x {x.shape[-1]}" if x.ndim == 4 else f"shape {tuple(x.shape)}",
            fix="Pad or resize the images.",
        )
    return layers(x).amax((2, 3))
