"""Products of two inputs, decomposed into representations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import sqrt
from typing import Any, Literal

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ..._devices import on_cpu, without_autocast
from ...errors import EmptyKernelSpaceError, InputError, TypeMismatchError
from ...groups import Representation, direct_sum
from ...spaces import Cloud, Cloud3d, FieldType, Point
from .._layer import Companion, Exact, Layer, field_companion, register_layer
from .._traced import TracedLayer
from ..basis._hom import hom_basis
from ..basis._summands import Summands, summands
from ..basis._tables import TableModule

Weights = Literal["learned", "given"]


@dataclass(frozen=True)
class _Path:
    """All copies of one summand of x with all copies of one of y, to copies of one summand of the output.

    Attributes:
        first: where the copies of x are, ``(n1, d1)`` channels.
        second: where those of y are.
        kind: the summand of the output.
        maps: ``(k, d3, d1, d2)``, an orthonormal basis of the equivariant maps.
    """

    first: Tensor
    second: Tensor
    kind: Representation
    maps: Tensor

    @property
    def pairs(self) -> int:
        """The number of weights of one copy of the output."""
        return len(self.first) * len(self.second) * len(self.maps)


class _Bilinear(TracedLayer):
    """What both products share: the paths, and weights that are learned or given."""

    def __init__(self, left: FieldType, right: FieldType, out_type: FieldType, paths: Sequence[_Path]) -> None:
        super().__init__(left, out_type, Exact())
        self.right_type = right
        self._paths, self.tables = tuple(paths), _Tables(paths)

    def _add_weights(self, weights: Weights, counts: Sequence[int]) -> None:
        """One parameter per path, or one companion for all."""
        y = field_companion("y", self.right_type)
        self._counts = tuple(counts)
        if weights == "given":
            self.companions = y, Companion("weights", partial(_draw, sum(counts)))
            self.weights = None
            self.traced_method = "compute_with"
        else:
            self.companions = (y,)
            self.weights = torch_nn.ParameterList(torch_nn.Parameter(torch.empty(count)) for count in counts)
            self.reset_parameters()

    @property
    def weight_count(self) -> int:
        """The number of weights, per sample if they are given."""
        return sum(self._counts)

    def reset_parameters(self) -> None:
        """Draw weights of variance 1: the paths are scaled so that unit inputs give unit outputs."""
        for weight in self.weights or ():
            torch_nn.init.normal_(weight)

    def forward(self, x: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """The product at each row of x and y; with ``weights="given"``, each row brings its weights."""
        self.check_input(x)
        name, right = type(self).__name__, self.right_type
        if y.shape != (len(x), right.dim) or y.dtype != x.dtype:
            raise InputError(
                name,
                expected=f"y of shape ({len(x)}, {right.dim}) and type {x.dtype}, rows of {right}",
                got=f"{y.dtype} of shape {tuple(y.shape)}",
            )
        if (weights is None) == (self.weights is None):
            got, expected = ("none", "weights") if weights is None else ("some", "no weights, as the layer has its own")
            raise InputError(name, expected=expected, got=got)
        if weights is not None and weights.shape != (len(x), self.weight_count):
            shape = f"({len(x)}, {self.weight_count})"
            raise InputError(name, expected=f"weights of shape {shape}", got=f"shape {tuple(weights.shape)}")
        with without_autocast(x):
            return self.compute(x, y) if weights is None else self.compute_with(x, y, weights)

    def compute(self, x: Tensor, y: Tensor) -> Tensor:
        """The map without checks, with the weights of the layer."""
        return self._product(x, y, list(self.weights or ()))

    def compute_with(self, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """The map without checks, with given weights."""
        stops = accumulate(self._counts)
        return self._product(x, y, [weights[:, stop - n : stop] for n, stop in zip(self._counts, stops, strict=True)])

    def _product(self, x: Tensor, y: Tensor, weights: Sequence[Tensor]) -> Tensor:
        parts = []
        for number, path in enumerate(self._paths):
            (n1, d1), (n2, d2), (k, d3) = path.first.shape, path.second.shape, path.maps.shape[:2]
            first = x.index_select(1, self.tables.get_buffer(f"first{number}")).unflatten(1, (n1, d1))
            second = y.index_select(1, self.tables.get_buffer(f"second{number}")).unflatten(1, (n2, d2))
            # y is usually small, such as harmonics with one copy of each degree, so its rows are contracted first.
            coupled = (second @ self.tables.get_buffer(f"maps{number}")).unflatten(2, (k * d3, d1))
            products = first[:, None] @ coupled.flatten(1, 2).unflatten(1, (n2, k * d3)).transpose(2, 3)
            products = products.unflatten(3, (k, d3)).permute(0, 2, 1, 3, 4)  # (rows, n1, n2, k, d3)
            parts.append(self.mixed(number, products, weights[number] if weights else None))
        return self.joined(parts)

    def mixed(self, number: int, products: Tensor, weight: Any) -> Tensor:
        """The copies of the output, ``(rows, copies, d3)``, from products ``(rows, n1, n2, k, d3)``."""
        raise NotImplementedError

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """All channels of the output from those of the paths."""
        raise NotImplementedError


@register_layer
class Bilinear(_Bilinear):
    """B(x, y) with B(ρ1(h)x, ρ2(h)y) = ρ3(h) B(x, y): all equivariant products of two inputs, with weights.

    Each summand of x is coupled with each summand of y, and each coupling that reaches a summand of the output gets one
    weight for every triple of copies (for SO(3) the couplings are Clebsch-Gordan coefficients).

    Shapes: ``(rows, d1)`` and ``(rows, d2)`` to ``(rows, d3)``. Equivariance: exact.

    Args:
        left: the type of x, at a point or on a cloud.
        right: the type of y, on the same space.
        out_type: the type of the output.
        weights: ``"learned"`` for parameters of the layer, ``"given"`` for a third input ``(rows, weight_count)``, such
            as the output of a radial network.

    >>> space = Point("SO(3)")
    >>> cross = Bilinear(space.field("irrep1"), space.field("irrep1"), space.field("irrep1"))
    >>> cross.weight_count
    1
    >>> cross(torch.randn(5, 3), torch.randn(5, 3)).shape
    torch.Size([5, 3])
    """

    @checked
    def __init__(self, left: FieldType, right: FieldType, out_type: FieldType, *, weights: Weights = "learned") -> None:
        _require_rows("Bilinear", left, right, out_type)
        self._out: Summands = summands(out_type.rho)
        paths = _paths(left, right, self._out.kinds)
        for kind in self._out.kinds:
            if not any(path.kind == kind for path in paths):
                raise EmptyKernelSpaceError(
                    "Bilinear",
                    expected=f"products of {left} and {right} that contain {kind.name}",
                    got="none",
                    fix="Omit this summand: (rho1 @ rho2).decompose() lists what is there.",
                )
        super().__init__(left, right, out_type, paths)
        copies = {kind.digest: count for kind, count in zip(self._out.kinds, self._out.counts, strict=True)}
        self._copies = [copies[path.kind.digest] for path in paths]
        reaching = {kind: sum(path.pairs for path in paths if path.kind == kind) for kind in self._out.kinds}
        self._scales = [sqrt(path.kind.dim / reaching[path.kind]) for path in paths]
        if self._out.order is not None:
            self.tables.register_table("order", self._out.order)
        self._add_weights(weights, [copies * path.pairs for copies, path in zip(self._copies, paths, strict=True)])

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        space = Point("SO(3)")
        left, right = space.field("2*irrep1 + irrep0 + irrep2"), space.field("irrep0 + irrep1")
        yield cls(left, right, space.field("irrep1 + 2*irrep0 + irrep2 + irrep1"))
        cloud = Cloud3d("O(3)")
        yield cls(cloud.field("2*irrep1"), cloud.field("irrep1"), cloud.field("irrep(1,1) + irrep0"), weights="given")
        point = Point("D4")
        yield cls(point.field("regular"), point.field("irrep1"), point.field("irrep1 + regular"))

    def mixed(self, number: int, products: Tensor, weight: Tensor) -> Tensor:
        """One weight for every triple of copies."""
        path, copies = self._paths[number], self._copies[number]
        flat = products.flatten(1, 3)  # (rows, pairs, d3)
        matrix = weight.unflatten(-1, (copies, path.pairs))
        return self._scales[number] * (matrix @ flat)

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """The sum over the paths to each summand."""
        sums = []
        for kind in self._out.kinds:
            reaching = [part for part, path in zip(parts, self._paths, strict=True) if path.kind == kind]
            sums.append(sum(reaching[1:], reaching[0]).flatten(1))
        out = torch.cat(sums, 1)
        return out if self._out.order is None else out.index_select(1, self.tables.get_buffer("order"))


@register_layer
class DepthwiseBilinear(_Bilinear):
    """Products of two inputs, copy by copy: every copy in x keeps to itself, as in a depthwise convolution.

    A path couples one summand of x with one of y to one of the output. Its output has as many copies as x, and it has
    one weight per copy of x, copy of y and coupling. A linear layer behind it mixes the copies.

    Shapes: ``(rows, d1)`` and ``(rows, d2)`` to ``(rows, d3)``, with ``out_type`` the sum over the paths. Equivariance:
    exact.

    Args:
        left: the type of x, at a point or on a cloud.
        right: the type of y, on the same space.
        kinds: a type with the summands that the output may have; copies don't matter.
        weights: as in :class:`Bilinear`.

    >>> space = Point("SO(3)")
    >>> layer = DepthwiseBilinear(space.field("4*irrep1"), space.field("irrep1"), space.field("irrep0 + irrep1"))
    >>> layer.out_type, layer.weight_count
    (Field(4 trivial + 4 irrep(1) on Point(SO(3))), 8)
    """

    @checked
    def __init__(self, left: FieldType, right: FieldType, kinds: FieldType, *, weights: Weights = "learned") -> None:
        _require_rows("DepthwiseBilinear", left, right, kinds)
        paths = _paths(left, right, summands(kinds.rho).kinds)
        if not paths:
            raise EmptyKernelSpaceError(
                "DepthwiseBilinear", expected=f"products of {left} and {right} that contain {kinds.rho}", got="none"
            )
        rho = direct_sum(len(path.first) * path.kind for path in paths)
        super().__init__(left, right, left.space.field(rho), paths)
        self._add_weights(weights, [path.pairs for path in paths])

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        space = Cloud3d("SO(3)")
        left, right = space.field("2*irrep1 + 3*irrep0"), space.field("irrep0 + irrep1 + irrep2")
        yield cls(left, right, space.field("irrep0 + irrep1"))
        yield cls(left, right, space.field("irrep1"), weights="given")

    def mixed(self, number: int, products: Tensor, weight: Tensor) -> Tensor:
        """One weight for every pair of copies, summed over those of y."""
        path = self._paths[number]
        shape = len(path.first), len(path.second), len(path.maps)
        scale = sqrt(path.kind.dim / (shape[1] * shape[2]))
        return scale * (products * weight.unflatten(-1, shape).unsqueeze(-1)).sum((2, 3))

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """One path after the other."""
        return torch.cat([part.flatten(1) for part in parts], 1)


@register_layer
class FullBilinear(_Bilinear):
    """All products of two inputs without weights: every copy in x with every copy in y, in every coupling.

    The output has one copy for each pair of copies and each coupling, so it grows as the product of both inputs; a
    linear layer behind it mixes the copies. :class:`Bilinear` does both at once and needs less memory.

    Shapes: ``(rows, d1)`` and ``(rows, d2)`` to ``(rows, d3)``, with ``out_type`` the sum over the paths. Equivariance:
    exact.

    Args:
        left: the type of x, at a point or on a cloud.
        right: the type of y, on the same space.
        kinds: a type with the summands to keep; by default all irreducibles in the products.

    >>> space = Point("O(3)")
    >>> FullBilinear(space.field("2x1o"), space.field("1x1o")).out_type
    Field(2 trivial + 2 irrep(1, +1) + 2 irrep(2, +1) on Point(O(3)))
    """

    @checked
    def __init__(self, left: FieldType, right: FieldType, *, kinds: FieldType | None = None) -> None:
        _require_rows("FullBilinear", left, right, *([] if kinds is None else [kinds]))
        if kinds is None:
            products = [a @ b for a in summands(left.rho).kinds for b in summands(right.rho).kinds]
            kept: Sequence[Representation] = direct_sum(products).decompose().irreps
        else:
            kept = kinds.rho.atoms
        paths = _paths(left, right, tuple(dict.fromkeys(kept)))
        if not paths:
            raise EmptyKernelSpaceError(
                "FullBilinear", expected=f"products of {left} and {right} that contain {kinds}", got="none"
            )
        rho = direct_sum(path.pairs * path.kind for path in paths)
        super().__init__(left, right, left.space.field(rho), paths)
        self._add_weights("learned", [])

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        space = Point("SO(3)")
        yield cls(space.field("2*irrep1 + irrep0"), space.field("irrep1 + 2*irrep0"))
        point = Point("D4")
        yield cls(point.field("regular"), point.field("irrep1"), kinds=point.field("irrep1 + trivial"))

    def mixed(self, number: int, products: Tensor, weight: Any) -> Tensor:
        """The products themselves, scaled so that unit inputs give unit outputs."""
        return sqrt(self._paths[number].kind.dim) * products.flatten(1, 3)

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """One path after the other."""
        return torch.cat([part.flatten(1) for part in parts], 1)


class _Tables(TableModule):
    """Channels and maps of the paths."""

    def __init__(self, paths: Sequence[_Path]) -> None:
        super().__init__()
        for number, path in enumerate(paths):
            self.register_table(f"first{number}", path.first.flatten())
            self.register_table(f"second{number}", path.second.flatten())
            self.register_table(f"maps{number}", path.maps.flatten(0, 2).T.contiguous())  # (d2, k d3 d1)


def _require_rows(caller: str, *types: FieldType) -> None:
    space = types[0].space
    if not isinstance(space, Point | Cloud) or any(field.space != space for field in types):
        raise TypeMismatchError(
            caller, expected="field types at one point or on one cloud", got=", ".join(map(str, types))
        )


@on_cpu
def _paths(left: FieldType, right: FieldType, kinds: Sequence[Representation]) -> list[_Path]:
    paths = []
    for rho1, first in _copies(left.rho):
        for rho2, second in _copies(right.rho):
            for kind in kinds:
                maps = hom_basis(rho1 @ rho2, kind)
                if len(maps):
                    paths.append(_Path(first, second, kind, maps.unflatten(2, (rho1.dim, rho2.dim))))
    return paths


def _copies(rho: Representation) -> list[tuple[Representation, Tensor]]:
    """The kinds of summands with the channels of their copies, ``(n, d)``."""
    parts, start, copies = summands(rho), 0, []
    order = torch.arange(rho.dim) if parts.order is None else torch.argsort(parts.order)
    for kind, n in zip(parts.kinds, parts.counts, strict=True):
        copies.append((kind, order[start : start + n * kind.dim].view(n, kind.dim)))
        start += n * kind.dim
    return copies


def _draw(channels: int, x: Tensor, noise: torch.Generator) -> Tensor:
    return torch.randn(len(x), channels, dtype=x.dtype, generator=noise)
