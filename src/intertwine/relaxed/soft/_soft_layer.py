"""The base class of layers with a kernel network: coordinates, choice of a variant, and domain frequencies."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import unfold

from ..._devices import autocast_rounds, without_autocast
from ..._kept import Kept, kept_table
from ..._numerics import require_memory
from ...errors import InputError
from ...spaces import FieldType
from .._kernel_shares import TRANSLATION, LocalKernels, share
from .._relaxed_layer import RelaxedLayer
from ._kernel_net import KERNEL_NETS, KernelNet, Parts
from ._kernel_norm import sampled_norm
from ._soft_support import Support
from ._soft_variants import VARIANTS, Sizes, cheapest, check_variant

Domain = Literal["input", "output"]
_REFERENCE = 7  # positions along each side of the square image on which shares are computed


class KernelLayer(RelaxedLayer):
    """A linear layer with the kernel k(ω ⊙ a, ω' ⊙ b) of relative coordinates a and absolute coordinates b.

    Each soft subgroup has its own ω', ``<subgroup>_softness``: a parameter if it is learned, else a buffer.
    """

    net: KernelNet
    support: Support

    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
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
        super().__init__(in_type, out_type)
        caller = type(self).__name__
        self.in_fields, self.out_fields, self.domain = len(in_type.rho.atoms), len(out_type.rho.atoms), domain
        self.support = Support.of(caller, kernel_size, padding, support)
        self.window = self.support.window
        self.variant = check_variant(caller, variant)
        self.soft = tuple(softness)
        for subgroup, start in softness.items():
            value = start.to(torch.get_default_device())
            if learn:
                self.register_parameter(f"{subgroup}_softness", nn.Parameter(value))
            else:
                self.register_buffer(f"{subgroup}_softness", value)
        self._start = {name: value.tolist() for name, value in softness.items()}
        self.bias = nn.Parameter(torch.zeros(self.out_fields)) if bias else None
        self._cache = Kept[tuple[Tensor, ...]]()
        self._norms: list[Tensor] | None = None

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Reset the softness to its initial value and the bias to 0; the network resets itself."""
        for name, start in self._start.items():
            value = self.softness_of(name)
            value.copy_(value.new_tensor(start))
        if self.bias is not None:
            self.bias.zero_()

    def softness_of(self, subgroup: str) -> Tensor:
        """ω' of a relaxed subgroup."""
        return getattr(self, f"{subgroup}_softness")

    @abstractmethod
    def _coordinates(self, device: torch.device, where: Any, place: Tensor | None) -> tuple[Parts, Parts]:
        """Pieces of the relative and the absolute coordinates, which broadcast to (g, y, x, tap, sample, ·).

        ``place`` is ω' ⊙ position; None if it is 0.
        """

    @abstractmethod
    def _fixed(self, g: int = 0) -> Any:
        """The argument ``where`` for a call on the grid; element g of the stabilizer moves absolute coordinates."""

    def _moving(self) -> bool:
        """Whether the kernel depends on position: not if ω' is 0 and needs no gradient."""
        if "translation" not in self.soft:
            return False
        value = self.softness_of("translation")
        if value.is_meta:  # no values: assume the more expensive case
            return True
        return (value.requires_grad and torch.is_grad_enabled()) or bool(value.detach().count_nonzero() > 0)

    def _layer(self, x: Tensor, groups: int, where: Any, key: tuple[object, ...], extra: Sequence[Tensor]) -> Tensor:
        """The layer on ``(batch, channels, samples, height, width)``; ``key`` and ``extra`` stand for ``where``."""
        self.window.require_room(type(self).__name__, x.shape[-2:])
        if torch.compiler.is_compiling():  # choosing a variant and keeping tables are Python code
            return self._by_unfolding(x, where)
        forced = self.variant is not None and VARIANTS[self.variant].moves
        moving = forced or self._moving()
        weights = [*self.parameters(), *(self.softness_of(name) for name in self.soft), *extra]
        grad = torch.is_grad_enabled() and (x.requires_grad or any(w.requires_grad for w in weights))
        sizes = self._sizes(x, groups, moving, grad)
        name = self.variant or cheapest(sizes)
        if sizes.moving and not VARIANTS[name].moves:
            raise InputError(
                type(self).__name__,
                expected="a variant for position-dependent kernels, or None",
                got=name,
            )

        def prepare() -> tuple[Tensor, ...]:
            if sizes.moving:
                require_memory(
                    4 * groups * sizes.places * sizes.taps * sizes.samples * sizes.hidden,
                    caller=type(self).__name__,
                    what=f"a table of {sizes.places} positions for {groups} x {sizes.samples} samples",
                    fix="Use fewer samples, fewer hidden units or a smaller image.",
                    itemsize=x.element_size(),
                )
            # Phases are about 10 times a coordinate, so rounding them to bfloat16 would move kernels by hundredths of a
            # radian. The table is small; the convolution with it is what autocast saves time on.
            with without_autocast(x):
                table = self.net.table(*self._coordinates(x.device, where, self._position_part(x, moving)))
            mixture = self.net.mixture()
            full = (groups, *self._places(x, moving), self.support.taps, x.shape[2], table.shape[-1])
            if self._norms is not None:
                self._norms.append(sampled_norm(table, mixture, groups * self.support.taps * x.shape[2]))
            return VARIANTS[name].prepare(table.expand(full), mixture, self.support)

        if autocast_rounds(x):  # rounded tables must not be kept for later calls without autocast
            prepared = prepare()
        else:
            prepared = self._cache.get(prepare, weights, key=(name, moving, x.shape[2:], key))
        # The table does not depend on the input, so in evaluation without gradients only this part runs.
        y = VARIANTS[name].run(x, prepared, self.support)
        return y if self.bias is None else y + self.bias[:, None, None, None]

    def _by_unfolding(self, x: Tensor, where: Any) -> Tensor:
        """The layer by plain torch operations that do not depend on sizes or values, for tracers and compilers."""
        support, padded = self.support, self.window.padded(x.flatten(1, 2))

        def seen(maps: Tensor) -> Tensor:
            """What each position sees: ``(batch, channels, taps, positions)``."""
            return unfold(maps, support.size).unflatten(1, (-1, support.size**2))[:, :, support.in_square]

        place = self._place_part(padded, x.shape[-2], x.shape[-1], seen) if TRANSLATION in self.soft else None
        table = self.net.table(*self._coordinates(self._device(), where, place))
        patches = seen(padded).unflatten(1, (self.in_fields, -1))  # batch, field, sample, tap, position
        filtered = torch.einsum("glxtsj,ncstl->ncgjl", table, patches)
        y = torch.einsum("ncgjl,jco->nogl", filtered, self.net.mixture())
        y = y.unflatten(-1, (self.window.output_sizes((x.shape[-2], x.shape[-1]))[0], -1))
        return y if self.bias is None else y + self.bias[:, None, None, None]

    def _device(self) -> torch.device:
        """The device of the weights; bypasses a tracer, which would return a proxy."""
        weight = self.net._parameters["weight"]
        return weight.device if weight is not None else torch.device("cpu")

    def _place_part(self, padded: Tensor, height: int, width: int, seen: Callable[[Tensor], Tensor]) -> Tensor:
        """ω' ⊙ position, ``(1, positions, 1, taps or 1, 1, 2)``, computed by tensor operations only."""
        ones = torch.ones_like(padded[:1, :1])
        index = torch.cat([ones.cumsum(2), ones.cumsum(3)], 1) - (1 + self.support.border)
        position = torch.cat([(2 * index[:, :1] + 1) / height - 1, (2 * index[:, 1:] + 1) / width - 1], 1)
        if self.domain == "input":
            coordinates = seen(position)
        else:
            coordinates = unfold(position, self.support.size).unflatten(1, (2, -1)).mean(2, keepdim=True)
        return self.softness_of(TRANSLATION) * coordinates[0].permute(2, 1, 0)[None, :, None, :, None]

    def _places(self, x: Tensor, moving: bool) -> tuple[int, int]:
        height, width = self.window.output_sizes(x.shape[-2:])
        return (height, width) if moving else (1, 1)

    def _sizes(self, x: Tensor, groups: int, moving: bool, training: bool) -> Sizes:
        height, width = self._places(x, True)
        return Sizes(
            batch=len(x),
            channels=self.in_fields,
            out=self.out_fields,
            samples=x.shape[2],
            groups=groups,
            places=height * width,
            taps=self.support.taps,
            square=self.support.size**2,
            hidden=self.net.hidden + 1,
            moving=moving and height * width > 1,
            training=training,
            input_gradient=x.requires_grad,
        )

    def _position_part(self, x: Tensor, moving: bool) -> Tensor | None:
        """ω' ⊙ position, ``(1, y, x, tap or 1, 1, 2)``; None if it is 0."""
        if not moving or "translation" not in self.soft:
            return None
        return self.softness_of("translation") * _positions(*self._position_key(x))[None, :, :, :, None]

    def _position_key(self, x: Tensor) -> tuple[Support, int, int, bool, torch.dtype, torch.device]:
        weight = self.net.weight
        return self.support, x.shape[-2], x.shape[-1], self.domain == "input", weight.dtype, weight.device

    def _require_channels(self, x: Tensor, channels: int) -> None:
        """Raise an error unless axes, channels and dtype fit the layer."""
        weight = self.net.weight
        if x.dim() != 4 or x.shape[1] != channels:
            raise InputError(
                type(self).__name__,
                expected=f"(batch, {channels} channels, height, width)",
                got=str(tuple(x.shape)),
                fix=f"The channels are those of {self.in_type}.",
            )
        if x.dtype != weight.dtype and not autocast_rounds(x):
            raise InputError(
                type(self).__name__,
                expected=f"{weight.dtype}",
                got=f"{x.dtype}",
                fix="Cast the input or the layer, for example with layer.double().",
            )

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output."""
        self.window.require_room(type(self).__name__, sizes)
        return self.window.output_sizes(sizes)

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """A shift by one position, away from the zero padding."""
        return self.window.interior(sizes)

    def local_kernels(self, sizes: Sequence[int]) -> LocalKernels:
        """The kernel of every position, from the network."""
        height, width = sizes
        support, out = self.support, self.output_sizes(sizes)
        x = self.net.weight.new_zeros(1, self.in_fields, 1, height, width)
        kernel = self.net(*self._coordinates(x.device, self._fixed(), self._position_part(x, TRANSLATION in self.soft)))
        samples, groups = kernel.shape[4], kernel.shape[0]
        kernel = kernel.expand(groups, *out, support.taps, samples, self.out_fields, self.in_fields)
        ordered = kernel.permute(3, 1, 2, 5, 0, 6, 4)  # tap, row, column, out field, group, in field, sample
        square = support.square(ordered.flatten(5, 6).flatten(3, 4))
        weight = square.unflatten(0, (support.size, support.size)).movedim((0, 1), (-2, -1))
        if self.bias is None:
            return LocalKernels(weight)
        return LocalKernels(weight, self.bias.repeat_interleave(groups).expand(*out, -1))


class SoftLayer(KernelLayer):
    """A layer that only ω' relaxes: it is equivariant under a subgroup if the ω' of that subgroup is 0."""

    def squared_shares(self) -> Mapping[str, Tensor]:
        """From the table of the kernel network on a small square image, without building kernels.

        Strict kernels depend only on the relative coordinates. The projection of h_j(a, b) averages over positions, or
        over the elements that move b, and its norm follows from the products ⟨V_i, V_j⟩ of the mixture.
        """
        if not self.soft:
            return {}
        size = max(_REFERENCE, self.window.input_sizes((_REFERENCE, _REFERENCE))[0])
        x = self.net.weight.new_zeros(1, self.in_fields, 1, size, size)
        flat = self.net.mixture().flatten(1)
        gram = flat @ flat.T
        groups, samples = self._group_sizes()
        full = (groups, *self._places(x, True), self.support.taps, samples, len(gram))

        def table(g: int) -> Tensor:
            """h with the absolute coordinates moved by element g."""
            place = self._position_part(x, True)
            if place is not None:
                turn = self._turn(g).to(place)
                softness = self.softness_of(TRANSLATION)
                positions = _positions(*self._position_key(x))
                place = softness * (positions @ turn.T)[None, :, :, :, None]
            return self.net.table(*self._coordinates(x.device, self._fixed(g), place)).expand(full)

        def norm(h: Tensor) -> Tensor:
            return ((h @ gram) * h).sum().clamp_min(0)

        unmoved = table(0)
        whole = norm(unmoved) + self._bias_square(unmoved)
        shares = {}
        if TRANSLATION in self.soft:
            shares[TRANSLATION] = share(norm(unmoved - unmoved.mean((1, 2), keepdim=True)), whole)
        group = self.in_type.space.stabilizer
        order = getattr(group, "order", 1)
        if order > 1:
            mean = torch.stack([table(g) for g in range(order)]).mean(0)
            shares[group.name] = share(norm(unmoved - mean), whole)
        return shares

    def _bias_square(self, table: Tensor) -> Tensor:
        """Σ b² over all positions and output samples."""
        places = table.shape[0] * table.shape[1] * table.shape[2]
        return table.new_zeros(()) if self.bias is None else places * self.bias.square().sum()

    @abstractmethod
    def _group_sizes(self) -> tuple[int, int]:
        """The numbers of output and input samples."""

    @abstractmethod
    def _turn(self, g: int) -> Tensor:
        """Element g of the stabilizer as a matrix on (row, column)."""

    def dial(self) -> Mapping[str, float]:
        """‖ω'‖ of each relaxed subgroup."""
        return {name: float(self.softness_of(name).detach().norm()) for name in self.soft}

    def penalty(self) -> Tensor:
        """‖ω'‖²."""
        squares = [self.softness_of(name).square().sum() for name in self.soft]
        return torch.stack(squares).sum() if squares else next(self.parameters()).new_zeros(())

    @torch.no_grad()
    def to_equivariant_(self) -> Self:
        """Set ω' to 0."""
        for name in self.soft:
            self.softness_of(name).zero_()
        return self

    @torch.no_grad()
    def perturb_(self, scale: float, *, generator: torch.Generator | None = None) -> Self:
        """Add scale · U(½, 3/2) to ω'."""
        for name in self.soft:
            value = self.softness_of(name)
            value += scale * (0.5 + torch.rand(value.shape, generator=generator).to(value))
        return self


@kept_table(32)
def _positions(
    support: Support, height: int, width: int, of_input: bool, dtype: torch.dtype, device: torch.device
) -> Tensor:
    with torch.inference_mode(False):
        return support.positions(height, width, of_input=of_input, device=device).to(dtype)


def check_softness(caller: str, value: object, count: int) -> Tensor:
    """ω' as a tensor of ``count`` nonnegative numbers."""
    values = [value] * count if isinstance(value, (int, float)) else list(value) if isinstance(value, Sequence) else []
    valid = len(values) == count and all(isinstance(v, (int, float)) and 0 <= v < math.inf for v in values)
    if not valid:
        raise InputError(
            caller,
            expected="a finite softness of 0 or more" + (f", or {count} of them" if count > 1 else ""),
            got=repr(value),
            fix="0 gives the equivariant layer; 0.5 is a common initial value.",
        )
    return torch.tensor([float(v) for v in values], device="cpu")


def make_net(
    caller: str,
    net: str,
    sizes: tuple[int, int],
    *,
    relative: Sequence[int],
    absolute: Sequence[int],
    angular: Sequence[bool],
    hidden: int,
    activation: str,
    dimension: int | None = None,
) -> KernelNet:
    """The kernel network of that name."""
    if not isinstance(hidden, int) or hidden < 1:
        raise InputError(caller, expected="1 or more hidden units", got=repr(hidden))
    options: dict[str, Any] = {"hidden": hidden, "dimension": dimension}
    if net == "joint":
        options["activation"] = activation
    kind = KERNEL_NETS[net]
    return kind(*sizes, relative=relative, absolute=absolute, angular=angular, **options)
