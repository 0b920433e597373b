"""The most general equivariant linear map between fields on finite homogeneous spaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch import nn as torch_nn
from torch.nn.functional import linear

from ..._checked import checked
from ..._devices import without_autocast
from ..._kept import Kept
from ...errors import EmptyKernelSpaceError, InputError, TypeMismatchError
from ...groups import Dihedral, Symmetric
from ...spaces import FieldType, HomogeneousSpace
from .._export import filled
from .._layer import Exact, Layer, register_layer
from ..basis._invariants import Invariants
from ..filters._expansion import FilterExpansion

Expanded = tuple[Tensor, Tensor | None]


@register_layer
class CosetLinear(Layer):
    r"""(Φf)(x) = Σ_y κ(s2(x)⁻¹ s1(y)) f(y) + b, with κ(h2 g h1) = ρ2(h2) κ(g) ρ1(h1) and ρ2(h2) b = b.

    Every linear map from fields on G/H1 to fields on G/H2 that commutes with the finite group G is of this form. The
    two subgroups may differ: G/H1 → G is a lift, and G/H1 → G/G pools to a representation. With G = S_n this is the
    layer of deep sets on n points, and the layer of a graph network on ordered pairs of points.

    Shapes: ``(batch, d1, points1)`` to ``(batch, d2, points2)``. Equivariance: exact.

    Args:
        in_type: fields on ``HomogeneousSpace(G, H1)``.
        out_type: fields on ``HomogeneousSpace(G, H2)``.
        bias: whether to add a bias, one per trivial component of ρ2.
        gain: standard deviation of the output on unit white noise; use √2 before a ReLU.

    >>> G = Symmetric(5); H = G.fixing(0)
    >>> points = HomogeneousSpace(G, H)
    >>> layer = CosetLinear(points.field(3 * H.trivial), points.field(2 * H.trivial))
    >>> [(name, tuple(p.shape)) for name, p in layer.named_parameters()]
    [('bias', (2,)), ('weights.0', (2, 3, 2))]
    >>> layer(torch.randn(7, 3, 5)).shape
    torch.Size([7, 2, 5])
    """

    needs_space = True

    @checked
    def __init__(self, in_type: FieldType, out_type: FieldType, *, bias: bool = True, gain: float = 1.0) -> None:
        self._points = _points(in_type, out_type)
        super().__init__(in_type, out_type, Exact())
        self.gain = gain
        self.expansion = _expansion(in_type, out_type, self._points)
        self.invariants = Invariants(out_type.rho)
        self.weights = torch_nn.ParameterList([torch.empty(shape) for shape in self.expansion.shapes])
        self.bias = torch_nn.Parameter(torch.empty(self.invariants.size)) if bias and self.invariants.size else None
        self._cache = Kept[Expanded]()
        self.reset_parameters()

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D4, S4 = Dihedral(4), Symmetric(4)
        C2, group = D4.subgroup([4]), HomogeneousSpace(D4, D4.subgroup([]))
        mirror = HomogeneousSpace(D4, C2)
        yield cls(mirror.field(2 * C2.trivial + C2.irreps[1]), mirror.field(C2.regular + C2.irreps[1]))
        yield cls(mirror.field(2 * C2.irreps[1] + C2.trivial), group.field(2 * group.subgroup.trivial), bias=False)
        S3 = S4.fixing(0)
        points, pairs = HomogeneousSpace(S4, S3), HomogeneousSpace(S4, S4.subgroup([]))
        yield cls(points.field(S3.irreps[2] + S3.trivial), points.field(2 * S3.irreps[2] + S3.regular))
        yield cls(points.field(3 * S3.trivial), pairs.field(pairs.subgroup.trivial))
        yield cls(points.field(S3.trivial), HomogeneousSpace(S4, S4.whole).field(S4.whole.irreps[3]))

    def reset_parameters(self) -> None:
        """Draw weights that give unit white noise a mean output variance of gain²; set the bias to zero."""
        with torch.no_grad():
            for weight, value in zip(self.weights, self.expansion.initial_weights(self.gain), strict=True):
                weight.copy_(value)
            if self.bias is not None:
                self.bias.zero_()

    def expand(self) -> Expanded:
        """The matrix ``(d2 points2, d1 points1)`` and the bias ``(d2 points2,)``, differentiable in the weights."""
        weights = list(self.weights)
        with without_autocast(weights[0]):  # autocast would round the matrix here, and again in the product
            matrix = self.expansion(weights).transpose(1, 2).flatten(2).flatten(0, 1)
            if self.bias is None:
                return matrix, None
            return matrix, self.invariants(self.bias).repeat_interleave(self._points[0], output_size=len(matrix))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        if self.training:
            matrix, bias = self.expand()
        else:
            free = [*self.weights] if self.bias is None else [*self.weights, self.bias]
            matrix, bias = self._cache.get(self.expand, free)
        return linear(x.flatten(1), matrix, bias).unflatten(1, (self.out_type.dim, self._points[0]))

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The number of points of G/H2; an error unless the input has the points of G/H1."""
        if tuple(sizes) != self._points[1:]:
            raise InputError(
                "CosetLinear",
                expected=f"the {self._points[1]} points of {self.in_type.space.name}",
                got=f"sizes {tuple(sizes)}",
                fix="Points are numbered by coset: HomogeneousSpace(G, H).section(x) is the element over point x.",
            )
        return self._points[:1]

    def to_plain(self) -> torch_nn.Sequential:
        """Torch's ``Flatten``, ``Linear`` and ``Unflatten``."""
        with torch.no_grad():
            matrix, bias = self.expand()
        plain = filled(torch_nn.Linear, *matrix.T.shape, weight=matrix, bias=bias)
        shape = self.out_type.dim, self._points[0]
        return torch_nn.Sequential(torch_nn.Flatten(), plain, torch_nn.Unflatten(1, shape))

    def train(self, mode: bool = True) -> CosetLinear:
        """Set training mode and drop the kept matrix."""
        self._cache.forget()
        super().train(mode)
        return self

    def _apply(self, fn: Any, recurse: bool = True) -> CosetLinear:
        self._cache.forget()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def extra_repr(self) -> str:
        """Both types, with their spaces."""
        return f"{self.in_type} → {self.out_type}"


def _expansion(in_type: FieldType, out_type: FieldType, points: tuple[int, int]) -> FilterExpansion:
    try:
        return FilterExpansion(in_type, out_type, points)
    except EmptyKernelSpaceError as error:
        raise EmptyKernelSpaceError(
            "CosetLinear",
            expected=f"a nonzero equivariant map from {in_type} to every summand of {out_type}",
            got="a summand that has none",
            fix="Choose an input whose induced representation shares an irreducible with that of the output summand.",
        ) from error


def _points(in_type: FieldType, out_type: FieldType) -> tuple[int, int]:
    space1, space2 = in_type.space, out_type.space
    if not isinstance(space1, HomogeneousSpace) or not isinstance(space2, HomogeneousSpace):
        raise TypeMismatchError(
            "CosetLinear",
            expected="fields on two homogeneous spaces of one finite group",
            got=f"{in_type} and {out_type}",
            fix="On grids use Conv2d or Conv3d, on the sphere SphereConv.",
        )
    space1.require_same_group(space2, caller="CosetLinear")
    return space2.points, space1.points
