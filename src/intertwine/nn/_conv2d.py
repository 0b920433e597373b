"""Convolution of fields on the plane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch import nn as torch_nn
from torch.nn.functional import conv2d, pad

from ..errors import InputError, TypeMismatchError
from ..groups import SO2, Cyclic, Dihedral, direct_sum
from ..spaces import FieldType, Grid, Grid2d
from ._cached_filter import CachedFilter
from ._expansion import FilterExpansion
from ._invariants import Invariants
from ._layer import Approximate, Claim, Exact, Layer, register_layer, require_grid
from ._stencil import Stencil, mixes_axes, moving_axes, pair

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]


@register_layer
class Conv2d(Layer):
    """(Φf)(x) = Σ_y κ(y) f(x + y) + b with κ(hy) = ρ2(h) κ(y) ρ1(h)⁻¹ for all h in H, and b invariant.

    Shapes: ``(batch, d1, height, width)`` to ``(batch, d2, height', width')``, as ``torch.nn.Conv2d``.

    Equivariance: exact for groups that keep the lattice (C1, C2, C4, D1, D2, D4), with weights tied by index. For every
    other subgroup of O(2) the filter is sampled from band-limited kernels: exact under turns of the lattice,
    approximate under others.

    In training the filter is made from the weights on each call; in evaluation it is kept until a weight changes, by
    whatever means. The weights are all that is saved.

    Args:
        in_type: fields on a ``Grid2d``.
        out_type: fields on the same plane.
        kernel_size: as for ``torch.nn.Conv2d``.
        stride: a stride keeps the symmetry only on sizes where the sampled places are symmetric about the center; other
            sizes are refused at the call, with those that fit.
        padding: a number of samples, or ``"same"``.
        padding_mode: ``zeros``, ``reflect``, ``replicate`` or ``circular``.
        dilation: as for ``torch.nn.Conv2d``.
        groups: splits the fields of the input and of the output into so many equal parts that do not mix.
        bias: one number for each trivial component of the output.
        gain: standard deviation of the output on unit white noise; √2 before a ReLU.
        allow_asymmetric: accept strides, paddings and sizes that break the symmetry.

    >>> from intertwine.groups import Dihedral
    >>> from intertwine.spaces import Grid2d
    >>> D4 = Dihedral(4); plane = Grid2d(D4)
    >>> layer = Conv2d(plane.field(3 * D4.trivial), plane.field(8 * D4.regular), 5, padding=2)
    >>> layer(torch.randn(2, 3, 17, 17)).shape
    torch.Size([2, 64, 17, 17])
    >>> [(name, tuple(p.shape)) for name, p in layer.named_parameters()]
    [('bias', (8,)), ('weights.0', (8, 3, 25))]
    """

    needs_space = True

    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | Literal["same"] = 0,
        padding_mode: PaddingMode = "zeros",
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        gain: float = 1.0,
        allow_asymmetric: bool = False,
    ) -> None:
        space = require_grid("Conv2d", in_type, out_type, dimension=2)
        stencil = _stencil(space, kernel_size, stride, padding, dilation)
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise InputError(
                "Conv2d",
                expected="padding_mode 'zeros', 'reflect', 'replicate' or 'circular'",
                got=repr(padding_mode),
                fix="Choose one.",
            )
        if not allow_asymmetric:
            _require_even_hand(space, stencil, padding_mode)
        super().__init__(in_type, out_type, _claim(space, allow_asymmetric))
        self.stencil, self.padding_mode, self.allow_asymmetric = stencil, padding_mode, allow_asymmetric
        self.groups, self.gain = groups, gain
        self.expansion = FilterExpansion(_one_group(in_type, out_type, groups), out_type, stencil.kernel_size)
        self.invariants = Invariants(out_type.rho)
        self.weights = torch_nn.ParameterList([torch.empty(shape) for shape in self.expansion.shapes])
        self.bias = torch_nn.Parameter(torch.empty(self.invariants.size)) if bias and self.invariants.size else None
        self._cache = CachedFilter()
        self.reset_parameters()

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, D1, C8, so2 = Cyclic(4), Dihedral(4), Dihedral(1), Cyclic(8), SO2()
        plane = Grid2d(C4)
        regular = plane.field(2 * C4.regular)
        yield cls(plane.field(3 * C4.trivial), regular, 3, padding=1)
        yield cls(regular, regular, 3, padding=1, padding_mode="circular", groups=2)
        yield cls(regular, plane.field(C4.irreps[1] + C4.regular + C4.irreps[1]), 5, stride=2, padding=2)
        plane = Grid2d(D4)
        mixed = plane.field(D4.regular + D4.trivial + D4.quotient(D4.subgroup([4])))
        yield cls(mixed, plane.field(D4.irreps[4] + D4.regular), 3, padding=1)
        yield cls(mixed, mixed, 2, stride=2)
        plane = Grid2d(D1)
        yield cls(plane.field(D1.regular), plane.field(2 * D1.regular), (3, 5), padding=(1, 2), bias=False)
        plane = Grid2d(C8)
        yield cls(plane.field(2 * C8.regular), plane.field(C8.regular), 5, padding=2)
        plane = Grid2d(so2)
        fields = plane.field(so2.irrep(0) + so2.irrep(1) + so2.irrep(2))
        yield cls(fields, fields, 5, padding=2)

    def reset_parameters(self) -> None:
        """Draw the weights so that unit white noise comes out with mean variance gain²; the bias is zero."""
        with torch.no_grad():
            for weight, value in zip(self.weights, self.expansion.initial_weights(self.gain), strict=True):
                weight.copy_(value)
            if self.bias is not None:
                self.bias.zero_()

    def expand(self) -> tuple[Tensor, Tensor | None]:
        """The filter ``(d2, d1 / groups, height, width)`` and the bias ``(d2,)``, differentiable in the weights."""
        weights = list(self.weights)
        device = weights[0].device.type
        if torch.is_autocast_enabled(device):  # the products here would be rounded, and then again by the convolution
            with torch.autocast(device, enabled=False):
                return self._expand(weights)
        return self._expand(weights)

    def _expand(self, weights: list[Tensor]) -> tuple[Tensor, Tensor | None]:
        return self.expansion(weights), None if self.bias is None else self.invariants(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[-2:])
        if self.training:
            filters, bias = self.expand()
        else:
            free = [*self.weights] if self.bias is None else [*self.weights, self.bias]
            filters, bias = self._cache.get(self.expand, free)
        s = self.stencil
        padding = s.padding
        if self.padding_mode != "zeros" and any(padding):
            x = pad(x, (padding[1], padding[1], padding[0], padding[0]), mode=self.padding_mode)
            padding = (0, 0)
        return conv2d(x, filters, bias, s.stride, padding, s.dilation, self.groups)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output; an error where the stride would break the symmetry."""
        self.stencil.require_room("Conv2d", sizes)
        if not self.allow_asymmetric:
            self.stencil.require_symmetric("Conv2d", sizes)
        return self.stencil.output_sizes(sizes)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """The stride, on a periodic field that it divides."""
        return self.stencil.shift_step(sizes, periodic=self.padding_mode == "circular")

    def to_plain(self) -> torch_nn.Conv2d:
        """A ``torch.nn.Conv2d`` with this filter."""
        with torch.no_grad():
            filters, bias = self.expand()
        s = self.stencil
        plain = torch_nn.utils.skip_init(
            torch_nn.Conv2d,
            self.in_type.dim,
            self.out_type.dim,
            s.kernel_size,
            stride=s.stride,
            padding=s.padding,
            dilation=s.dilation,
            groups=self.groups,
            bias=bias is not None,
            padding_mode=self.padding_mode,
            device=filters.device,
            dtype=filters.dtype,
        )
        with torch.no_grad():
            plain.weight.copy_(filters)
            if bias is not None:
                plain.bias.copy_(bias)
        return plain

    def train(self, mode: bool = True) -> Conv2d:
        """Set training mode; the kept filter is dropped."""
        self._cache.forget()
        super().train(mode)
        return self

    def _apply(self, fn: Any, recurse: bool = True) -> Conv2d:
        self._cache.forget()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def extra_repr(self) -> str:
        """Types and options, as shown by ``print(layer)``."""
        s = self.stencil
        return (
            f"{self.in_type.rho} → {self.out_type.rho.name}, kernel_size={s.kernel_size}, stride={s.stride}, "
            f"padding={s.padding}, padding_mode={self.padding_mode}"
        )


def _stencil(
    space: Grid,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int],
    padding: int | Sequence[int] | str,
    dilation: int | Sequence[int],
) -> Stencil:
    k = pair(kernel_size, who="Conv2d", what="kernel_size", least=1)
    d = pair(dilation, who="Conv2d", what="dilation", least=1)
    s = pair(stride, who="Conv2d", what="stride", least=1)
    if not isinstance(padding, str):
        p = pair(padding, who="Conv2d", what="padding", least=0)
        return Stencil(k, s, p, d, moving_axes(space), space.stabilizer.name)
    reach = [(size - 1) * step for size, step in zip(k, d, strict=True)]
    if padding != "same" or s != (1, 1) or any(r % 2 for r in reach):
        raise InputError(
            "Conv2d",
            expected="padding 'same' with an odd kernel and stride 1, or a number of samples",
            got=f"padding={padding!r} with kernel {k}, stride {s}, dilation {d}",
            fix="Equal padding on both sides is needed to keep the symmetry.",
        )
    return Stencil(k, s, (reach[0] // 2, reach[1] // 2), d, moving_axes(space), space.stabilizer.name)


def _require_even_hand(space: Grid, stencil: Stencil, padding_mode: str) -> None:
    """A group that turns one axis towards the other needs the same options along both."""
    options = {"stride": stencil.stride, "padding": stencil.padding, "dilation": stencil.dilation}
    uneven = [f"{name}={value}" for name, value in options.items() if value[0] != value[1]]
    if stencil.kernel_size[0] != stencil.kernel_size[1]:
        uneven.append(f"kernel_size={stencil.kernel_size}")
    if uneven and mixes_axes(space):
        raise InputError(
            "Conv2d",
            expected=f"equal options along both axes, because {space.stabilizer.name} turns one into the other",
            got=", ".join(uneven),
            fix="Make them equal, choose a group that keeps the axes (D1, D2, C2), or pass allow_asymmetric=True.",
        )
    if getattr(space, "lattice", "square") == "hexagonal" and padding_mode != "circular":
        raise InputError(
            "Conv2d",
            expected="padding_mode='circular' on the hexagonal lattice, whose array is not symmetric at its border",
            got=f"padding_mode={padding_mode!r}",
            fix="Use circular padding, or pass allow_asymmetric=True.",
        )


def _claim(space: Grid, allow_asymmetric: bool) -> Claim:
    if allow_asymmetric:
        return Approximate("sizes and strides that break the symmetry are allowed", bound=float("inf"))
    if space.exact:
        return Exact()
    return Approximate(f"the filter is sampled on a lattice that {space.stabilizer.name} does not keep")


def _one_group(in_type: FieldType, out_type: FieldType, groups: int) -> FieldType:
    """The part of the input that one group of output fields sees; all parts are of one type."""
    atoms, outs = in_type.rho.atoms, out_type.rho.atoms
    n, m = len(atoms) // max(groups, 1), len(outs) // max(groups, 1)
    fits = groups >= 1 and n * groups == len(atoms) and m * groups == len(outs)
    if fits:
        parts = [atoms[g * n : (g + 1) * n] for g in range(groups)]
        dims = {sum(atom.dim for atom in outs[g * m : (g + 1) * m]) for g in range(groups)}
        fits = all(part == parts[0] for part in parts) and len(dims) == 1
    if not fits:
        raise TypeMismatchError(
            "Conv2d",
            expected=f"fields that split into groups={groups} equal parts",
            got=f"{in_type.rho.name} → {out_type.rho.name}",
            fix="Choose numbers of fields that groups divides, and repeat the summands in the same order in each part.",
        )
    return in_type.space.field(direct_sum(atoms[:n]))
