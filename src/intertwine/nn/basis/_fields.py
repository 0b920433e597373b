"""Values per field: one per summand of a representation."""

from __future__ import annotations

import torch
from torch import Tensor

from ...spaces import FieldType
from ._summands import join, runs, split
from ._tables import TableModule


class Fields(TableModule):
    """Spreads one value per field over its channels, and averages back.

    >>> from intertwine.groups import Cyclic
    >>> from intertwine.spaces import Grid2d
    >>> C4 = Cyclic(4)
    >>> Fields(Grid2d(C4).field(C4.trivial + C4.irrep(1)))(torch.tensor([5.0, 7.0]))
    tensor([5., 7., 7.])
    """

    def __init__(self, field: FieldType) -> None:
        super().__init__()
        dims = torch.tensor([atom.dim for atom in field.rho.atoms], device="cpu")
        self._runs = runs(field.rho)
        self.register_table("dims_of", dims)
        self.register_table("field_of", torch.repeat_interleave(torch.arange(len(dims), device="cpu"), dims))

    @property
    def dims(self) -> Tensor:
        """The number of channels of each field."""
        return self.get_buffer("dims_of")

    def forward(self, per_field: Tensor, axis: int = 0) -> Tensor:
        """Repeat each value over the channels of its field, along ``axis``."""
        return per_field.index_select(axis, self.get_buffer("field_of"))

    def average(self, per_channel: Tensor) -> Tensor:
        """The mean over the channels of each field, ``(d,)`` to ``(fields,)``."""
        return join([part.mean(2) for part in split(per_channel[None], self._runs)])[0]
