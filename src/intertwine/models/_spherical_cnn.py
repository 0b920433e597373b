"""A classifier of images on the sphere."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from torch import Tensor, nn

from .. import nn as tnn
from .._checked import Floats, Positive, checked
from ..errors import InputError
from ..groups import SO2
from ..spaces import Sphere, SphereGrid


class SphericalCNN(nn.Module):
    """A classifier whose output does not change when the sphere rotates, up to sampling.

    Blocks of convolution, batch norm and ReLU between fields of functions on the circle (the regular representation of
    SO(2), up to a frequency). Such a field is a function on SO(3), so these are the convolutions on SO(3) of Cohen et
    al. 2018. Then the mean over SO(3), and a linear map. The only error under rotations is from sampling the ReLU; a
    higher ``oversampling`` makes it smaller.

    Args:
        grid: the samples of the image, ``Sphere().grid(kind, band_limit=L)``.
        channels: the channels of the image.
        classes: the number of classes.
        widths: the number of regular fields after each block.
        band_limits: the largest degree of the kernels of each block.
        frequencies: the largest frequency of the regular fields of each block.
        oversampling: the band limit of the grid of each block, relative to that of its kernels.

    Shapes: ``(batch, channels, *grid.shape)`` to ``(batch, classes)``.

    >>> import torch
    >>> grid = Sphere().grid("equiangular", band_limit=9)
    >>> net = SphericalCNN(grid, 1, 10, widths=(4, 8), band_limits=(5, 3))
    >>> net(torch.zeros(2, 1, *grid.shape)).shape
    torch.Size([2, 10])
    """

    @checked
    def __init__(
        self,
        grid: SphereGrid,
        channels: Positive,
        classes: Positive,
        *,
        widths: Sequence[int] = (16, 32),
        band_limits: Sequence[int] = (10, 6),
        frequencies: Sequence[int] = (3, 2),
        oversampling: float = 1.5,
    ) -> None:
        super().__init__()
        if not len(widths) == len(band_limits) == len(frequencies) > 0:
            raise InputError(
                "SphericalCNN",
                expected="one width, one band limit and one frequency per block",
                got=f"widths={widths!r}, band_limits={band_limits!r}, frequencies={frequencies!r}",
            )
        if not 1 <= oversampling < inf:
            raise InputError("SphericalCNN", expected="a finite oversampling of at least 1", got=repr(oversampling))
        sphere, circle = Sphere(), SO2()
        field = sphere.field(channels * circle.trivial)
        layers: list[tnn.Layer] = []
        for width, band_limit, frequency in zip(widths, band_limits, frequencies, strict=True):
            finer = sphere.grid(band_limit=round(oversampling * band_limit))
            after = sphere.field(width * tnn.band_limited_regular(circle, frequency))
            samples = 4 * (frequency + 1)  # about two per coefficient
            layers += [
                tnn.SphereConv(field, after, grid, out_grid=finer, band_limit=band_limit, bias=False),
                tnn.BatchNorm(after),
                tnn.FourierNonlinearity(after, nn.ReLU(), samples=samples),
            ]
            field, grid = after, finer
        pooled = tnn.GlobalPool(field, grid=grid)
        self.features = tnn.Sequential(*layers, pooled)
        self.head = nn.Linear(pooled.out_type.dim, classes)

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The class scores of a batch of images on the sphere."""
        return self.head(self.features(x))
