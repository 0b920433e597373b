"""The networks of LeCun, Bottou, Bengio & Haffner, "Gradient-based learning applied to document recognition" (1998).

Their only built-in symmetry is the translations of a convolution. They serve as plain baselines.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .._checked import Floats, Positive, checked
from ..errors import InputError


@checked
def linear_classifier(channels: Positive, size: Positive, classes: Positive) -> nn.Module:
    """A linear map from pixels to classes.

    >>> sum(p.numel() for p in linear_classifier(1, 28, 10).parameters())
    7850
    """
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, classes))


@checked
def multilayer_perceptron(
    channels: Positive, size: Positive, classes: Positive, *, hidden: Positive = 300
) -> nn.Module:
    """A network with one hidden layer of tanh units, 300 in the paper.

    >>> sum(p.numel() for p in multilayer_perceptron(1, 28, 10).parameters())
    238510
    """
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, hidden), nn.Tanh(), nn.Linear(hidden, classes))


class LeNet5(nn.Module):
    """Two convolutions with subsampling, then three linear maps (6, 16, 120, 84 features).

    The paper pads 28 x 28 digits to 32 x 32. Here, images of any size from 8 up are padded to the next size that the
    two subsamplings divide, and to at least 32 for sizes above 16. Differences from the paper: all maps of the first
    convolution connect to all maps of the second, average pooling has no trained coefficients, and the output is linear
    and trained with cross-entropy instead of radial basis units.

    Args:
        channels: the channels of the image.
        size: the height and width of the image.
        classes: the number of classes.

    Shapes: ``(batch, channels, size, size)`` to ``(batch, classes)``.

    >>> sum(p.numel() for p in LeNet5(1, 28, 10).parameters())
    61706
    """

    @checked
    def __init__(self, channels: Positive, size: Positive, classes: Positive) -> None:
        super().__init__()
        if size < 8:
            raise InputError("LeNet5", expected="images of at least 8 x 8", got=f"{size} x {size}")
        self.channels, self.size = channels, size
        kernel = 5 if size > 16 else 3
        padded = max(32, -(-size // 4) * 4) if size > 16 else -(-(size + 4) // 4) * 4 + 2
        self.margin = (padded - size) // 2, padded - size - (padded - size) // 2
        after = (padded - kernel + 1) // 2
        after = (after - kernel + 1) // 2
        self.features = nn.Sequential(
            nn.Conv2d(channels, 6, kernel),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 16, kernel),
            nn.Tanh(),
            nn.AvgPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(16 * after * after, 120),
            nn.Tanh(),
            nn.Linear(120, 84),
            nn.Tanh(),
            nn.Linear(84, classes),
        )

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The class scores of a batch of images."""
        if x.shape[1:] != (self.channels, self.size, self.size):
            raise InputError(
                "LeNet5",
                expected=f"images ({self.channels}, {self.size}, {self.size})",
                got=str(tuple(x.shape[1:])),
                fix="Build the network for the size of the images.",
            )
        low, high = self.margin
        out: Tensor = self.classifier(self.features(torch.nn.functional.pad(x, (low, high, low, high))))
        return out
