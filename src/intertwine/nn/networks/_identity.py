"""The layer that returns its input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ...groups import Cyclic, Symmetric
from ...spaces import FieldType, Grid2d, HomogeneousSpace
from .._layer import Exact, Layer, register_layer


@register_layer
class Identity(Layer):
    """Φ(f) = f, for a branch that passes its input through.

    Shapes: any input of ``in_type`` to the same shape. Equivariance: exact.

    Args:
        in_type: fields of any type.

    >>> import torch
    >>> C4 = Cyclic(4)
    >>> Identity(Grid2d(C4).field(C4.regular))(torch.ones(1, 4, 3, 3)).shape
    torch.Size([1, 4, 3, 3])
    """

    @checked
    def __init__(self, in_type: FieldType) -> None:
        super().__init__(in_type, in_type, Exact())

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, G = Cyclic(4), Symmetric(3)
        H = G.subgroup([1])
        yield cls(Grid2d(C4).field(C4.regular + C4.irrep(1)))
        yield cls(HomogeneousSpace(G, H).field(H.regular))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return x

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """Every sample."""
        return 1, 0

    def to_plain(self) -> torch_nn.Identity:
        """A ``torch.nn.Identity``."""
        return torch_nn.Identity()
