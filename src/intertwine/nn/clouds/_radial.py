"""Functions of the distance: bases, a smooth cutoff, and the small network that combines them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import pi, sqrt
from typing import Literal

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import Floats, Positive, checked
from ...errors import InputError

_SERIES = 0.16
"""Below this, four terms of the series of sin(x)/x are exact to 64 bits."""


@checked
def smooth_cutoff(distance: Floats, radius: float, *, power: Positive = 6) -> Tensor:
    """A polynomial that falls from 1 at distance 0 to 0 at the radius, with two continuous derivatives, and stays 0.

    >>> smooth_cutoff(torch.tensor([0.0, 0.5, 1.0, 2.0]), 1.0)
    tensor([1.0000, 0.8555, 0.0000, 0.0000])
    """
    _require_radius("smooth_cutoff", radius)
    return _cutoff(distance, radius, power)


@checked
def bessel_basis(distance: Floats, radius: float, count: Positive = 8) -> Tensor:
    """√2 sin(nπr/R)/(nπr/R) for n = 1..count: spherical Bessel functions of order 0 that vanish at the radius.

    >>> bessel_basis(torch.tensor([0.0, 1.0]), 1.0, 2).shape
    torch.Size([2, 2])
    """
    _require_radius("bessel_basis", radius)
    return _bessel(distance, radius, count)


@checked
def gaussian_basis(distance: Floats, radius: float, count: Positive = 8) -> Tensor:
    """Gaussians with centers spread evenly from 0 to the radius, as wide as the centers are apart.

    Each one is added to its mirror image at negative distances: an even function of the distance is a smooth function
    of the vector, also where two points meet.

    >>> gaussian_basis(torch.tensor([1.0]), 1.0, 3)
    tensor([[0.1353, 0.6176, 1.0003]])
    """
    _require_radius("gaussian_basis", radius)
    return _gaussian(distance, radius, count)


RadialBasis = Literal["gaussian", "bessel"]


class RadialNetwork(torch_nn.Module):
    """From distances ``(edges,)`` to ``(edges, outputs)``: a basis, hidden layers, and the cutoff.

    Features of the edges, if there are any, enter the first hidden layer beside the basis. The last layer starts so
    that the mean square of each output over distances up to the radius is about 1.
    """

    def __init__(
        self,
        outputs: int,
        *,
        radius: float,
        basis: RadialBasis,
        functions: int,
        hidden: Sequence[int],
        edge_features: int = 0,
    ) -> None:
        super().__init__()
        self.radius, self.basis, self.functions, self.edge_features = radius, basis, functions, edge_features
        sizes = [functions + edge_features, *hidden, outputs]
        self.layers = torch_nn.ModuleList(torch_nn.Linear(a, b) for a, b in pairwise(sizes))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the weights, and scale the last layer by its outputs at distances as they occur in 3-space."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]
        weight: Tensor = self.layers[-1].weight  # type: ignore[assignment]
        if weight.device.type == "meta":  # there is nothing to measure yet
            return
        distance = self.radius * torch.linspace(0, 1, 128, device=weight.device, dtype=weight.dtype) ** (1 / 3)
        features = distance.new_zeros(len(distance), self.edge_features) if self.edge_features else None
        scale = self(distance, features).square().mean(0).sqrt().clamp_min(1e-3)
        weight /= scale[:, None]
        self.layers[-1].bias /= scale

    def forward(self, distance: Tensor, features: Tensor | None = None) -> Tensor:
        values, factor = self._hidden(distance, features)
        return self._last(values, factor)

    def faded(self, distance: Tensor, features: Tensor | None, fade: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The first ``count`` outputs times ``fade``, a number per edge; and the others."""
        values, factor = self._hidden(distance, features)
        return self._last(values, factor * fade, 0, count), self._last(values, factor, count)

    def _hidden(self, distance: Tensor, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """What the last layer takes, and the cutoff."""
        values = _BASES[self.basis](distance, self.radius, self.functions)
        if features is not None:
            values = torch.cat([values, features], 1)
        for layer in self.layers[:-1]:
            values = torch.nn.functional.silu(layer(values))
        return values, _cutoff(distance, self.radius)

    def _last(self, values: Tensor, factor: Tensor, start: int = 0, end: int | None = None) -> Tensor:
        """The last layer times a factor per edge, which scales its few inputs rather than its many outputs."""
        layer = self.layers[-1]
        weight, bias = layer.weight[start:end], layer.bias[start:end]  # type: ignore[index]
        scaled = torch.cat([values * factor[:, None], factor[:, None]], 1)
        return torch.nn.functional.linear(scaled, torch.cat([weight, bias[:, None]], 1))


def _bessel(distance: Tensor, radius: float, count: int) -> Tensor:
    n = torch.arange(1, count + 1, device=distance.device, dtype=distance.dtype)
    return sqrt(2) * _sinc(distance[..., None] * (n * (pi / radius)))


def _gaussian(distance: Tensor, radius: float, count: int) -> Tensor:
    step = radius / max(count - 1, 1)
    numbers = torch.arange(count, device=distance.device, dtype=distance.dtype)
    r = distance[..., None] / step
    both = torch.exp(-0.5 * (r - numbers).square()) + torch.exp(-0.5 * (r + numbers).square())
    return both * torch.where(numbers == 0, 0.5, 1.0).to(both)


_BASES: dict[RadialBasis, Callable[[Tensor, float, int], Tensor]] = {"gaussian": _gaussian, "bessel": _bessel}


def _sinc(x: Tensor) -> Tensor:
    """sin(x)/x with all derivatives. Near 0 they would be differences of large numbers, so a series takes over."""
    small = x < _SERIES
    y = torch.where(small, x, torch.zeros_like(x)).square()
    series = 1 - y / 6 * (1 - y / 20 * (1 - y / 42 * (1 - y / 72)))
    safe = torch.where(small, torch.ones_like(x), x)
    return torch.where(small, series, safe.sin() / safe)


def _cutoff(distance: Tensor, radius: float, power: int = 6) -> Tensor:
    p = power
    x = (distance / radius).clamp(max=1.0)
    falling = 1 - (p + 1) * (p + 2) / 2 * x**p + p * (p + 2) * x ** (p + 1) - p * (p + 1) / 2 * x ** (p + 2)
    return torch.where(x < 1, falling, torch.zeros_like(falling))


def _require_radius(caller: str, radius: float) -> None:
    if not 0 < radius < float("inf"):
        raise InputError(caller, expected="a radius above 0", got=str(radius))
