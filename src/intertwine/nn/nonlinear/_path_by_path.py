"""Quadratic maps of many fields, path by path.

With a filter on all products of channels, n fields of dimension d cost n² d² products for each of the n d outputs. Most
of these are zero or repeated: a path couples two fields to one by the same small map for all copies. Here the weights
of a path first mix the copies of one factor, for each copy of the other; then the other factor is multiplied in, and
the small map comes last. Every step is a product of large matrices, without a gather.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..basis._tables import TableModule


@dataclass(frozen=True)
class Path:
    """A coupling of two kinds of fields, all copies of one with all copies of the other, to one kind of output field.

    Attributes:
        first: the channels of the first factor, ``(n1, d1)``.
        second: the channels of the second factor, ``(n2, d2)``.
        pairs: the pairs among the n1 · n2 pairs of copies that have a weight; None for all, in order.
        maps: ``(k, d, d1 · d2)``, from products to the output.
        copies: the number of output copies.
    """

    first: Tensor
    second: Tensor
    pairs: Tensor | None
    maps: Tensor
    copies: int

    @property
    def cost(self) -> int:
        """Multiplications per sample."""
        (n1, d1), (n2, d2), (k, d, _) = self.first.shape, self.second.shape, self.maps.shape
        return k * self.copies * min(d1, d2) * (n1 * n2 + max(n1, n2) * max(d1, d2)) + k * self.copies * d1 * d2 * d


class PathProduct(TableModule):
    """Maps x and the weights ``(copies, pairs, k)`` of a path to its part of the output, ``(batch, copies, d)``."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        (n1, d1), (n2, d2), (k, d, _) = path.first.shape, path.second.shape, path.maps.shape
        self._swapped = d2 < d1  # mixing the factor of smaller dimension first is less work
        self._sizes, self._copies = (n1, d1, n2, d2, k, d), path.copies
        maps = path.maps.view(k, d, d1, d2)
        maps = maps.permute(0, 3, 2, 1) if self._swapped else maps.permute(0, 2, 3, 1)
        self.register_table("maps", maps.reshape(k * d1 * d2, d).contiguous())
        self.register_table("first", path.first.flatten())
        self.register_table("second", path.second.flatten())
        self._partial = path.pairs is not None
        if path.pairs is not None:
            self.register_table("pairs", path.pairs)

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        """The part of the output from this path."""
        n1, d1, n2, d2, k, d = self._sizes
        z, n = x.shape[0], self._copies
        if self._partial:
            weight = weight.new_zeros(n, n1 * n2, k).index_copy(1, self.get_buffer("pairs"), weight)
        first = x.index_select(1, self.get_buffer("first")).view(z, n1, d1)
        second = x.index_select(1, self.get_buffer("second")).view(z, n2, d2)
        weight = weight.view(n, n1, n2, k)
        if self._swapped:
            first, second, d1, d2, n2 = second, first, d2, d1, n1
            mixing = weight.permute(2, 0, 3, 1)
        else:
            mixing = weight.permute(1, 0, 3, 2)
        mixed = first.transpose(1, 2).reshape(z * d1, -1) @ mixing.reshape(mixing.shape[0], -1)  # (z d1, n k n2)
        products = torch.bmm(mixed.view(z, d1 * n * k, n2), second)  # (z, d1 n k, d2)
        products = products.view(z, d1, n, k, d2).permute(0, 2, 3, 1, 4).reshape(z * n, k * d1 * d2)
        return (products @ self.get_buffer("maps")).view(z, n, d)
