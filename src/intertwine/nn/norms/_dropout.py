"""Dropout of whole fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from torch import Tensor
from torch import nn as torch_nn
from torch.nn.functional import dropout

from ..._checked import checked
from ...errors import InputError
from ...groups import SO2, Cyclic, Dihedral, Octahedral, Symmetric
from ...spaces import FieldType, Grid2d, Grid3d, HomogeneousSpace, Sphere
from .._layer import Exact, Layer, register_layer
from ..basis._fields import Fields
from ..nonlinear._nonlinearity import require_permutation


@register_layer
class Dropout(Layer):
    """f ↦ m f/(1 - p) in training, with m = 0 with probability p, else 1: one m for all channels of a summand.

    By default all positions share m too, like the positions of a channel in ``torch.nn.Dropout2d``.

    Shapes: any input of ``in_type`` to the same shape. Equivariance: a scalar commutes with every ρ(h), and one that
    does not depend on position commutes with all motions, so the layer commutes for every draw of m. With
    ``everywhere=False`` each position has its own draw: training is then equivariant in distribution, not for a single
    draw. The same holds for ``per="channel"``, which drops the channels of permutation types one by one. In evaluation
    the layer does nothing.

    Args:
        in_type: fields of any type.
        p: the probability of dropping a field, at least 0 and less than 1.
        everywhere: whether a field is dropped at all positions at once rather than at each position independently.
        per: ``"field"`` to drop whole fields, ``"channel"`` to drop channels of permutation types.

    >>> import torch
    >>> C4 = Cyclic(4)
    >>> x = Dropout(Grid2d(C4).field(5 * C4.regular), p=0.5)(torch.ones(2, 20, 3, 3))
    >>> fields = x.view(2, 5, 4 * 9)
    >>> bool((fields.amin(2) == fields.amax(2)).all())
    True
    """

    @checked
    def __init__(
        self,
        in_type: FieldType,
        p: float = 0.5,
        *,
        everywhere: bool = True,
        per: Literal["field", "channel"] = "field",
    ) -> None:
        if not 0 <= p < 1:
            raise InputError("Dropout", expected="a probability p with 0 <= p < 1", got=repr(p))
        if per == "channel":
            require_permutation("Dropout", in_type)
        super().__init__(in_type, in_type, Exact())
        self.per = per
        self.p, self.everywhere, self.fields = float(p), everywhere, Fields(in_type)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, O, G = Cyclic(4), Dihedral(4), Octahedral(), Symmetric(3)
        H, so2 = G.subgroup([1]), SO2()
        yield cls(Grid2d(D4).field(D4.irrep(1) + D4.regular + 2 * D4.trivial), p=0.3)
        yield cls(Grid2d(C4).field(3 * C4.regular))
        yield cls(Grid3d(O).field(2 * O.irreps[3] + O.trivial), p=0.3)
        yield cls(HomogeneousSpace(G, H).field(2 * H.regular + H.irreps[1]))
        yield cls(Grid2d(so2).field(2 * so2.irrep(1) + so2.trivial))
        yield cls(Sphere().field(so2.trivial + 2 * so2.irrep(1)))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        if not self.training or self.p == 0:
            return x
        space = (1,) * (x.ndim - 2) if self.everywhere else x.shape[2:]
        units = len(self.fields.dims) if self.per == "field" else x.shape[1]
        mask = dropout(x.new_ones(x.shape[0], units, *space), self.p, training=True)
        return x * (self.fields(mask, axis=1) if self.per == "field" else mask)

    def to_plain(self) -> torch_nn.Identity:
        """A ``torch.nn.Identity``."""
        return torch_nn.Identity()

    def extra_repr(self) -> str:
        """The type and the probability."""
        rest = "" if self.everywhere else ", everywhere=False"
        return f"{self.in_type.rho}, p={self.p}{rest}" + (", per='channel'" if self.per == "channel" else "")
