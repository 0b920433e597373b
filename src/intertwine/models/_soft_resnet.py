"""The residual network from the experiments on soft and partial equivariance."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .._checked import Floats, Positive, checked
from ..errors import InputError
from ..relaxed import Orientations, PartialGroupConv2d, SoftGroupConv2d

GroupConv = SoftGroupConv2d | PartialGroupConv2d

_PUBLISHED: dict[str, Any] = {"angles": "principal"}

SOFT_RESNETS: Mapping[str, Mapping[str, Any]] = {
    "T(2) strict": {**_PUBLISHED, "samples": 1},
    "T(2) soft": {**_PUBLISHED, "samples": 1, "translation_softness": 0.5},
    "SE(2) strict": _PUBLISHED,
    "SE(2) partial": {**_PUBLISHED, "partial": True},
    "SE(2) soft": {**_PUBLISHED, "rotation_softness": 1.0},
    "E(2) strict": {**_PUBLISHED, "mirrored": True},
    "E(2) partial": {**_PUBLISHED, "mirrored": True, "partial": True},
}
"""The options of :class:`SoftResNet` for networks with the published numbers of weights.

They have one coordinate per angle, ``angles="principal"``, so their kernels jump at the angle ±π. The default,
``circle``, has two coordinates per angle, which adds 32 weights per angle (16 in shortcuts), and no jump.
"""


class SoftResNet(nn.Module):
    """A lifting convolution, two residual blocks, a last group convolution and a linear map.

    Each layer is a convolution on sampled motions of the plane whose kernel is a small network, see
    :class:`~intertwine.relaxed.SoftGroupConv2d`. After the last convolution, the network takes the maximum over the
    group and the plane, which is invariant.

    With ``samples=1``, the network has only translations. ``SOFT_RESNETS`` holds the options of the networks in the
    published comparison; their numbers of weights agree with the published ones.

    Args:
        channels: the channels of the image.
        classes: the number of classes.
        samples: the number of rotations in each layer; 1 means no rotations.
        mirrored: use rotations and reflections.
        rotation_softness: ω' of rotations in all layers after the lifting one; None is strict.
        translation_softness: ω' of translations in all layers except the shortcuts; None is strict.
        partial: learn which part of the rotations each layer keeps, instead of ω'.
        learn: make the ω' learnable parameters.
        tied: let all layers share the samples drawn by the first; default: unless the network is mirrored, partial or
            soft on rotations. If not tied, each layer draws its own samples and the shortcuts map between them.
        sampling: ``random`` draws at each call, also in evaluation, as published; ``train`` draws only in training;
            ``grid`` never draws.
        width: the channels of the first block.
        growth: the ratio of the channels of the second block to those of the first.
        pooled: after which stages the plane is pooled 2 x 2: the lifting layer (0) and the blocks (1, 2).
        kernel_size: the size of all convolutions except the shortcuts.
        hidden: the hidden units of the kernel networks; shortcuts have half as many.
        net: ``joint`` (the published sizes) or ``fourier`` (the published formulas).
        activation: ``cos`` or ``sin``, for ``joint``.
        frequency: ω of displacements.
        rotation_frequency: ω of relative angles.
        angles: ``circle`` (continuous kernels), ``principal`` (the published sizes) or ``integer``, see
            :class:`~intertwine.relaxed.SoftGroupConv2d`.
        domain: ``input`` or ``output``.

    Shapes: ``(batch, channels, height, width)`` to ``(batch, classes)``; at least 28 x 28 with kernels of size 7
    and two poolings.

    References: van der Ouderaa, Romero, van der Wilk 2022; Romero, Lohit 2022.

    >>> net = SoftResNet(3, 10, samples=4, width=4, rotation_softness=1.0, learn=True)
    >>> net(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    >>> sum(p.numel() for p in SoftResNet(3, 10, **SOFT_RESNETS["SE(2) soft"]).parameters())
    469802
    """

    @checked
    def __init__(
        self,
        channels: Positive,
        classes: Positive,
        *,
        samples: int = 8,
        mirrored: bool = False,
        rotation_softness: float | None = None,
        translation_softness: float | None = None,
        partial: bool = False,
        learn: bool = False,
        tied: bool | None = None,
        sampling: Literal["grid", "random", "train"] = "random",
        width: Positive = 32,
        growth: Positive = 2,
        pooled: Collection[int] = (1, 2),
        kernel_size: int = 7,
        hidden: Positive = 32,
        net: Literal["joint", "fourier"] = "joint",
        activation: Literal["cos", "sin"] = "cos",
        frequency: float = 1.0,
        rotation_frequency: float = 1.0,
        angles: Literal["circle", "principal", "integer"] = "circle",
        domain: Literal["input", "output"] = "input",
    ) -> None:
        super().__init__()
        if partial and not (rotation_softness is None and translation_softness is None):
            raise InputError("SoftResNet", expected="either partial or soft layers", got="both")
        if partial and samples == 1:
            raise InputError(
                "SoftResNet", expected="several samples for partial layers", got="1", fix="For example samples=8."
            )
        if not set(pooled) <= {0, 1, 2}:
            raise InputError(
                "SoftResNet", expected="stages 0, 1, 2 to pool after", got=str(list(pooled)), fix="For example (1, 2)."
            )
        separate_draws = mirrored or partial or rotation_softness is not None
        self.tied = not separate_draws if tied is None else tied
        if self.tied and partial:
            raise InputError("SoftResNet", expected="separate samples for partial layers", got="tied=True")
        common: dict[str, Any] = {"samples": samples, "mirrored": mirrored, "net": net, "activation": activation}
        common |= {"frequency": frequency, "rotation_frequency": rotation_frequency, "angles": angles}
        # A single sample means only translations: it stays at the identity.
        common |= {"sampling": "grid" if samples == 1 else sampling, "bias": False}
        soft: dict[str, Any] = {"learn": learn, "domain": domain}
        usual: dict[str, Any] = {"kernel_size": kernel_size, "hidden": hidden, **common}

        def convolution(before: int, after: int, padding: str = "same") -> GroupConv:
            if partial:
                return PartialGroupConv2d(before, after, padding=padding, **usual)
            options = {"rotation_softness": rotation_softness, "translation_softness": translation_softness, **soft}
            return SoftGroupConv2d(before, after, padding=padding, **usual, **options)

        def shortcut(before: int, after: int) -> SoftGroupConv2d | None:
            if self.tied and before == after:
                return None
            options = {"rotation_softness": rotation_softness, "hidden": max(hidden // 2, 1), **soft}
            return SoftGroupConv2d(before, after, 1, **common, **options)

        self.lift = SoftGroupConv2d(
            channels, width, lifting=True, translation_softness=translation_softness, **usual, **soft
        )
        self.first_norm = nn.BatchNorm3d(width)
        self.first_pool = _pool(0 in pooled)
        widths = (width, width, growth * width)
        self.blocks = nn.ModuleList(
            ResidualBlock(convolution(a, b), convolution(b, b), shortcut(a, b), tied=self.tied, pooled=stage in pooled)
            for stage, (a, b) in enumerate(itertools.pairwise(widths), 1)
        )
        self.last = convolution(widths[-1], widths[-1], "valid")
        self.last_norm = nn.BatchNorm3d(widths[-1])
        self.head = nn.Linear(widths[-1], classes)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The class scores of a batch of images."""
        samples = self.lift.draw()
        y = _by_fields(self.lift, self.lift(x, out_samples=samples))
        y = torch.relu(self.first_pool(self.first_norm(y)))
        for block in self.blocks:
            y, samples = block(y, samples)
        after = samples if self.tied else self.last.draw()
        y = torch.relu(self.last_norm(_between(self.last, y, samples, after)))
        return self.head(y.amax((2, 3, 4)))


def _by_fields(layer: GroupConv, y: Tensor) -> Tensor:
    """Split channels into fields and samples, because norms and pools treat all samples of a field the same way."""
    return y.unflatten(1, (layer.out_fields, -1))


def _between(layer: GroupConv, x: Tensor, before: Orientations, after: Orientations) -> Tensor:
    """A group convolution on ``(batch, fields, samples, height, width)``."""
    return _by_fields(layer, layer(x.flatten(1, 2), before, after))


def _pool(enabled: bool) -> nn.Module:
    """Max pooling over 2 x 2 pixels, or the identity."""
    return nn.MaxPool3d((1, 2, 2)) if enabled else nn.Identity()


class ResidualBlock(nn.Module):
    """Two group convolutions with a shortcut, then batch norm, pooling of the plane and ReLU.

    Args:
        first: group convolution.
        second: group convolution with equal input and output channels.
        shortcut: pointwise group convolution between the samples of the block, or None for the identity.
        tied: use the samples of the input throughout.
        pooled: pool the plane 2 x 2 at the end.
    """

    def __init__(
        self,
        first: GroupConv,
        second: GroupConv,
        shortcut: SoftGroupConv2d | None,
        *,
        tied: bool,
        pooled: bool = True,
    ) -> None:
        super().__init__()
        self.first, self.second, self.shortcut, self.tied = first, second, shortcut, tied
        self.inner = nn.InstanceNorm3d(second.out_fields)
        self.norm = nn.BatchNorm3d(second.out_fields)
        self.pool = _pool(pooled)

    def forward(self, x: Tensor, before: Orientations) -> tuple[Tensor, Orientations]:
        """The output and its samples."""
        between = before if self.tied else self.first.draw()
        after = between if self.tied else self.second.draw()
        y = torch.relu(self.inner(_between(self.first, x, before, between)))
        y = torch.relu(self.inner(_between(self.second, y, between, after)))
        y = self.norm(y + (x if self.shortcut is None else _between(self.shortcut, x, before, after)))
        return torch.relu(self.pool(y)), after
