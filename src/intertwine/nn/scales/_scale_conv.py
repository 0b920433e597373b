"""Convolutions that commute with scalings: from images to fields of position and scale, and between such fields."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from math import ceil, sqrt

import torch
from torch import Tensor
from torch import nn as torch_nn
from torch.nn.functional import conv2d

from ..._checked import Positive, checked
from ..._devices import on_cpu
from ...errors import InputError, TypeMismatchError
from ...kernels import HermiteKernelBasis
from ...spaces import FieldType, Grid2d, ScalePlane, ScaleSpace
from .._layer import Approximate, Layer, register_layer
from .._traced import TracedLayer
from ..basis._tables import TableModule
from ..filters._natural import natural_correlation

_BECAUSE = "filters are sampled, and scales beyond both ends of their axis are missing"


class ScaleFilters(TableModule):
    """The Gauss-Hermite functions at every scale: weights ``(..., functions)`` to filters ``(..., taps, taps)``."""

    def __init__(self, basis: HermiteKernelBasis, scales: Sequence[float]) -> None:
        super().__init__()
        filters = [basis.filters(s) for s in scales]
        self.radii, self.functions = tuple(map(basis.radius, scales)), basis.dim
        for k, each in enumerate(filters):
            self.register_table(f"functions{k}", each)
        responses = [_response(each) for each in filters]
        self.response = sum(responses) / len(responses)

    def forward(self, weight: Tensor, k: int) -> Tensor:
        """The filters of scale k."""
        return torch.tensordot(weight, self.get_buffer(f"functions{k}"), 1)


@on_cpu
def _response(filters: Tensor) -> float:
    """The variance that filters with weights of variance 1 make from natural images of variance 1."""
    taps = filters.flatten(1)
    correlation = natural_correlation(Grid2d("C1"), tuple(filters.shape[1:]))
    return float(((taps @ correlation) * taps).sum())


class ScaleFilterLayer(TracedLayer):
    """A convolution whose filter is one function ψ, stretched to the width of each scale of the output.

    Args:
        in_type: fields that it takes.
        out_type: fields on a :class:`~intertwine.spaces.ScaleSpace`.
        seen: how many scales of the input one scale of the output sees.
        order: the largest degree of the Gauss-Hermite functions.
        sigma: their width at the smallest scale, in samples.
        stride: the step between output samples.
        bias: whether to add a bias, one per output channel.
        gain: standard deviation of the output on natural images of variance 1.
        bound: the bound of the claim.
    """

    needs_space = True

    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        *,
        seen: int,
        order: int,
        sigma: float,
        stride: int,
        bias: bool,
        gain: float,
        bound: float,
    ) -> None:
        super().__init__(in_type, out_type, Approximate(_BECAUSE, bound=bound))
        self.scales = require_scales(type(self).__name__, out_type)
        self.order, self.sigma, self.stride, self.gain = order, sigma, stride, gain
        self.filters = ScaleFilters(HermiteKernelBasis(order=order, sigma=sigma), self.scales.scales)
        self.weight = torch_nn.Parameter(torch.empty(out_type.dim, in_type.dim, seen, self.filters.functions))
        self.bias = torch_nn.Parameter(torch.empty(out_type.dim)) if bias else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw weights that map natural images of variance 1 to outputs of variance gain²; set the bias to zero."""
        _, channels, seen, _ = self.weight.shape
        self.weight.normal_(0, self.gain / sqrt(channels * seen * self.filters.response))
        if self.bias is not None:
            self.bias.zero_()

    @abstractmethod
    def seen_at(self, x: Tensor, k: int) -> tuple[Tensor, int]:
        """What scale k of the output sees, ``(batch, channels · n, height, width)``, and the number n of scales."""

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return torch.stack([self._at_scale(x, k) for k in range(self.scales.count)], 2)

    def _at_scale(self, x: Tensor, k: int) -> Tensor:
        fields, n = self.seen_at(x, k)
        filters = self.filters(self.weight[:, :, :n], k).flatten(1, 2)
        return conv2d(fields, filters, self.bias, stride=self.stride, padding=self.filters.radii[k])

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Scales, height and width; an error if the stride would move the center of the array."""
        sizes = sizes[-2:]
        if any((n - 1) % self.stride for n in sizes):
            raise InputError(
                type(self).__name__,
                expected=f"sizes of 1 + a multiple of the stride {self.stride}, which keep the center",
                got=f"sizes {tuple(sizes)}",
                fix=f"Pad to {tuple(n + (1 - n) % self.stride for n in sizes)}.",
            )
        return self.scales.count, *((n - 1) // self.stride + 1 for n in sizes)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """None: the border is padded with zeros; :meth:`interior` says where translations commute."""
        return None

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """Where no filter sees padding."""
        return self.stride, ceil(max(self.filters.radii) / self.stride)

    def extra_repr(self) -> str:
        """Types and options, as shown by ``print(layer)``."""
        options = f"order={self.order}, sigma={self.sigma:g}, stride={self.stride}"
        return f"{self.in_type} → {self.out_type.dim} channels on {self.scales}, {options}"


@register_layer
class ScaleLift2d(ScaleFilterLayer):
    """(Φf)(σ, x) = σ⁻² Σ_y ψ(y/σ) f(x + y) + b: from images to fields of position and scale.

    ψ is a learned sum of Gauss-Hermite functions, sampled at each scale, so all scales share the weights
    (Sosnovik et al. 2020). An image s times as large gives the same responses at scales s times as large.

    Shapes: ``(batch, c1, height, width)`` to ``(batch, c2, scales, height', width')``. The border is padded with zeros,
    so that stride 1 keeps the size.

    Equivariance: exact under translations by multiples of the stride away from the border, approximate under scalings
    away from the border and from both ends of the axis of scales.

    Args:
        in_type: fields on a :class:`~intertwine.spaces.ScalePlane`.
        out_type: fields on a :class:`~intertwine.spaces.ScaleSpace`.
        order: the largest degree of the Gauss-Hermite functions; there are (order + 1)(order + 2)/2 of them.
        sigma: their width at the smallest scale, in samples.
        stride: the step between output samples; height and width must be 1 + a multiple of it.
        bias: whether to add a bias, one per output channel.
        gain: standard deviation of the output on natural images of variance 1; use √2 before a ReLU.

    >>> gray = ScalePlane().field("trivial")
    >>> layer = ScaleLift2d(gray, ScaleSpace(base=2**0.5, count=4).field("8*trivial"))
    >>> layer(torch.randn(2, 1, 33, 33)).shape
    torch.Size([2, 8, 4, 33, 33])
    """

    @checked
    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        *,
        order: int = 2,
        sigma: float = 0.8,
        stride: Positive = 1,
        bias: bool = True,
        gain: float = 1.0,
    ) -> None:
        if not isinstance(in_type.space, ScalePlane):
            raise TypeMismatchError(
                "ScaleLift2d",
                expected="images on a ScalePlane as the input",
                got=str(in_type),
                fix="Make them with intertwine.spaces.ScalePlane().field(...).",
            )
        super().__init__(
            in_type,
            out_type,
            seen=1,
            order=order,
            sigma=sigma,
            stride=stride,
            bias=bias,
            gain=gain,
            bound=0.05,
        )

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        scales = ScaleSpace(base=1.25, count=6)
        yield cls(ScalePlane().field("2*trivial"), scales.field("3*trivial"))
        yield cls(ScalePlane().field("trivial"), scales.field("2*trivial"), order=3, sigma=1.0, stride=2, bias=False)

    def seen_at(self, x: Tensor, k: int) -> tuple[Tensor, int]:
        return x, 1


@register_layer
class ScaleConv2d(ScaleFilterLayer):
    """(ΦF)(σ, x) = σ⁻² Σ_j Σ_y ψ_j(y/σ) F(base^j σ, x + y) + b: between fields of position and scale.

    Each scale of the output sees its own scale of the input and the ``reach`` − 1 next larger ones. Scales beyond the
    largest count as zero, so the largest ``reach`` − 1 scales of the output are incomplete. A small reach, 1 or 2, is
    usually best.

    Shapes: ``(batch, c1, scales, height, width)`` to ``(batch, c2, scales, height', width')``.

    Equivariance: as :class:`ScaleLift2d`.

    Args:
        in_type: fields on a :class:`~intertwine.spaces.ScaleSpace`.
        out_type: fields on the same space.
        reach: how many scales of the input each scale of the output sees.
        order: the largest degree of the Gauss-Hermite functions.
        sigma: their width at the smallest scale, in samples.
        stride: the step between output samples; height and width must be 1 + a multiple of it.
        bias: whether to add a bias, one per output channel.
        gain: standard deviation of the output on natural images of variance 1; use √2 before a ReLU.

    >>> scales = ScaleSpace(base=2**0.5, count=4)
    >>> layer = ScaleConv2d(scales.field("2*trivial"), scales.field("3*trivial"), reach=2)
    >>> layer(torch.randn(1, 2, 4, 33, 33)).shape, layer.weight.shape
    (torch.Size([1, 3, 4, 33, 33]), torch.Size([3, 2, 2, 6]))
    """

    @checked
    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        *,
        reach: Positive = 1,
        order: int = 2,
        sigma: float = 0.8,
        stride: Positive = 1,
        bias: bool = True,
        gain: float = 1.0,
    ) -> None:
        space = require_scales("ScaleConv2d", in_type, out_type)
        if reach > space.count:
            raise InputError("ScaleConv2d", expected=f"a reach of at most {space.count} scales", got=str(reach))
        super().__init__(
            in_type,
            out_type,
            seen=reach,
            order=order,
            sigma=sigma,
            stride=stride,
            bias=bias,
            gain=gain,
            bound=0.05,
        )
        self.reach = reach

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        scales = ScaleSpace(base=1.25, count=6)
        yield cls(scales.field("2*trivial"), scales.field("3*trivial"))
        yield cls(scales.field("2*trivial"), scales.field("2*trivial"), reach=2, stride=2, bias=False)

    def seen_at(self, x: Tensor, k: int) -> tuple[Tensor, int]:
        n = min(self.reach, self.scales.count - k)
        return x[:, :, k : k + n].flatten(1, 2), n


def require_scales(caller: str, *types: FieldType) -> ScaleSpace:
    """The space of positions and scales that all types live on, or an error that names them."""
    space = types[0].space
    if not isinstance(space, ScaleSpace) or any(t.space != space for t in types[1:]):
        raise TypeMismatchError(
            caller,
            expected="field types on one ScaleSpace",
            got=" and ".join(map(str, types)),
            fix="Make them with intertwine.spaces.ScaleSpace(base=2**0.5, count=4).field(...).",
        )
    return space
