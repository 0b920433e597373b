"""Group convolution on a learned subset of the rotations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from ..._checked import checked
from ...errors import InputError
from ...nn import register_layer
from ...spaces import FieldType
from .._orientations import Angles, Orientations, Sampling, from_angles, uniform
from .._relaxed_layer import RelaxedLayer
from ._soft_group_conv import GroupLayer


@register_layer
class PartialGroupConv2d(GroupLayer):
    """(Φf)(u) = Σ_v k(log u⁻¹v) f(v) for u in a learned subset of the group: output angles uniform on [−πt, πt].

    The extent t is learned by reparameterization: m = min(⌈n|t|⌉, n) angles 2πti/m − πt + δ with δ uniform on
    [0, 2πt/m]. The number m and the spacing count as constants; the shifts carry the gradient. With t = 1 the layer has
    all rotations and is a group convolution. As t shrinks, the output loses large rotations, and the layer costs less.

    With reflections, the reflected half is kept with a learned probability p. If kept, its output is multiplied by 1,
    whose gradient with respect to p is set to 1 (straight through); if not, it is not computed. With p = 1 the layer is
    equivariant under reflections.

    Shapes: ``(batch, fields · samples, height, width)`` to ``(batch, fields · m, height', width')``, with m (with
    reflections, up to 2m) between 1 and ``samples``.

    Equivariance: under translations, away from the border, exactly; under the rotations that the samples and the pixels
    share, exactly if t = 1 and the samples are a grid.

    Args:
        in_type: regular fields of C_n or D_n on the plane, or the number of fields.
        out_type: regular fields, or the number of fields.
        kernel_size: the size of the square around the support.
        samples: n, the number of elements of the whole group; by default that of the types, or 8.
        extent: the initial t, in (0, 1].
        mirrored: E(2) instead of SE(2): n/2 angles, with and without reflection.
        keep: the initial p.
        sampling: ``grid`` has δ = 0 and keeps reflections if p > ½; ``random`` draws both on every call from torch's
            generator; ``train`` draws in training only.
        padding: ``same``, ``valid`` or the number of zeros on each side.
        net: ``joint`` or ``fourier``, see :class:`SoftGroupConv2d`.
        hidden: the number of hidden units of the kernel network.
        activation: ``cos`` or ``sin``, for the joint network.
        frequency: ω of displacements.
        rotation_frequency: ω of relative angles.
        angles: ``circle``, ``principal`` or ``integer``, see :class:`SoftGroupConv2d`.
        bias: whether to add a bias per channel.
        variant: the way to compute the layer: ``window``, ``rank``, ``dense``, ``factored`` or ``loop``; None for the
            one that should be fastest (:class:`intertwine.nn.cost_rules`).

    References: Romero, Lohit, *Learning partial equivariances from data*, 2022.

    >>> layer = PartialGroupConv2d(2, 3, 3, samples=8, extent=0.5)
    >>> layer(torch.randn(1, 16, 9, 9)).shape
    torch.Size([1, 12, 9, 9])
    >>> layer.dial(), layer.claim
    ({'rotation': 0.5}, Relaxed(C8=0.707))
    """

    tied = False
    surrogate_gradients = ("extent", "keep")
    shape_from_weights = True

    @checked
    def __init__(
        self,
        in_type: int | FieldType,
        out_type: int | FieldType,
        kernel_size: int = 7,
        *,
        samples: int | None = None,
        extent: float = 1.0,
        mirrored: bool = False,
        keep: float = 1.0,
        sampling: Sampling = "grid",
        padding: str | int = "same",
        net: Literal["joint", "fourier"] = "joint",
        hidden: int = 32,
        activation: Literal["cos", "sin"] = "cos",
        frequency: float = 1.0,
        rotation_frequency: float = 1.0,
        angles: Angles = "circle",
        bias: bool = True,
        variant: str | None = None,
    ) -> None:
        super().__init__(
            in_type,
            out_type,
            kernel_size=kernel_size,
            samples=samples,
            mirrored=mirrored,
            sampling=sampling,
            lifting=False,
            softness={},
            learn=False,
            angles=angles,
            domain="input",
            padding=padding,
            support="disk",
            net=net,
            hidden=hidden,
            activation=activation,
            frequency=frequency,
            rotation_frequency=rotation_frequency,
            bias=bias,
            variant=variant,
        )
        if not 0 < extent <= 1:
            raise InputError(
                type(self).__name__,
                expected="an extent above 0 and at most 1, the whole circle",
                got=repr(extent),
            )
        if not 0 <= keep <= 1:
            raise InputError(type(self).__name__, expected="a probability keep", got=repr(keep))
        self._initial_extent, self._initial_keep = float(extent), float(keep)
        self.extent = nn.Parameter(torch.tensor(float(extent)))
        self.keep = nn.Parameter(torch.tensor(float(keep))) if mirrored else None

    def reset_parameters(self) -> None:
        """Reset extent and probability to their initial values, and the bias to 0."""
        super().reset_parameters()
        nn.init.constant_(self.extent, self._initial_extent)
        if self.keep is not None:
            nn.init.constant_(self.keep, self._initial_keep)

    def draw(self, *, generator: torch.Generator | None = None) -> Orientations:
        """Output samples for one call, through which gradients reach the extent and the probability."""
        return self._drawn(self.extent, self.keep, generator)

    def _fixed(self, g: int = 0) -> Any:
        """The input grid and the kept output samples, from the raw parameters: a tracer would replace attributes."""
        extent, keep = (self._parameters.get(name) for name in ("extent", "keep"))
        if extent is None:
            raise InputError(type(self).__name__, expected="a parameter extent", got="none")
        kept = self._drawn(extent.detach(), None if keep is None else keep.detach(), None)
        return self.fixed_samples(), Orientations(kept.elements), g

    def _drawn(self, extent: Tensor, keep: Tensor | None, generator: torch.Generator | None) -> Orientations:
        count = self.samples // 2 if self.mirrored else self.samples
        extent = extent.double()
        # The extent decides the number of angles. Meta tensors have no values: assume the largest number.
        number = max(1, min(math.ceil(count * abs(_number(extent, 1.0)) - 1e-9), count))
        steps = torch.arange(number, dtype=torch.float64, device=extent.device) / number
        angles = 2 * math.pi * extent.detach() * steps - math.pi * extent
        if self.is_random():
            angles = angles + 2 * math.pi * extent / number * uniform(generator, extent.device)
        if keep is None:
            return Orientations(from_angles(angles))
        ones = torch.ones_like(angles)
        level = _number(uniform(generator, extent.device), 0.5) if self.is_random() else 0.5
        if level >= _number(keep, 1.0):
            return Orientations(from_angles(angles))
        through = (1 + keep - keep.detach()).to(ones)
        factors = torch.cat([ones, through.expand(number)])
        return Orientations(torch.cat([from_angles(angles), from_angles(angles, mirror=True)]), factors)

    def squared_shares(self) -> Mapping[str, Tensor]:
        """1 − t, or 1 − t (1 + p) / 2 with reflections: the share of the group without output.

        On the whole group, the kernel of a partial layer is k(u⁻¹v) for u in the kept subset and 0 elsewhere. Its mean
        over the group is k times the share of the kept subset, and the rest lies outside the strict kernels.
        """
        kept = self.extent.abs().clamp_max(1)
        if self.keep is not None:
            kept = kept * (1 + self.keep.clamp(0, 1)) / 2
        return {self.in_type.space.stabilizer.name: (1 - kept).clamp_min(0).sum()}

    def dial(self) -> Mapping[str, float]:
        """1 − |t|, the share of the rotations that is left out, and 1 − p for reflections."""
        settings = {"rotation": max(0.0, 1 - abs(float(self.extent.detach())))}
        if self.keep is not None:
            settings["reflection"] = max(0.0, 1 - float(self.keep.detach()))
        return settings

    def penalty(self) -> Tensor:
        """(1 − |t|)² + (1 − p)²; values of t and p above 1 count as 1."""
        lacks = [1 - self.extent.abs()] + ([] if self.keep is None else [1 - self.keep])
        return torch.stack([lack.clamp_min(0).square() for lack in lacks]).sum()

    @torch.no_grad()
    def to_equivariant_(self) -> Self:
        """t = p = 1."""
        self.extent.fill_(1.0)
        if self.keep is not None:
            self.keep.fill_(1.0)
        return self

    @torch.no_grad()
    def perturb_(self, scale: float, *, generator: torch.Generator | None = None) -> Self:
        """Shrink t and p by scale · U(½, 3/2), down to 1/10 and 0 at most."""
        less = scale * (0.5 + torch.rand(2, generator=generator))
        self.extent.copy_((self.extent - less[0].to(self.extent)).clamp_min(0.1))
        if self.keep is not None:
            self.keep.copy_((self.keep - less[1].to(self.keep)).clamp_min(0.0))
        return self

    @classmethod
    def examples(cls) -> Iterator[RelaxedLayer]:
        """Rotations, with and without reflections."""
        yield cls(2, 3, 3, samples=4, hidden=8)
        yield cls(2, 2, 3, samples=8, extent=0.7, net="fourier", hidden=8, bias=False)
        yield cls(2, 2, 3, samples=8, mirrored=True, hidden=8)


def _number(value: Tensor, unknown: float) -> float:
    """The value of a tensor, or ``unknown`` for a meta tensor."""
    return unknown if value.is_meta else float(value.detach())


@checked
def extent_penalty(model: nn.Module) -> Tensor:
    """Σ_l relu(t_{l+1} − t_l): a later partial layer should not cover more of the group than an earlier one.

    >>> layers = [PartialGroupConv2d(1, 1, 3, extent=t) for t in (0.5, 0.75, 0.25)]
    >>> float(extent_penalty(nn.Sequential(*layers)).detach())
    0.25
    """
    extents = [module.extent for module in model.modules() if isinstance(module, PartialGroupConv2d)]
    steps = [(after - before).relu() for before, after in itertools.pairwise(extents)]
    return torch.stack(steps).sum() if steps else torch.zeros(())
