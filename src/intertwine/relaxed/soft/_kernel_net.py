"""Small networks from coordinates to kernels, with a linear last layer: k(a, b) = Σ_j h_j(a, b) V_j."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ..._registry import Registry
from ...errors import InputError

Parts = Sequence[Tensor | None]
"""Coordinates in pieces that broadcast against each other; None stands for zeros."""


class KernelNet(nn.Module, ABC):
    """k(a, b) ∈ R^{out × in} at the relative coordinates a and the absolute coordinates b, both already scaled.

    The last layer is linear, so the kernel is given by a table of the few hidden units h_j, the last of which is the
    constant 1, and the mixture V. Only the table depends on position.

    Coordinates come in pieces that broadcast against each other, so terms that depend on few of them are computed once
    rather than at every position.

    Args:
        in_channels: the number of columns of the kernel.
        out_channels: the number of rows of the kernel.
        relative: the number of coordinates in each piece of a.
        absolute: the number of coordinates in each piece of b.
        angular: which of these coordinates, relative first, are angles as numbers.
        hidden: the number of hidden units.
        dimension: the number of degrees of freedom of all coordinates, by default one each. An angle that is given as
            a point has one, and should not make initial weights smaller than an angle that is given as a number.
    """

    angle_unit: float
    """The unit of angles in the network, if angles are numbers."""

    circle_radius: float
    """The radius of the circle on which the network sees angles, if they are points."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        relative: Sequence[int],
        absolute: Sequence[int] = (),
        angular: Sequence[bool] = (),
        hidden: int = 32,
        dimension: int | None = None,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.hidden = in_channels, out_channels, hidden
        self.relative, self.absolute = tuple(relative), tuple(absolute)
        coordinates = sum(self.relative) + sum(self.absolute)
        self.dimension = coordinates if dimension is None else dimension
        self.weight = nn.Parameter(torch.empty(out_channels * in_channels, hidden))
        self.bias = nn.Parameter(torch.empty(out_channels * in_channels))
        self._reset_mixture()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        self._reset_mixture()
        self._reset_hidden()

    def _reset_mixture(self) -> None:
        bound = math.sqrt(6 / self.hidden) / 10
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.zeros_(self.bias)

    @abstractmethod
    def _reset_hidden(self) -> None:
        """Draw the weights of the hidden units."""

    @abstractmethod
    def table(self, relative: Parts, absolute: Parts) -> Tensor:
        """h_j: the hidden units at all positions, ``(..., hidden + 1)``; the last one is 1."""

    def mixture(self) -> Tensor:
        """V_j: ``(hidden + 1, in_channels, out_channels)``; the last one is the bias."""
        full = torch.cat([self.weight, self.bias[:, None]], 1)
        return full.view(self.out_channels, self.in_channels, -1).permute(2, 1, 0)

    def forward(self, relative: Parts, absolute: Parts = ()) -> Tensor:
        """The kernel, ``(..., out_channels, in_channels)``."""
        return torch.einsum("...j,jco->...oc", self.table(relative, absolute), self.mixture())


class JointSine(KernelNet):
    """h = s(ω0 (B s(ω0 (A (a, b) + b1)) + b2)) where s is cosine or sine: all coordinates enter one network.

    Its sizes are the published ones. With sine and zero initial bias every kernel starts odd under (a, b) → −(a, b);
    with cosine it starts with random phases, which have no such symmetry.

    >>> net = JointSine(3, 8, relative=(2,))
    >>> sum(p.numel() for p in net.parameters()) == 3 * 32 + 33 * 32 + 33 * 24
    True
    >>> net([torch.zeros(5, 2)]).shape
    torch.Size([5, 8, 3])
    """

    angle_unit = math.pi
    circle_radius = 1.0  # like all its coordinates, between -1 and 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        relative: Sequence[int],
        absolute: Sequence[int] = (),
        angular: Sequence[bool] = (),
        hidden: int = 32,
        dimension: int | None = None,
        activation: Literal["cos", "sin"] = "cos",
        scale: float = 10.0,
    ) -> None:
        super().__init__(
            in_channels, out_channels, relative=relative, absolute=absolute, hidden=hidden, dimension=dimension
        )
        if activation not in ("cos", "sin"):
            raise InputError("JointSine", expected="activation cos or sin", got=repr(activation))
        self.activation, self.scale = activation, scale
        width = sum(self.relative) + sum(self.absolute)
        self.first, self.second = nn.Linear(width, hidden), nn.Linear(hidden, hidden)
        self._reset_hidden()

    def _reset_hidden(self) -> None:
        bound = 1 / max(self.dimension, 1)
        nn.init.uniform_(self.first.weight, -bound, bound)
        bound = math.sqrt(6 / self.hidden) / self.scale
        nn.init.uniform_(self.second.weight, -bound, bound)
        phase = math.pi / self.scale if self.activation == "cos" else 0.0
        for layer in (self.first, self.second):
            nn.init.uniform_(layer.bias, -phase, phase)

    def table(self, relative: Parts, absolute: Parts) -> Tensor:
        """The hidden units of the second layer."""
        wave = torch.cos if self.activation == "cos" else torch.sin
        widths = (*self.relative, *self.absolute)
        phase = project(self.scale * self.first.weight, widths, (*relative, *absolute), self.scale * self.first.bias)
        # One product also makes the constant unit: a row of zeros, and the phase at which the wave is 1.
        weight = torch.cat([self.scale * self.second.weight, self.second.weight.new_zeros(1, self.hidden)])
        one = self.second.bias.new_full((1,), 0.0 if self.activation == "cos" else math.pi / 2)
        return wave(linear(wave(phase), weight, torch.cat([self.scale * self.second.bias, one])))


class FourierFeatures(KernelNet):
    """h = cos(U (γ(a), γ'(b)) + c) with γ(a) = D^(−1/2) (cos 2πWa, sin 2πWa): random features, then one hidden layer.

    Equations 7 and 8 of the paper. W and W' are drawn once and not trained. Their entries are normal; for angles they
    are −1, 0 or 1, which makes the kernel smooth on the circle for integer frequencies.

    Args:
        features: D, the number of rows of W and of W'.

    >>> net = FourierFeatures(3, 8, relative=(2,), absolute=(2,))
    >>> net([torch.zeros(5, 2)], [None]).shape
    torch.Size([5, 8, 3])
    """

    angle_unit = 2 * math.pi
    circle_radius = 1 / (2 * math.pi)  # phases W ω (cos θ, sin θ)
    filter_waves: Tensor
    domain_waves: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        relative: Sequence[int],
        absolute: Sequence[int] = (),
        angular: Sequence[bool] = (),
        hidden: int = 32,
        dimension: int | None = None,
        features: int = 16,
    ) -> None:
        super().__init__(
            in_channels, out_channels, relative=relative, absolute=absolute, hidden=hidden, dimension=dimension
        )
        angles = [*angular, *[False] * (sum(self.relative) + sum(self.absolute) - len(angular))]
        split = sum(self.relative)
        self._angles = angles[:split], angles[split:]
        self.register_buffer("filter_waves", _waves(features, angles[:split]))
        self.register_buffer("domain_waves", _waves(features, angles[split:]))
        inputs = 4 * features if self.absolute else 2 * features
        self.first = nn.Linear(inputs, hidden)
        self._reset_first()

    @torch.no_grad()
    def _reset_hidden(self) -> None:
        for waves, angles in zip((self.filter_waves, self.domain_waves), self._angles, strict=True):
            waves.copy_(_waves(len(waves), angles))
        self._reset_first()

    def _reset_first(self) -> None:
        nn.init.normal_(self.first.weight)
        nn.init.uniform_(self.first.bias, -math.pi, math.pi)

    def table(self, relative: Parts, absolute: Parts) -> Tensor:
        """The hidden units. The phases of a and b are computed separately, each at its own size, and then added."""
        split = 2 * len(self.filter_waves)
        # The same sum makes the constant unit: a row of zeros, whose cosine is 1.
        weight = torch.cat([self.first.weight, self.first.weight.new_zeros(1, self.first.in_features)])
        bias = torch.cat([self.first.bias, self.first.bias.new_zeros(1)])
        phase = linear(_features(self.filter_waves, self.relative, relative), weight[:, :split], bias)
        if self.absolute:
            phase = phase + linear(_features(self.domain_waves, self.absolute, absolute), weight[:, split:])
        return torch.cos(phase)


def _waves(features: int, angles: Sequence[bool]) -> Tensor:
    columns = [
        torch.randint(-1, 2, (features,)).to(torch.get_default_dtype()) if angle else torch.randn(features)
        for angle in angles
    ]
    return torch.stack(columns, 1) if columns else torch.zeros(features, 0)


def _features(waves: Tensor, widths: Sequence[int], parts: Parts) -> Tensor:
    phase = project(2 * math.pi * waves, widths, parts, waves.new_zeros(len(waves)))
    return torch.cat([phase.cos(), phase.sin()], -1) / math.sqrt(len(waves))


def project(weight: Tensor, widths: Sequence[int], parts: Parts, bias: Tensor) -> Tensor:
    """``bias + weight @ (all parts)``. Adding small parts first does most of the work before they broadcast."""
    ends = list(accumulate(widths))
    columns = [weight[:, end - width : end] for end, width in zip(ends, widths, strict=True)]
    terms = [linear(part, column) for column, part in zip(columns, parts, strict=True) if part is not None]
    if not torch.compiler.is_compiling():  # a compiler fuses the sum, and cannot sort by sizes that it leaves open
        terms.sort(key=lambda term: term.numel() if isinstance(term, Tensor) else math.inf)  # or a tracer's
    total = bias
    for term in terms:
        total = total + term
    return total


KERNEL_NETS: Registry[type[KernelNet]] = Registry("kernel network")
"""Two versions of the kernel network: ``joint`` has the published sizes, ``fourier`` the published formulas."""

KERNEL_NETS.add("joint", JointSine)
KERNEL_NETS.add("fourier", FourierFeatures)
