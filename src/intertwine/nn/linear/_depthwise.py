"""Convolution of each channel on its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from ..._checked import checked
from ...errors import TypeMismatchError
from ...groups import Cyclic, Dihedral
from ...spaces import FieldType, Grid2d
from .._layer import Layer, register_layer
from .._window import PaddingMode
from ..basis._summands import permutes
from ._conv2d import Conv2d


@register_layer
class DepthwiseConv2d(Conv2d):
    """(Φf)(x)_i = Σ_y κ_i(y) f(x + y)_i + b_i with κ_hi(hy) = κ_i(y) for all h in H: channels do not mix.

    The channels of an orbit, such as those of one regular field, share one filter in transformed copies. Same as
    ``Conv2d(in_type, in_type, kernel_size, groups=in_type.dim)``.

    Shapes: ``(batch, d, height, width)`` to ``(batch, d, height', width')``, as ``torch.nn.Conv2d``. Equivariance: as
    :class:`Conv2d`; exact for groups that map the lattice to itself.

    Args:
        in_type: fields on a ``Grid2d`` whose channels are permuted (trivial, regular, quotient).
        kernel_size: as for ``torch.nn.Conv2d``.
        stride: see :class:`Conv2d`.
        padding: the number of samples added on each side, or ``"same"``.
        dilation: as for ``torch.nn.Conv2d``.
        bias: whether to add a bias, one per orbit of channels.
        padding_mode: ``zeros``, ``reflect``, ``replicate`` or ``circular``.
        gain: standard deviation of the output on natural images of variance 1.
        allow_asymmetric: whether to accept strides, paddings and sizes that break the symmetry.

    >>> import torch
    >>> D4 = Dihedral(4)
    >>> layer = DepthwiseConv2d(Grid2d(D4).field(4 * D4.regular), 7, padding=3)
    >>> layer(torch.randn(2, 32, 9, 9)).shape
    torch.Size([2, 32, 9, 9])
    >>> [(name, tuple(p.shape)) for name, p in layer.named_parameters()]
    [('bias', (4,)), ('weights.0', (4, 1, 49))]
    """

    @checked
    def __init__(
        self,
        in_type: FieldType,
        kernel_size: int | Sequence[int],
        *,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | Literal["same"] = 0,
        dilation: int | Sequence[int] = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        gain: float = 1.0,
        allow_asymmetric: bool = False,
    ) -> None:
        require_channels("DepthwiseConv2d", in_type)
        super().__init__(
            in_type,
            in_type,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=in_type.dim,
            bias=bias,
            padding_mode=padding_mode,
            gain=gain,
            allow_asymmetric=allow_asymmetric,
        )

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, D1, C8 = Cyclic(4), Dihedral(4), Dihedral(1), Cyclic(8)
        yield cls(Grid2d(C4).field(2 * C4.regular), 3, padding=1)
        mixed = D4.regular + 2 * D4.trivial + D4.quotient(D4.subgroup([4])) + D4.trivial
        yield cls(Grid2d(D4).field(mixed), 5, padding=2, padding_mode="circular")
        yield cls(Grid2d(D1).field(2 * D1.regular), (3, 5), stride=2, padding=(1, 2), bias=False)
        yield cls(Grid2d(C8).field(2 * C8.regular), 7, padding=3)


def require_channels(caller: str, field: FieldType) -> None:
    """Raise an error unless ρ permutes the channels."""
    if not permutes(field.rho):
        wrong = next(atom for atom in field.rho.atoms if not permutes(atom))
        raise TypeMismatchError(
            caller,
            expected="a representation that permutes the channels (trivial, regular, quotient)",
            got=f"{wrong.name} of {wrong.group.name}",
            fix="Use Conv2d with groups=1 or one group per field, which mixes the channels of a field.",
        )
