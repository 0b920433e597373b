"""Lifting and group convolution on the motions of the plane, with one dial per subgroup."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from ..._checked import Floats, checked
from ...errors import InputError
from ...groups import Cyclic, Dihedral, FiniteGroup, Representation
from ...nn import register_layer
from ...spaces import FieldType, Grid2d
from .._orientations import (
    Angles,
    Orientations,
    Sampling,
    angle_and_mirror,
    check_samples,
    draw,
    grid,
    point_and_mirror,
    sampled_group,
)
from .._relaxed_layer import RelaxedLayer
from ._kernel_net import Parts
from ._soft_layer import Domain, KernelLayer, SoftLayer, check_softness, make_net


class GroupLayer(KernelLayer):
    """The base class of soft and partial layers between fields on sampled motions of the plane."""

    tied: bool
    """Whether the output samples default to the input samples."""

    def __init__(
        self,
        in_type: int | FieldType,
        out_type: int | FieldType,
        *,
        kernel_size: int,
        samples: int | None,
        mirrored: bool,
        sampling: Sampling,
        lifting: bool,
        softness: Mapping[str, Tensor],
        learn: bool,
        angles: Angles,
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
        caller = type(self).__name__
        before, after, lifting = regular_types(caller, in_type, out_type, samples, mirrored=mirrored, lifting=lifting)
        group = after.rho.group
        if not isinstance(group, FiniteGroup):
            raise InputError(caller, expected="a finite group", got=group.name)
        mirrored = isinstance(group, Dihedral)
        if lifting and domain == "input" and "rotation" in softness:
            raise InputError(
                caller,
                expected="no rotation_softness in a lifting layer, whose input has no angle",
                got=f"rotation_softness={softness['rotation'].tolist()}",
                fix="Relax rotations in later layers, or use domain='output'.",
            )
        super().__init__(
            before,
            after,
            kernel_size=kernel_size,
            padding=padding,
            support=support,
            softness=softness,
            learn=learn,
            domain=domain,
            bias=bias,
            variant=variant,
        )
        _check_angles(caller, angles, net, rotation_frequency)
        self.samples, self.mirrored, self.sampling, self.lifting = group.order, mirrored, sampling, lifting
        self.frequency, self.rotation_frequency, self.angles = frequency, rotation_frequency, angles
        # A pointwise group convolution has no displacements.
        self.spatial = lifting or kernel_size > 1
        angle = [False, False] if angles == "circle" else [True]
        turned = [] if lifting else [*angle, *([False] if mirrored else [])]
        moved = [[False, False] if name == "translation" else angle for name in self.soft]
        relative = ((2,) if self.spatial else ()) + ((len(turned),) if turned else ())
        absolute = tuple(map(len, moved))
        angular = [False, False] * self.spatial + turned + [part for piece in moved for part in piece]
        self.net = make_net(
            caller,
            net,
            (self.in_fields, self.out_fields),
            relative=relative,
            absolute=absolute,
            angular=angular,
            hidden=hidden,
            activation=activation,
            dimension=sum(relative) + sum(absolute) - (len(angle) - 1) * ((not lifting) + ("rotation" in self.soft)),
        )

    def fixed_samples(self) -> Orientations:
        """The grid without offset."""
        return grid(self.samples, mirrored=self.mirrored, device=self._device())

    def is_random(self) -> bool:
        """Whether samples are drawn on every call."""
        return self.sampling == "random" or (self.sampling == "train" and self.training)

    @abstractmethod
    def draw(self, *, generator: torch.Generator | None = None) -> Orientations:
        """Output samples for one call, according to ``sampling``; by default from torch's generator."""

    @checked
    def forward(
        self, x: Floats, in_samples: Orientations | None = None, out_samples: Orientations | None = None
    ) -> Tensor:
        """The layer between given samples.

        Input samples default to the grid; output samples default to the input samples or to a new draw. Channels run
        over fields, then over the samples of each field. If samples are random, pass the samples of the input.
        """
        if in_samples is None and not self.lifting and self.is_random():
            raise InputError(
                type(self).__name__,
                expected="in_samples, the samples at which the input was computed, because they are random",
                got="none",
                fix="Draw them once: samples = lift.draw(); layer(lift(x, out_samples=samples), samples).",
            )
        if out_samples is None:
            out_samples = in_samples if self.tied and in_samples is not None else self.draw()
        if in_samples is None:
            in_samples = self.fixed_samples()
        y = self._between(x, grid(1, device=x.device) if self.lifting else in_samples, out_samples)
        if out_samples.factors is not None:
            y = y * out_samples.factors.to(y)[:, None, None]
        return y.flatten(1, 2)

    def compute(self, x: Tensor) -> Tensor:
        """The map itself, on the grid."""
        return self._by_unfolding(x.unflatten(1, (self.in_fields, -1)), self._fixed()).flatten(1, 2)

    def _fixed(self, g: int = 0) -> Any:
        """The input and output grids; absolute coordinates are moved by element g."""
        device = self._device()
        return (grid(1, device=device) if self.lifting else self.fixed_samples(), self.fixed_samples(), g)

    def _element(self, g: int) -> Tensor:
        return self.fixed_samples().elements[g]

    def _between(self, x: Tensor, before: Orientations, after: Orientations) -> Tensor:
        self._require_channels(x, self.in_fields * len(before))
        x = x.unflatten(1, (self.in_fields, len(before)))
        if torch.compiler.is_compiling():  # nothing is kept
            return self._layer(x, len(after), (before, after, 0), (), ())
        extra = [s.elements for s in (before, after) if s.elements.requires_grad]
        # Samples without a key are compared by value, so new samples never use a table kept for others.
        key = tuple(s.key if s.key is not None else s.values() for s in (before, after))
        return self._layer(x, len(after), (before, after, 0), key, extra)

    def _coordinates(self, device: torch.device, where: Any, place: Tensor | None) -> tuple[Parts, Parts]:
        before: Orientations = where[0]
        after: Orientations = where[1]
        like = self.net.weight
        relative: list[Tensor | None] = []
        if self.spatial:
            turned = after.turned_back(self.frequency * self.support.displacements(like.device))
            relative.append(turned.to(like)[:, None, None, :, None])
        if not self.lifting:
            angle, mirror = self._angle_coordinates(before.relative_to(after))
            parts = [self.rotation_frequency * angle, *([mirror[..., None]] if self.mirrored else [])]
            relative.append(torch.cat(parts, -1).to(like)[:, None, None, None])
        absolute: list[Tensor | None] = []
        for name in self.soft:
            if name == "translation":
                absolute.append(place)
            else:
                elements = before if self.domain == "input" else after
                absolute.append(self._angle_part(elements.moved(self._element(where[2])) if where[2] else elements))
        return relative, absolute

    def _angle_coordinates(self, elements: Tensor) -> tuple[Tensor, Tensor]:
        """What the network sees of the angles, ``(..., 2 or 1)``, and m = ±1."""
        if self.angles == "circle":
            point, mirror = point_and_mirror(elements)
            return self.net.circle_radius * point, mirror
        angle, mirror = angle_and_mirror(elements)
        return angle[..., None] / self.net.angle_unit, mirror

    def _angle_part(self, elements: Orientations) -> Tensor:
        """ω' times the coordinates of the absolute angle, along the input or output samples."""
        value = self.softness_of("rotation")
        if self.angles == "integer":  # rounded, with a straight-through gradient
            value = value + (value.round() - value).detach()
        part = value * self._angle_coordinates(elements.elements)[0].to(self.net.weight)
        return part[None, None, None, None] if self.domain == "input" else part[:, None, None, None, None]

    def extra_repr(self) -> str:
        """Channels, support, samples and dial."""
        kind = f"{self.sampling}, mirrored" if self.mirrored else self.sampling
        soft = "".join(f", {name}={value:.3g}" for name, value in self.dial().items())
        channels = f"{self.in_type.rho} → {self.out_type.rho.name}, size {self.support.size}"
        return f"{channels}, samples={self.samples} ({kind}), lifting={self.lifting}{soft}"


@register_layer
class SoftGroupConv2d(SoftLayer, GroupLayer):
    """(Φf)(u) = Σ_v k(ω log(u⁻¹v), ω' log b) f(v) on SE(2) or E(2), where b is v, or u; v runs over the samples.

    An element is a position and a rotation, sampled at n angles. The kernel is a small network of the displacement in
    the frame of the output element, the relative angle and, per relaxed subgroup, the absolute coordinates times the
    domain frequency ω'. With all ω' = 0 it is a group convolution. A lifting layer takes an image: its kernel depends
    only on the rotated displacement, and its output has n rotations.

    By default the network sees an angle θ as the point (cos θ, sin θ), so the kernel is continuous on the circle
    whatever ω' is: ω' scales the point, and larger values let the kernel vary faster with the angle.

    Shapes: ``(batch, fields · samples, height, width)``, or ``(batch, scalars, height, width)`` if ``lifting``, to
    ``(batch, fields · samples, height', width')``: the samples of a field are the channels of a regular representation.

    Equivariance: under translations, away from the border, exactly if ``translation_softness`` is None or 0; under
    those rotations about the center that the samples and the pixel grid share, exactly if ``rotation_softness`` is None
    or 0: a quarter turn of the image rotates the maps and permutes the samples. Under other rotations, approximately.

    Args:
        in_type: regular fields of C_n or D_n on the plane, or the number of fields; scalars if ``lifting``.
        out_type: regular fields, or the number of fields.
        kernel_size: the size of the square around the support; 1 is a pointwise layer, which depends only on the angle.
        samples: n, the number of elements of the rotation group; by default that of the types, or 8.
        rotation_softness: ω' of rotations; None leaves them strict.
        translation_softness: ω', or (ω'_row, ω'_column), of translations; None leaves them strict.
        learn: whether the ω' are parameters.
        lifting: whether the input is an image.
        mirrored: E(2) instead of SE(2): n/2 angles, with and without reflection.
        sampling: ``grid``, always the same angles; ``random``, the grid rotated by an offset drawn on every call from
            torch's generator; ``train``, random in training and the grid in evaluation.
        domain: whether b is the element of the ``input`` (as published) or of the ``output``.
        padding: ``same``, ``valid`` or the number of zeros on each side.
        support: ``disk`` or ``square``; rotations map only a disk to itself.
        net: ``joint``, one network of sines on all coordinates (the published sizes), or ``fourier``, random Fourier
            features and one hidden layer (the published formulas).
        hidden: the number of hidden units of the network.
        activation: ``cos`` or ``sin``, for the joint network.
        frequency: ω of displacements.
        rotation_frequency: ω of relative angles.
        angles: ``circle``; or ``principal``, the angle in (−π, π] as a number, with the published numbers of weights
            and a jump at ±π; or ``integer``, the same with ω' rounded, which makes the Fourier kernel continuous. The
            last two need an integer ``rotation_frequency`` in the Fourier network.
        bias: whether to add a bias per channel.
        variant: the way to compute the layer: ``window``, ``rank``, ``dense``, ``factored`` or ``loop``; None for the
            one that should be fastest (:class:`intertwine.nn.cost_rules`).

    >>> lift = SoftGroupConv2d(3, 4, samples=8, lifting=True)
    >>> layer = SoftGroupConv2d(4, 4, samples=8, rotation_softness=1.0, learn=True)
    >>> layer(lift(torch.randn(2, 3, 15, 15))).shape
    torch.Size([2, 32, 15, 15])
    >>> layer.in_type, layer.dial()
    (Field(4 regular on Grid2d(C8)), {'rotation': 1.0})
    """

    tied = True

    @checked
    def __init__(
        self,
        in_type: int | FieldType,
        out_type: int | FieldType,
        kernel_size: int = 7,
        *,
        samples: int | None = None,
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
        angles: Angles = "circle",
        bias: bool = True,
        variant: str | None = None,
    ) -> None:
        caller = type(self).__name__
        softness: dict[str, Tensor] = {}
        if translation_softness is not None:
            softness["translation"] = check_softness(caller, translation_softness, 2)
        if rotation_softness is not None:
            softness["rotation"] = check_softness(caller, rotation_softness, 1)
        super().__init__(
            in_type,
            out_type,
            kernel_size=kernel_size,
            samples=samples,
            mirrored=mirrored,
            sampling=sampling,
            lifting=lifting,
            softness=softness,
            learn=learn,
            angles=angles,
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

    def _group_sizes(self) -> tuple[int, int]:
        return self.samples, 1 if self.lifting else self.samples

    def _turn(self, g: int) -> Tensor:
        x_first = self._element(g)
        swap = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64, device=x_first.device)  # (row, column)
        return swap @ x_first @ swap.T

    def draw(self, *, generator: torch.Generator | None = None) -> Orientations:
        """The grid, or the grid rotated by a random offset."""
        if self.is_random():
            device = self.net.weight.device
            return draw(self.samples, mirrored=self.mirrored, generator=generator, device=device)
        return self.fixed_samples()

    @classmethod
    def examples(cls) -> Iterator[RelaxedLayer]:
        """Each subgroup alone and both, with and without lifting, both networks, with and without reflections."""
        yield cls(2, 3, 3, samples=4, rotation_softness=0.7, learn=True, hidden=8)
        yield cls(2, 2, 3, samples=4, translation_softness=0.5, rotation_softness=1.0, hidden=8)
        yield cls(2, 3, 5, samples=4, translation_softness=(0.2, 0.6), lifting=True, hidden=8)
        yield cls(2, 3, 3, samples=8, rotation_softness=2.0, net="fourier", hidden=8, domain="output")
        yield cls(2, 2, 3, samples=8, rotation_softness=1.0, mirrored=True, activation="sin", hidden=8)
        yield cls(2, 2, 1, samples=4, rotation_softness=1.0, bias=False, hidden=8)
        yield cls(1, 2, 5, samples=1, translation_softness=0.5, padding="valid", hidden=8)
        yield cls(2, 2, 3, samples=4, rotation_softness=1.0, angles="principal", hidden=8)


def _check_angles(caller: str, angles: Angles, net: str, rotation_frequency: float) -> None:
    """Raise an error for combinations that promise a continuous kernel and do not give one."""
    if angles == "integer" and net != "fourier":
        raise InputError(
            caller,
            expected="net='fourier' with angles='integer': only its fixed waves have integer frequencies",
            got=f"net={net!r}",
            fix="Use angles='circle', which is continuous with both networks.",
        )
    if angles != "circle" and net == "fourier" and rotation_frequency != round(rotation_frequency):
        raise InputError(
            caller,
            expected="an integer rotation_frequency, for a kernel that is smooth on the circle",
            got=repr(rotation_frequency),
            fix="Use angles='circle', which allows any frequency.",
        )


def regular_types(
    caller: str,
    in_type: int | FieldType,
    out_type: int | FieldType,
    samples: int | None,
    *,
    mirrored: bool,
    lifting: bool,
) -> tuple[FieldType, FieldType, bool]:
    """Input and output types, regular fields of C_n or D_n, and whether the input is scalar instead."""
    if isinstance(in_type, FieldType) != isinstance(out_type, FieldType):
        raise InputError(caller, expected="two field types, or two numbers of fields", got=f"{in_type} and {out_type}")
    if isinstance(in_type, FieldType) and isinstance(out_type, FieldType):
        group, order = out_type.rho.group, getattr(out_type.rho.group, "order", 0)
        scalar = order > 1 and all(_is_trivial(atom) for atom in in_type.rho.atoms)
        fits = isinstance(out_type.space, Grid2d) and in_type.space == out_type.space and _all_regular(out_type)
        fits = fits and isinstance(group, Cyclic | Dihedral) and samples in (None, order)
        if not fits or not (scalar or _all_regular(in_type)):
            raise InputError(
                caller,
                expected="regular fields of C_n or D_n on one plane (scalars before a lifting layer)",
                got=f"{in_type} and {out_type}" + (f" with samples={samples}" if samples is not None else ""),
                fix="Relax a layer between other types with intertwine.relaxed.relax(layer, images, how='soft').",
            )
        return in_type, out_type, scalar
    count = check_samples(caller, 8 if samples is None else samples, mirrored=mirrored)
    for name, number in (("in_type", in_type), ("out_type", out_type)):
        if not isinstance(number, int) or number < 1:
            raise InputError(caller, expected=f"{name}: a field type, or 1 or more fields", got=repr(number))
    plane = Grid2d(sampled_group(count, mirrored=mirrored))
    before = plane.field(f"{in_type}*{'trivial' if lifting else 'regular'}")
    return before, plane.field(f"{out_type}*regular"), lifting


def _all_regular(field: FieldType) -> bool:
    group = field.rho.group
    return isinstance(group, FiniteGroup) and all(atom == group.regular for atom in field.rho.atoms)


def _is_trivial(atom: Representation) -> bool:
    return isinstance(atom.group, FiniteGroup) and atom == atom.group.trivial
