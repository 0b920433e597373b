"""Lifting and group convolution on the motions of the plane, with a dial for each subgroup."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from .._checked import Floats, checked
from ..errors import InputError
from ._group_grid import GroupSamples, Sampling, check_samples, draw, grid
from ._kernel_net import Parts
from ._relaxed import Relaxed, SampleMotion, register_relaxed
from ._soft_layer import Domain, KernelLayer, SoftLayer, check_softness, make_net


class GroupLayer(KernelLayer):
    """A layer between fields on sampled motions of the plane: what is common to soft and partial ones."""

    tied: bool
    """Are the samples of the output those of the input, if nothing else is said?"""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        kernel_size: int,
        samples: int,
        mirrored: bool,
        sampling: Sampling,
        lifting: bool,
        softness: Mapping[str, Tensor],
        learn: bool,
        integer: bool,
        domain: Domain,
        padding: str | int,
        support: str,
        net: str,
        hidden: int,
        activation: str,
        frequency: float,
        rotation_frequency: float,
        bias: bool,
        variant: str | None,
    ) -> None:
        who = type(self).__name__
        self_samples = check_samples(who, samples, mirrored=mirrored)
        super().__init__(
            in_channels,
            out_channels,
            kernel_size=kernel_size,
            padding=padding,
            support=support,
            softness=softness,
            learn=learn,
            domain=domain,
            bias=bias,
            variant=variant,
        )
        if net == "fourier" and rotation_frequency != round(rotation_frequency):
            raise InputError(
                who,
                expected="an integer rotation_frequency, for a kernel that is smooth on the circle",
                got=repr(rotation_frequency),
                fix="For example rotation_frequency=1.",
            )
        self.samples, self.mirrored, self.sampling, self.lifting = self_samples, mirrored, sampling, lifting
        self.frequency, self.rotation_frequency, self.integer = frequency, rotation_frequency, integer
        # A pointwise group convolution has no displacement to look at.
        self.spatial = lifting or kernel_size > 1
        relative = ((2,) if self.spatial else ()) + (() if lifting else ((2 if mirrored else 1),))
        angular = [False, False] * self.spatial + ([] if lifting else [True, False][: relative[-1]])
        absolute = tuple(2 if name == "translation" else 1 for name in self.soft)
        for name in self.soft:
            angular += [False, False] if name == "translation" else [True]
        self.net = make_net(
            who,
            net,
            (in_channels, out_channels),
            relative=relative,
            absolute=absolute,
            angular=angular,
            hidden=hidden,
            activation=activation,
        )

    def fixed_samples(self) -> GroupSamples:
        """The grid without offset."""
        return grid(self.samples, mirrored=self.mirrored, device=self.net.weight.device)

    def is_random(self) -> bool:
        """Are samples drawn at each call?"""
        return self.sampling == "random" or (self.sampling == "train" and self.training)

    @abstractmethod
    def draw(self, generator: torch.Generator | None = None) -> GroupSamples:
        """Output samples for one call, as ``sampling`` says; from torch's own generator if none is given."""

    @checked
    def forward(
        self, x: Floats, in_samples: GroupSamples | None = None, out_samples: GroupSamples | None = None
    ) -> Tensor:
        """The layer from the samples of the input, by default the grid, to those given, those of the input or a draw.

        With random samples those of the input have to be given, because nobody else knows them.
        """
        if in_samples is None and not self.lifting and self.is_random():
            raise InputError(
                type(self).__name__,
                expected="in_samples, the samples at which the input was computed, because they are random",
                got="none",
                fix="samples = lift.draw(); layer(lift(x, out_samples=samples), samples)",
            )
        if out_samples is None:
            out_samples = in_samples if self.tied and in_samples is not None else self.draw()
        if in_samples is None:
            in_samples = self.fixed_samples()
        y = self._between(x, grid(1, device=x.device) if self.lifting else in_samples, out_samples)
        return y if out_samples.factors is None else y * out_samples.factors.to(y)[:, None, None]

    def _between(self, x: Tensor, before: GroupSamples, after: GroupSamples) -> Tensor:
        if self.lifting:
            self._check_input(x, ("batch", "channels", "height", "width"))
            x = x[:, :, None]
        else:
            self._check_input(x, ("batch", "channels", "samples", "height", "width"))
            if x.shape[2] != len(before):
                raise InputError(
                    type(self).__name__,
                    expected=f"{len(before)} group samples along axis 2",
                    got=str(tuple(x.shape)),
                    fix="Give in_samples=, the samples of the layer before.",
                )
        extra = [s.angles for s in (before, after) if s.angles.requires_grad]
        # Samples without a key are compared by value: new ones never meet a table kept for others.
        key = tuple(s.key if s.key is not None else s.values() for s in (before, after))
        return self._layer(x, len(after), (before, after), key, extra)

    def _coordinates(self, x: Tensor, moving: bool, where: Any) -> tuple[Parts, Parts]:
        before: GroupSamples = where[0]
        after: GroupSamples = where[1]
        like, unit = self.net.weight, self.net.angle_unit
        relative: list[Tensor | None] = []
        if self.spatial:
            turned = after.turned_back(self.frequency * self.stencil.displacements(like.device))
            relative.append(turned.to(like)[:, None, None, :, None])
        if not self.lifting:
            element = before.relative_to(after)
            parts = [self.rotation_frequency / unit * element.angles]
            if self.mirrored:
                parts.append(element.mirrors if element.mirrors is not None else torch.ones_like(parts[0]))
            relative.append(torch.stack(parts, -1).to(like)[:, None, None, None])
        absolute: list[Tensor | None] = []
        for name in self.soft:
            if name == "translation":
                absolute.append(self._position_part(x, moving))
            else:
                absolute.append(self._angle_part(before if self.domain == "input" else after))
        return relative, absolute

    def _angle_part(self, elements: GroupSamples) -> Tensor:
        """ω' times the absolute angle, along the samples of the input or of the output."""
        value = self.softness_of("rotation")
        if self.integer:  # rounded, with the gradient of the number that was rounded
            value = value + (value.round() - value).detach()
        from_identity = elements.relative_to(GroupSamples(torch.zeros_like(elements.angles[:1]))).angles[0]
        part = value * (from_identity / self.net.angle_unit).to(self.net.weight)[:, None]
        return part[None, None, None, None] if self.domain == "input" else part[:, None, None, None, None]

    def sample_input(self, generator: torch.Generator | None = None) -> Tensor:
        """White noise on a square of odd size, whose center is a place."""
        size = self.stencil.size + 6 + 2 * self.stencil.padding
        size += 1 - size % 2
        shape = (2, self.in_channels, size, size) if self.lifting else (2, self.in_channels, self.samples, size, size)
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(self.net.weight)

    def sample_motions(self) -> Mapping[str, SampleMotion]:
        """A step; a quarter or half turn, and a reflection, where the samples contain them."""
        margin = self.stencil.padding + 2

        def inside(y: Tensor) -> Tensor:
            return y[..., margin:-margin, margin:-margin]

        def step(x: Tensor) -> Tensor:
            return x.roll((1, -2), (-2, -1))

        found = {"translation": SampleMotion(step, step, inside)}
        if not self.is_random():
            for quarters in (1, 2):
                order = self.fixed_samples().permutation(quarters * math.pi / 2)
                if order is not None and len(order) > 1:
                    found["rotation"] = self._motion(order, quarters, False)
                    break
            order = self.fixed_samples().permutation(0.0, -1.0) if self.mirrored else None
            if order is not None:
                found["reflection"] = self._motion(order, 0, True)
        return found

    def _motion(self, order: Tensor, quarters: int, mirror: bool) -> SampleMotion:
        def plane(x: Tensor) -> Tensor:
            return x.flip(-1) if mirror else x.rot90(quarters, (-2, -1))

        def field(x: Tensor) -> Tensor:
            # Fewer samples than the grid: no motion fits, and any order shows it.
            return plane(x.index_select(2, order if len(order) == x.shape[2] else torch.arange(x.shape[2]).flip(0)))

        return SampleMotion(plane if self.lifting else field, field)

    def extra_repr(self) -> str:
        """Channels, support, samples and dial."""
        kind = f"{self.sampling}, mirrored" if self.mirrored else self.sampling
        soft = "".join(f", {name}={value:.3g}" for name, value in self.relaxation().items())
        channels = f"{self.in_channels}, {self.out_channels}, size {self.stencil.size}"
        return f"{channels}, samples={self.samples} ({kind}), lifting={self.lifting}{soft}"


@register_relaxed
class SoftGroupConv2d(SoftLayer, GroupLayer):
    """(Φf)(u) = Σ_v k(ω log(u⁻¹v), ω' log b) f(v) on SE(2) or E(2), where b is v, or u; v runs over the samples.

    Elements are a place and a rotation, sampled at n angles. The kernel is a small network of Lie-algebra coordinates:
    the displacement in the frame of the output element, the relative angle in (−π, π] and, for each subgroup that is
    relaxed, its absolute coordinates times the domain frequency ω'. With all ω' = 0 it is a group convolution. A
    lifting layer starts from an image: its kernel sees the turned displacement only, and n rotations come out.

    Shapes: ``(batch, in_channels, samples, height, width)``, or ``(batch, in_channels, height, width)`` if
    ``lifting``, to ``(batch, out_channels, samples, height', width')``.

    Equivariance: under translations, away from the border, exactly if ``translation_softness`` is None or 0; under
    those rotations about the center that the samples and the pixels share, exactly if ``rotation_softness`` is None
    or 0: a quarter turn of the image turns the maps and moves the samples on. Under other rotations approximately.

    Args:
        in_channels: of the input.
        out_channels: of the output.
        kernel_size: of the square around the support; 1 is a pointwise layer, which sees the angle only.
        samples: elements of the rotation group, n.
        rotation_softness: ω' of rotations; None leaves them strict.
        translation_softness: ω', or (ω'_row, ω'_column), of translations; None leaves them strict.
        learn: are the ω' parameters?
        lifting: is the input an image?
        mirrored: E(2) instead of SE(2): n/2 angles, with and without reflection.
        sampling: ``grid``, always the same angles; ``random``, the grid turned by an offset drawn at each call from
            torch's generator; ``train``, random in training and the grid in evaluation.
        domain: is b the element of the ``input`` (as published) or of the ``output``?
        padding: ``same``, ``valid`` or a number of zeros on each side.
        support: ``disk`` or ``square``; only a disk turns into itself.
        net: ``joint`` (the published sizes) or ``fourier`` (the published formulas, smooth on the circle).
        hidden: units of the network.
        activation: ``cos`` or ``sin``, for the joint network.
        frequency: ω of displacements.
        rotation_frequency: ω of relative angles; an integer for the Fourier network.
        integer: round ω' of rotations, so that the Fourier kernel is smooth on the circle for both arguments.
        bias: one number for each channel.
        variant: which of ``VARIANTS`` computes it; None for the cheapest.

    >>> lift = SoftGroupConv2d(3, 4, samples=8, lifting=True)
    >>> layer = SoftGroupConv2d(4, 4, samples=8, rotation_softness=1.0, learn=True)
    >>> layer(lift(torch.randn(2, 3, 15, 15))).shape
    torch.Size([2, 4, 8, 15, 15])
    >>> layer.relaxation()
    {'rotation': 1.0}
    """

    tied = True

    @checked
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        kernel_size: int = 7,
        samples: int = 8,
        rotation_softness: float | None = None,
        translation_softness: float | Sequence[float] | None = None,
        learn: bool = False,
        lifting: bool = False,
        mirrored: bool = False,
        sampling: Sampling = "grid",
        domain: Domain = "input",
        padding: str | int = "same",
        support: str = "disk",
        net: Literal["joint", "fourier"] = "joint",
        hidden: int = 32,
        activation: Literal["cos", "sin"] = "cos",
        frequency: float = 1.0,
        rotation_frequency: float = 1.0,
        integer: bool = False,
        bias: bool = True,
        variant: str | None = None,
    ) -> None:
        who = type(self).__name__
        softness: dict[str, Tensor] = {}
        if translation_softness is not None:
            softness["translation"] = check_softness(who, translation_softness, 2)
        if rotation_softness is not None:
            softness["rotation"] = check_softness(who, rotation_softness, 1)
            if lifting and domain == "input":
                raise InputError(
                    who,
                    expected="no rotation_softness in a lifting layer, whose input has no angle",
                    got=repr(rotation_softness),
                    fix="Relax rotations in the layers behind it, or take domain='output'.",
                )
        super().__init__(
            in_channels,
            out_channels,
            kernel_size=kernel_size,
            samples=samples,
            mirrored=mirrored,
            sampling=sampling,
            lifting=lifting,
            softness=softness,
            learn=learn,
            integer=integer,
            domain=domain,
            padding=padding,
            support=support,
            net=net,
            hidden=hidden,
            activation=activation,
            frequency=frequency,
            rotation_frequency=rotation_frequency,
            bias=bias,
            variant=variant,
        )

    def draw(self, generator: torch.Generator | None = None) -> GroupSamples:
        """The grid, or the grid turned by a random offset."""
        if self.is_random():
            device = self.net.weight.device
            return draw(self.samples, mirrored=self.mirrored, generator=generator, device=device)
        return self.fixed_samples()

    @classmethod
    def examples(cls) -> Iterator[Relaxed]:
        """Each subgroup by itself and both, lifting and not, both networks, with and without reflections."""
        yield cls(2, 3, kernel_size=3, samples=4, rotation_softness=0.7, learn=True, hidden=8)
        yield cls(2, 2, kernel_size=3, samples=4, translation_softness=0.5, rotation_softness=1.0, hidden=8)
        yield cls(2, 3, kernel_size=5, samples=4, translation_softness=(0.2, 0.6), lifting=True, hidden=8)
        yield cls(2, 3, kernel_size=3, samples=8, rotation_softness=2.0, net="fourier", hidden=8, domain="output")
        yield cls(2, 2, kernel_size=3, samples=8, rotation_softness=1.0, mirrored=True, activation="sin", hidden=8)
        yield cls(2, 2, kernel_size=1, samples=4, rotation_softness=1.0, bias=False, hidden=8)
        yield cls(1, 2, kernel_size=5, samples=1, translation_softness=0.5, padding="valid", hidden=8)
