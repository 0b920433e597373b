"""What layers with a kernel network share: its coordinates, the choice of a variant, and domain frequencies."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from .._devices import autocast_rounds
from .._kept import Kept, kept_table
from .._numerics import require_memory
from ..errors import InputError
from ._kernel_net import KERNEL_NETS, KernelNet, Parts
from ._kernel_norm import sampled_norm
from ._relaxed import Relaxed
from ._soft_stencil import Stencil, check_stencil
from ._soft_variants import VARIANTS, Sizes, cheapest, check_variant

Domain = Literal["input", "output"]


class KernelLayer(Relaxed):
    """A linear layer with the kernel k(ω ⊙ a, ω' ⊙ b), a the relative and b the absolute coordinates.

    ω' is kept for each soft subgroup by itself, as ``<subgroup>_softness``: a parameter if it is learned, else a
    buffer.
    """

    net: KernelNet
    stencil: Stencil

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        kernel_size: int,
        padding: str | int,
        support: str,
        softness: Mapping[str, Tensor],
        learn: bool,
        domain: Domain,
        bias: bool,
        variant: str | None,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        for what, number in (("in_channels", in_channels), ("out_channels", out_channels)):
            if not isinstance(number, int) or number < 1:
                raise InputError(who, expected=f"{what} of 1 or more", got=repr(number), fix=f"Give {what}=1 or more.")
        self.in_channels, self.out_channels, self.domain = in_channels, out_channels, domain
        self.stencil = check_stencil(who, kernel_size, padding, support)
        self.variant = check_variant(who, variant)
        self.soft = tuple(softness)
        for subgroup, start in softness.items():
            value = start.to(torch.get_default_device())
            if learn:
                self.register_parameter(f"{subgroup}_softness", nn.Parameter(value))
            else:
                self.register_buffer(f"{subgroup}_softness", value)
        self._start = {name: value.tolist() for name, value in softness.items()}
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        self._cache = Kept[tuple[Tensor, ...]]()
        self._norms: list[Tensor] | None = None

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """The softness it was made with, and a bias of 0; the network has a method of its own."""
        for name, start in self._start.items():
            value = self.softness_of(name)
            value.copy_(value.new_tensor(start))
        if self.bias is not None:
            self.bias.zero_()

    def softness_of(self, subgroup: str) -> Tensor:
        """ω' of a relaxed subgroup."""
        return getattr(self, f"{subgroup}_softness")

    @abstractmethod
    def _coordinates(self, x: Tensor, moving: bool, where: Any) -> tuple[Parts, Parts]:
        """Pieces of the relative and the absolute coordinates, which broadcast to (g, y, x, tap, sample, ·)."""

    def _moving(self) -> bool:
        """Does the kernel depend on the place? Not if ω' is 0 and will not be asked for a gradient."""
        if "translation" not in self.soft:
            return False
        value = self.softness_of("translation")
        if value.is_meta:  # no numbers to look at: what costs most
            return True
        return (value.requires_grad and torch.is_grad_enabled()) or bool(value.detach().count_nonzero() > 0)

    # A compiled model calls the layer as it is: the choice of a variant and what is kept are Python.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _layer(self, x: Tensor, groups: int, where: Any, key: tuple[object, ...], extra: Sequence[Tensor]) -> Tensor:
        """The layer on ``(batch, channels, samples, height, width)``; ``key`` and ``extra`` stand for ``where``."""
        self._check_size(x)
        forced = self.variant is not None and VARIANTS[self.variant].moves
        moving = forced or self._moving()
        weights = [*self.parameters(), *(self.softness_of(name) for name in self.soft), *extra]
        grad = torch.is_grad_enabled() and (x.requires_grad or any(w.requires_grad for w in weights))
        sizes = self._sizes(x, groups, moving, grad)
        name = self.variant or cheapest(sizes)
        if sizes.moving and not VARIANTS[name].moves:
            raise InputError(
                type(self).__name__,
                expected="a variant for kernels that differ from place to place",
                got=name,
                fix="Leave variant at None.",
            )

        def prepare() -> tuple[Tensor, ...]:
            if sizes.moving:
                require_memory(
                    4 * groups * sizes.places * sizes.taps * sizes.samples * sizes.hidden,
                    who=type(self).__name__,
                    what=f"a table of {sizes.places} places for {groups} x {sizes.samples} samples",
                    fix="Take fewer samples, fewer hidden units or a smaller image.",
                    itemsize=x.element_size(),
                )
            table, mixture = self.net.table(*self._coordinates(x, moving, where)), self.net.mixture()
            full = (groups, *self._places(x, moving), self.stencil.taps, x.shape[2], table.shape[-1])
            if self._norms is not None:
                self._norms.append(sampled_norm(table, mixture, groups * self.stencil.taps * x.shape[2]))
            return VARIANTS[name].prepare(table.expand(full), mixture, self.stencil)

        if autocast_rounds(x):  # its tables are rounded: none for later calls without
            prepared = prepare()
        else:
            prepared = self._cache.get(prepare, weights, key=(name, moving, x.shape[2:], key))
        y = VARIANTS[name].run(x, prepared, self.stencil)
        return y if self.bias is None else y + self.bias[:, None, None, None]

    def _places(self, x: Tensor, moving: bool) -> tuple[int, int]:
        height, width = self.stencil.out_size(x.shape[-2]), self.stencil.out_size(x.shape[-1])
        return (height, width) if moving else (1, 1)

    def _sizes(self, x: Tensor, groups: int, moving: bool, training: bool) -> Sizes:
        height, width = self._places(x, True)
        return Sizes(
            batch=len(x),
            channels=self.in_channels,
            out=self.out_channels,
            samples=x.shape[2],
            groups=groups,
            places=height * width,
            taps=self.stencil.taps,
            square=self.stencil.size**2,
            hidden=self.net.hidden + 1,
            moving=moving and height * width > 1,
            training=training,
            input_gradient=x.requires_grad,
        )

    def _position_part(self, x: Tensor, moving: bool) -> Tensor | None:
        """ω' ⊙ position, ``(1, y, x, tap or 1, 1, 2)``; None where it is 0."""
        if not moving or "translation" not in self.soft:
            return None
        place = (x.shape[-2], x.shape[-1], self.domain == "input", self.net.weight.dtype, self.net.weight.device)
        return self.softness_of("translation") * _positions(self.stencil, *place)[None, :, :, :, None]

    def _check_size(self, x: Tensor) -> None:
        if not all(self._places(x, True)) or min(self._places(x, True)) < 1:
            raise InputError(
                type(self).__name__,
                expected=f"an image of at least {self.stencil.size - 2 * self.stencil.padding} places",
                got=f"{x.shape[-2]} x {x.shape[-1]}",
                fix="Give a larger image or a larger padding.",
            )

    def _check_input(self, x: Tensor, dimensions: Sequence[str]) -> None:
        """Are the axes and the channels those of the layer?"""
        weight = self.net.weight
        if x.dim() != len(dimensions) or x.shape[1] != self.in_channels:
            shape = ", ".join(dimensions).replace("channels", f"{self.in_channels} channels")
            raise InputError(
                type(self).__name__, expected=f"({shape})", got=str(tuple(x.shape)), fix="Check the input's shape."
            )
        if x.dtype != weight.dtype and not autocast_rounds(x):
            raise InputError(
                type(self).__name__,
                expected=f"{weight.dtype}",
                got=f"{x.dtype}",
                fix="Cast the input or the layer, for example layer.double().",
            )


class SoftLayer(KernelLayer):
    """A layer that leaves its symmetry by ω' alone: it is equivariant under a subgroup where its ω' is 0."""

    def relaxation(self) -> Mapping[str, float]:
        """‖ω'‖ of each relaxed subgroup."""
        return {name: float(self.softness_of(name).detach().norm()) for name in self.soft}

    def penalty(self) -> Tensor:
        """‖ω'‖²."""
        squares = [self.softness_of(name).square().sum() for name in self.soft]
        return torch.stack(squares).sum() if squares else next(self.parameters()).new_zeros(())

    @torch.no_grad()
    def to_equivariant_(self) -> Self:
        """ω' = 0."""
        for name in self.soft:
            self.softness_of(name).zero_()
        return self

    @torch.no_grad()
    def perturb_(self, scale: float, generator: torch.Generator | None = None) -> Self:
        """ω' += scale · U(½, 3/2)."""
        for name in self.soft:
            value = self.softness_of(name)
            value += scale * (0.5 + torch.rand(value.shape, generator=generator).to(value))
        return self


@kept_table(32)
def _positions(
    stencil: Stencil, height: int, width: int, of_input: bool, dtype: torch.dtype, device: torch.device
) -> Tensor:
    with torch.inference_mode(False):
        return stencil.positions(height, width, of_input=of_input, device=device).to(dtype)


def check_softness(who: str, value: object, count: int) -> Tensor:
    """ω' as a tensor of ``count`` numbers, none of them negative."""
    numbers = [value] * count if isinstance(value, (int, float)) else list(value) if isinstance(value, Sequence) else []
    good = len(numbers) == count and all(isinstance(v, (int, float)) and 0 <= v < math.inf for v in numbers)
    if not good:
        raise InputError(
            who,
            expected="a softness that is a finite number of 0 or more" + (f", or {count} of them" if count > 1 else ""),
            got=repr(value),
            fix="0 is the equivariant layer; 0.5 is a usual start.",
        )
    return torch.tensor([float(v) for v in numbers], device="cpu")


def make_net(
    who: str,
    net: str,
    sizes: tuple[int, int],
    *,
    relative: Sequence[int],
    absolute: Sequence[int],
    angular: Sequence[bool],
    hidden: int,
    activation: str,
) -> KernelNet:
    """The kernel network of that name."""
    if not isinstance(hidden, int) or hidden < 1:
        raise InputError(who, expected="1 or more hidden units", got=repr(hidden), fix="For example hidden=32.")
    options: dict[str, Any] = {"activation": activation} if net == "joint" else {}
    made = KERNEL_NETS[net]
    return made(*sizes, relative=relative, absolute=absolute, angular=angular, hidden=hidden, **options)
