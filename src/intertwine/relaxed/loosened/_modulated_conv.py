"""A strict convolution relaxed softly: each weight of its kernel becomes a band-limited function of the position."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Self

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ...errors import InputError
from ...groups import Cyclic, Dihedral
from ...nn import Conv2d, register_layer
from ...spaces import FieldType, Grid2d
from .._kernel_shares import TRANSLATION
from .._orientations import angle_and_mirror
from .._relaxed_layer import RelaxedLayer, add_noise_
from ._banked_conv import BankedConv, move_positions
from ._position_conv import input_sizes, require_kept
from ._strict_conv import require_strict_conv, types_of, weights_of, zeroed


@register_layer
class ModulatedConv(BankedConv):
    """κ(x, y) = Σ_j w_j(x) κ_j(y) over the strict kernels κ_j, with w_j(x) = w_j + Σ_m a_jm ψ_m(ω' x).

    The functions ψ are sin(m ω' π/2 x) and 1 − cos(m ω' π/2 x) along each axis, where the image fills [−1, 1], for m
    up to ``frequencies``; all are 0 at ω' = 0, where the layer is strict for any a. It starts as the strict layer,
    with a = 0, and a learned ω' > 0, so that a has a gradient.

    Regular fields of C_n and D_n can also be modulated over their orientations, by s cos mθ, s sin mθ and, where there
    are reflections, s m(h): integer frequencies, continuous on the circle, with a learned amplitude s.

    Shapes: those of ``conv``, for inputs of ``input_size``. Equivariance: under translations, away from the border,
    where a or ω' is 0; under the stabilizer there too, where a or s is 0. With ``keep`` only functions of the position
    that the stabilizer leaves invariant are there, and it stays exact.

    Args:
        conv: where to start, :class:`intertwine.nn.Conv2d` or ``Conv3d``, or a ``torch.nn`` convolution.
        input_size: spatial sizes of the input; others are refused.
        softness: ω' of the translations, or a number for each subgroup: ``{"translation": 0.3, "C4": 0.3}``.
        frequencies: how many multiples of ω'.
        keep: the name of the stabilizer, to keep it.

    References: van der Ouderaa, Romero, van der Wilk, *Relaxing equivariance constraints with non-stationary
    continuous filters*, 2022, whose kernel networks are :class:`SoftConv2d` and :class:`SoftGroupConv2d`.

    >>> conv = nn.Conv2d(3, 8, 3, padding=1)
    >>> layer = ModulatedConv(conv, input_size=16, softness=0.5)
    >>> x = torch.randn(2, 3, 16, 16)
    >>> torch.allclose(layer(x), conv(x), atol=1e-5), layer.claim, layer.dial()
    (True, Relaxed(translation=0.0), {'translation': 0.5})
    """

    @checked
    def __init__(
        self,
        conv: nn.Module,
        *,
        input_size: int | Sequence[int],
        softness: float | Mapping[str, float] = 0.3,
        frequencies: Positive = 1,
        keep: str | None = None,
    ) -> None:
        caller = type(self).__name__
        strict = require_strict_conv(caller, conv)
        types, sizes = types_of(strict), input_sizes(caller, strict, input_size)
        start = _softness(caller, softness, types[1], kept=keep is not None)
        if TRANSLATION not in start and keep is not None:
            raise InputError(caller, expected="a softness of translations beside keep=", got=repr(softness))
        count = len(sizes) * frequencies * (1 if keep is not None else 2) if TRANSLATION in start else 0
        waves = _waves(types[1], frequencies) if len(start) > (TRANSLATION in start) else []
        banks = [deepcopy(strict), *(zeroed(strict) for _ in range(count + len(waves)))]
        super().__init__(strict, banks, sizes if TRANSLATION in start else None)
        self.frequencies, self._waves, self._start = frequencies, waves, start
        self.keep = require_kept(self, keep)
        like = weights_of(strict)[0].detach()
        self.softness = nn.Parameter(like.new_empty(len(sizes))) if TRANSLATION in start else None
        self.turn_softness = nn.Parameter(like.new_empty(())) if waves else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The softness it was made with; banks have a method of their own, and those that modulate are 0."""
        for name, value in self._start.items():
            parameter = self.softness if name == TRANSLATION else self.turn_softness
            if parameter is not None:
                nn.init.constant_(parameter, value)
        with torch.no_grad():
            for bank in self.strict_banks()[1:]:
                for weight in weights_of(bank):
                    weight.zero_()

    def coefficients(self) -> Tensor:
        """1 and the functions ψ: ``(banks, out or 1, *output sizes or 1)``."""
        d = self.window.dimension
        parts: list[Tensor] = []
        if self.softness is not None and self.fixed_sizes is not None:
            parts += self._place_functions(self.softness, self.output_sizes(self.fixed_sizes))
        if self.turn_softness is not None:
            table = self._constant(self._waves, "turn_softness") * self.turn_softness
            parts.append(table[(..., *[None] * d)])
        out = len(self._waves[0]) if self.turn_softness is not None else 1
        sizes = self.output_sizes(self.fixed_sizes) if self.fixed_sizes is not None else (1,) * d
        whole = [torch.ones_like(parts[0][:1]), *parts]
        return torch.cat([part.expand(-1, out, *sizes) for part in whole])

    def _constant(self, values: Sequence[float] | Sequence[Sequence[float]], like: str) -> Tensor:
        """Numbers where a parameter is, past a tracer's stand-in for it."""
        parameter = self._parameters[like]
        if parameter is None:
            raise InputError(type(self).__name__, expected=f"a parameter {like}", got="none")
        return torch.tensor(values, dtype=parameter.dtype, device=parameter.device)

    def _place_functions(self, softness: Tensor, out: Sequence[int]) -> list[Tensor]:
        """ψ along every axis, each ``(1, 1, *out)``; averaged over orbits if the stabilizer is kept."""
        functions: list[Tensor] = []
        for axis, n in enumerate(out):
            quarter = [math.pi / 2 * ((2 * i + 1) / n - 1) for i in range(n)]
            place = self._constant(quarter, "softness").reshape(1, 1, *(n if a == axis else 1 for a in range(len(out))))
            for m in range(1, self.frequencies + 1):
                phase = m * softness[axis] * place
                kinds = [1 - torch.cos(phase)] if self.keep else [torch.sin(phase), 1 - torch.cos(phase)]
                functions += [kind.expand(1, 1, *out) for kind in kinds]
        if not self.keep:
            return functions
        kept = []
        for function in functions:
            moved = [move_positions(function, move) for move in self.axis_moves]
            kept.append(sum(moved[1:], moved[0]) / len(moved))
        return kept

    @property
    def relaxes_stabilizer(self) -> bool:
        """By the position, unless it is kept, or by the orientation."""
        return not self.keep and len(self._elements()) > 1

    def penalty(self) -> Tensor:
        """‖ω'‖² + s²."""
        squares = [p.square().sum() for p in (self.softness, self.turn_softness) if p is not None]
        return torch.stack(squares).sum()

    @torch.no_grad()
    def dial(self) -> Mapping[str, float]:
        """ω', the root mean square over the axes, and s."""
        own = {}
        if self.softness is not None:
            own[TRANSLATION] = float(self.softness.square().mean().sqrt())
        if self.turn_softness is not None:
            own[self.in_type.space.stabilizer.name] = float(self.turn_softness.abs())
        return own

    @torch.no_grad()
    def to_equivariant_(self) -> Self:
        """w_j becomes its mean over positions and orientations, a becomes 0; ω' stays, so that a can grow again."""
        c = self.coefficients()[1:]
        turning = len(self._waves) if self.turn_softness is not None else 0
        means = c.flatten(1).mean(1).tolist()
        # The waves over orientations have mean 0 on each field, and are not there on others.
        self._add_to_first_([*means[: len(means) - turning], *[0.0] * turning])
        return self

    def perturb_(self, scale: float, *, generator: torch.Generator | None = None) -> Self:
        """Noise on a, in the scale of w, and dials that are not 0."""
        banks = self.strict_banks()
        for bank in banks[1:]:
            for weight, like in zip(weights_of(bank), weights_of(banks[0]), strict=True):
                size = float(like.detach().square().mean().sqrt())
                add_noise_(weight, scale * (size or 1.0), generator)
        with torch.no_grad():
            for parameter in (self.softness, self.turn_softness):
                if parameter is not None:
                    parameter.clamp_min_(0.3)
        return self

    @classmethod
    def examples(cls) -> Iterator[RelaxedLayer]:
        """Positions, orientations and both; the stabilizer kept; 1, 2 and 3 dimensions."""
        D4, C4 = Grid2d("D4"), Grid2d("C4")
        scalars, regular = D4.field("2*trivial"), D4.field("regular")
        yield cls(Conv2d(scalars, regular, 3, padding=1), input_size=7)
        yield cls(Conv2d(regular, D4.field("regular + irrep1"), 3, bias=False), input_size=8, keep="D4", frequencies=2)
        turning = {"C4": 0.4}
        yield cls(Conv2d(C4.field("2*regular"), C4.field("regular + trivial"), 3), input_size=7, softness=turning)
        both = {"translation": 0.5, "D4": 0.2}
        yield cls(Conv2d(scalars, regular, 3, padding=1), input_size=7, softness=both)
        yield cls(nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), input_size=(9, 8), softness=0.7)
        yield cls(nn.Conv1d(2, 3, 5, padding=2, padding_mode="reflect"), input_size=12)
        yield cls(nn.Conv3d(2, 2, 3), input_size=6)


def _softness(
    caller: str, softness: float | Mapping[str, float], out_type: FieldType, *, kept: bool
) -> dict[str, float]:
    group = out_type.space.stabilizer.name
    values = dict(softness) if isinstance(softness, Mapping) else {TRANSLATION: softness}
    wrong = [name for name in values if name not in (TRANSLATION, group)]
    if wrong or not values or not all(0 < value < math.inf for value in values.values()):
        raise InputError(
            caller,
            expected=f"a softness above 0, or one for each of {TRANSLATION!r} and {group!r}",
            got=repr(softness),
            fix="At 0 the layer could never leave the symmetry.",
        )
    if group in values and (kept or not _waves(out_type, 1)):
        raise InputError(
            caller,
            expected=f"regular fields of C_n or D_n at the output, and no keep=, to modulate over {group}",
            got=str(out_type),
        )
    return values


def _waves(out_type: FieldType, frequencies: int) -> list[list[float]]:
    """cos mθ, sin mθ and the sign of the reflection on the channels of regular fields, 0 on others."""
    group = out_type.rho.group
    if not isinstance(group, Cyclic | Dihedral) or group.standard is None:
        return []
    angle, mirror = (part.tolist() for part in angle_and_mirror(group.standard.matrices))
    turns = group.order // 2 if isinstance(group, Dihedral) else group.order
    rows = [
        [wave(m * a) for a in angle]
        for m in range(1, frequencies + 1)
        if m % turns  # a multiple of n is constant on the samples
        for wave in ((math.cos, math.sin) if 2 * m % turns else (math.cos,))
    ]
    rows += [list(mirror)] if isinstance(group, Dihedral) else []
    regular = [atom == group.regular for atom in out_type.rho.atoms]
    if not any(regular):
        return []
    return [
        [value for atom, is_regular in zip(out_type.rho.atoms, regular, strict=True)
         for value in (row if is_regular else [0.0] * atom.dim)]
        for row in rows
    ]  # fmt: skip
