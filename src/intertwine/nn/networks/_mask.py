"""A mask that sets a field to zero outside a ball."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..._checked import Positive, checked
from ..._devices import on_cpu
from ...errors import InputError
from ...groups import SO2, Cyclic, Dihedral, Octahedral
from ...spaces import FieldType, Grid, Grid2d, Grid3d
from .._layer import Layer, pointwise_claim, register_layer, require_grid
from .._traced import TracedLayer
from ..basis._tables import TableModule


@register_layer
class Mask(TracedLayer):
    """(Φf)(x) = m(|x|) f(x), with m = 1 inside a ball around the center and 0 outside of the ball that fits the array.

    When a field rotates by 45°, or by any angle on the hexagonal lattice, its corners leave the array. What the mask
    lets through stays inside. Between the radii r = R and r = R + ``margin``, m falls off as exp(-(r - R)² / 2σ²), so
    the edge adds few high frequencies.

    Shapes: ``(batch, d, *space)`` to the same, for one size. Equivariance: m depends only on the distance from the
    center, so the layer commutes with H; it does not commute with translations.

    Args:
        in_type: fields of any type on a ``Grid2d`` or ``Grid3d``.
        size: the size of the input, one number for all axes or one per axis.
        margin: the width of the edge, in samples; 0 for a sharp edge.
        sigma: σ, in samples. (escnn's ``MaskModule`` states the margin in percent of the radius, and lets the edge
            reach into the corners.)

    >>> C8 = Cyclic(8)
    >>> mask = Mask(Grid2d(C8).field(C8.trivial), 5, margin=0)
    >>> mask(torch.ones(1, 1, 5, 5))[0, 0].int()
    tensor([[0, 0, 1, 0, 0],
            [0, 1, 1, 1, 0],
            [1, 1, 1, 1, 1],
            [0, 1, 1, 1, 0],
            [0, 0, 1, 0, 0]], dtype=torch.int32)
    """

    needs_space = True

    @checked
    def __init__(
        self, in_type: FieldType, size: Positive | Sequence[Positive], *, margin: float = 2.0, sigma: float = 1.0
    ) -> None:
        space = require_grid("Mask", in_type)
        sizes = (size,) * space.dimension if isinstance(size, int) else tuple(size)
        if len(sizes) != space.dimension:
            raise InputError("Mask", expected=f"one size, or {space.dimension} of them", got=str(sizes))
        if not (margin >= 0 and sigma > 0):
            raise InputError(
                "Mask", expected="margin of 0 or more and sigma above 0", got=f"margin={margin}, sigma={sigma}"
            )
        super().__init__(in_type, in_type, pointwise_claim(space))
        self.fixed_sizes = sizes
        self.ball = TableModule()
        self.ball.register_table("values", _ball(space, sizes, margin, sigma))

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D4, C6, so2, O = Dihedral(4), Cyclic(6), SO2(), Octahedral()
        yield cls(Grid2d(D4).field(D4.regular + D4.irrep(1)), 33)
        yield cls(Grid2d(C6, lattice="hexagonal").field(C6.regular), 33)
        yield cls(Grid2d(so2).field(so2.irrep(1) + so2.trivial), 33)
        yield cls(Grid3d(O).field(O.irreps[3]), 9)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return x * self.ball.get_buffer("values")

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The sizes of the mask."""
        if tuple(sizes) != self.fixed_sizes:
            raise InputError("Mask", expected=f"sizes {self.fixed_sizes}", got=str(tuple(sizes)))
        return tuple(sizes)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """None: the mask has a center."""
        return None

    def extra_repr(self) -> str:
        """The type and the size."""
        return f"{self.in_type.rho}, size={self.fixed_sizes}"


@on_cpu
def _ball(space: Grid, sizes: tuple[int, ...], margin: float, sigma: float) -> Tensor:
    """m(|x|) at each sample."""
    basis = space.lattice_basis
    # The faces of the array lie (n - 1) / 2 steps from the center, at this distance in space.
    steps = 1 / torch.linalg.inv(basis).norm(dim=1)
    largest = min((n - 1) / 2 for n in sizes) * float(steps.min())
    # Rounded to give samples at the same distance exactly the same value.
    r = (space.coordinates(sizes) @ basis.T).norm(dim=-1).mul(1e9).round().div(1e9)
    edge = torch.exp(-(r - (largest - margin)).clamp_min(0).square() / (2 * sigma**2))
    return edge * (r <= largest + 1e-6)
