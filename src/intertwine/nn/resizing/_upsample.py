"""Upsampling that preserves the symmetry of the lattice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor
from torch import nn as torch_nn
from torch.nn.functional import interpolate

from ..._checked import checked
from ...errors import InputError, TypeMismatchError
from ...groups import SO2, Cyclic, Dihedral, Octahedral
from ...spaces import FieldType, Grid2d, Grid3d
from .._layer import Layer, pointwise_claim, register_layer, require_grid

_MODES = {2: ("nearest", "bilinear", "bicubic"), 3: ("nearest", "trilinear")}


@register_layer
class Upsample(Layer):
    """Interpolates every channel to ``scale_factor`` times as many samples along every axis.

    Shapes: ``(batch, d, n, …)`` to ``(batch, d, scale_factor n, …)``. Equivariance: exact for all sizes. A whole factor
    puts the new samples symmetrically about the center, with or without ``align_corners``; a fraction would not, and
    raises an error. So does the hexagonal lattice, which these modes do not support.

    Args:
        in_type: fields of any type on a ``Grid2d`` or ``Grid3d``.
        scale_factor: a whole number.
        mode: ``"nearest"``, ``"bilinear"`` or ``"bicubic"`` in the plane, ``"nearest"`` or ``"trilinear"`` in 3-space;
            by default linear.
        align_corners: whether the first and the last samples stay in place, as in ``torch.nn.Upsample``.

    >>> import torch
    >>> C4 = Cyclic(4)
    >>> Upsample(Grid2d(C4).field(C4.regular), 2)(torch.zeros(1, 4, 7, 7)).shape
    torch.Size([1, 4, 14, 14])
    """

    needs_space = True

    @checked
    def __init__(
        self,
        in_type: FieldType,
        scale_factor: int = 2,
        *,
        mode: str | None = None,
        align_corners: bool = False,
    ) -> None:
        space = require_grid("Upsample", in_type)
        modes = _MODES[space.dimension]
        mode = modes[1] if mode is None else mode
        if getattr(space, "lattice", "square") != "square":
            raise TypeMismatchError(
                "Upsample",
                expected="fields on the square or the cubic lattice",
                got=str(in_type),
                fix="Make the plane with lattice='square'.",
            )
        if scale_factor < 1:
            raise InputError("Upsample", expected="scale_factor of at least 1", got=str(scale_factor))
        if mode not in modes or (align_corners and mode == "nearest"):
            raise InputError(
                "Upsample",
                expected=f"mode {', '.join(map(repr, modes))}; with align_corners one of the last {len(modes) - 1}",
                got=f"{mode!r}" + (" with align_corners" if align_corners else ""),
                fix=f"Use mode={modes[1]!r}.",
            )
        super().__init__(in_type, in_type, pointwise_claim(space))
        self.scale_factor, self.mode, self.align_corners = scale_factor, mode, align_corners

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, O, so2 = Cyclic(4), Dihedral(4), Octahedral(), SO2()
        yield cls(Grid2d(D4).field(D4.irrep(1) + D4.regular + D4.trivial), 2)
        yield cls(Grid2d(C4).field(C4.regular), 3, mode="nearest")
        yield cls(Grid2d(C4).field(C4.regular), 2, mode="bicubic")
        yield cls(Grid2d(C4).field(C4.irrep(1)), 2, align_corners=True)
        yield cls(Grid3d(O).field(O.irreps[3] + O.trivial), 2)
        yield cls(Grid2d(so2).field(so2.irrep(1)), 2)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        sizes = self.output_sizes(x.shape[2:])
        return interpolate(x, size=sizes, mode=self.mode, align_corners=self._corners())

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The sizes times the factor."""
        return tuple(self.scale_factor * n for n in sizes)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """None: a step of the input is several steps of the output."""
        return None

    def to_plain(self) -> torch_nn.Upsample:
        """A ``torch.nn.Upsample``."""
        return torch_nn.Upsample(
            scale_factor=self.scale_factor, mode=self.mode, align_corners=self._corners(), recompute_scale_factor=True
        )

    def _corners(self) -> bool | None:
        return None if self.mode == "nearest" else self.align_corners

    def extra_repr(self) -> str:
        """The type and the interpolation."""
        corners = ", align_corners=True" if self.align_corners else ""
        return f"{self.in_type.rho}, scale_factor={self.scale_factor}, mode={self.mode!r}{corners}"
