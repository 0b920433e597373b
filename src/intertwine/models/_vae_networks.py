"""Encoders and decoders of variational autoencoders: fully connected as published, or convolutional."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..errors import InputError


def mlp_encoder(image: tuple[int, int, int], latent: int) -> nn.Module:
    """D → 3s → 2s → 2s with ReLU in between. The first s outputs are means, the last s log variances."""
    pixels = math.prod(image)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(pixels, 3 * latent),
        nn.ReLU(),
        nn.Linear(3 * latent, 2 * latent),
        nn.ReLU(),
        nn.Linear(2 * latent, 2 * latent),
    )


class MlpDecoder(nn.Module):
    """s → 2s → 3s → D with ReLU in between. The last layer has one bias per channel, not per pixel.

    Weights are initialized like those of transposed convolutions, uniform within 1/√(outputs), as in the published
    code.
    """

    def __init__(self, image: tuple[int, int, int], latent: int) -> None:
        super().__init__()
        self.image = image
        self.first = nn.Linear(latent, 2 * latent)
        self.second = nn.Linear(2 * latent, 3 * latent)
        self.last = nn.Linear(3 * latent, math.prod(image), bias=False)
        self.bias = nn.Parameter(torch.empty(image[0]))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw new weights."""
        for layer in (self.first, self.second, self.last):
            bound = 1 / math.sqrt(layer.out_features)
            layer.weight.uniform_(-bound, bound)
            if layer.bias is not None:
                layer.bias.uniform_(-bound, bound)
        self.bias.uniform_(-1 / math.sqrt(math.prod(self.image)), 1 / math.sqrt(math.prod(self.image)))

    def forward(self, t: Tensor) -> Tensor:
        hidden = torch.relu(self.second(torch.relu(self.first(t))))
        return self.last(hidden).view(-1, *self.image) + self.bias[:, None, None]


def conv_encoder(image: tuple[int, int, int], latent: int, *, width: int = 32) -> nn.Module:
    """Two convolutions with stride 2, then D' → 2s → 2s."""
    channels, height, bottom = _halved_twice(image)
    return nn.Sequential(
        nn.Conv2d(channels, width, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 4, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * width * height * bottom, 2 * latent),
        nn.ReLU(),
        nn.Linear(2 * latent, 2 * latent),
    )


def conv_decoder(image: tuple[int, int, int], latent: int, *, width: int = 32) -> nn.Module:
    """s → 2s → D', then two transposed convolutions with stride 2."""
    channels, height, bottom = _halved_twice(image)
    return nn.Sequential(
        nn.Linear(latent, 2 * latent),
        nn.ReLU(),
        nn.Linear(2 * latent, 2 * width * height * bottom),
        nn.ReLU(),
        nn.Unflatten(1, (2 * width, height, bottom)),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(width, channels, 4, 2, 1),
    )


def _halved_twice(image: tuple[int, int, int]) -> tuple[int, int, int]:
    channels, height, width = image
    if height % 4 or width % 4:
        raise InputError(
            "convolutional network",
            expected="images whose height and width are multiples of 4",
            got=f"{height} x {width}",
            fix="Resize them, or use network='mlp'.",
        )
    return channels, height // 4, width // 4
