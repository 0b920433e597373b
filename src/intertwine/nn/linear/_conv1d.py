"""Convolution of signals."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn as torch_nn

from ...groups import Cyclic, Dihedral
from ...spaces import Grid1d
from .._layer import Layer, register_layer
from ._conv import Conv


@register_layer
class Conv1d(Conv):
    """:class:`Conv2d` on a line: signals ``(batch, d1, length)``, under shifts and, for ``Grid1d("D1")``, reversal.

    A field may change sign when the signal is reversed (a velocity, a derivative) or not (an amplitude): that is the
    representation of its type. A group that acts on the values alone, such as a change of sign without reversal, has
    the trivial action on the line: ``Grid1d("C2", action=Cyclic(2).trivial)``.

    Shapes: ``(batch, d1, length)`` to ``(batch, d2, length')``, as ``torch.nn.Conv1d``. Equivariance: exact under
    reversal; under shifts as any convolution. All options are those of :class:`Conv2d`.

    >>> import torch
    >>> line = Grid1d("D1")
    >>> amplitude, velocity = line.field("trivial"), line.field("irrep(0,-1)")
    >>> layer = Conv1d(amplitude, velocity, 3, padding=1)  # an odd filter, such as a derivative
    >>> x = torch.randn(1, 1, 8)
    >>> torch.allclose(layer(x.flip(2)), -layer(x).flip(2), atol=1e-6)
    True
    """

    dimension = 1
    plain = torch_nn.Conv1d

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D1, C1, C2 = Dihedral(1), Cyclic(1), Cyclic(2)
        line = Grid1d(D1)
        mixed = line.field(D1.trivial + D1.regular + 2 * D1.irrep(0, -1))
        yield cls(line.field(2 * D1.trivial), mixed, 5, padding=2)
        yield cls(mixed, mixed, 3, stride=2, padding=1)
        yield cls(line.field(2 * D1.regular), line.field(D1.regular), 4, padding_mode="circular", padding=2)
        yield cls(Grid1d(C1).field(3 * C1.trivial), Grid1d(C1).field(2 * C1.trivial), 3)
        signs = Grid1d(C2, action=C2.trivial).field(C2.irreps[1] + C2.regular)
        yield cls(signs, signs, 3, padding=1, dilation=2)
