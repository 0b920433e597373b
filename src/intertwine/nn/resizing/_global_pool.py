"""The mean over all of space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..._checked import checked
from ..._devices import on_cpu
from ...errors import InputError, TypeMismatchError
from ...groups import SO2, Cyclic, Octahedral, Representation
from ...spaces import FieldType, Grid2d, Grid3d, Sphere, SphereGrid
from .._layer import Exact, Layer, pointwise_claim, register_layer, require_grid
from .._traced import TracedLayer
from ..basis._invariants import invariant_vectors
from ..basis._tables import TableModule


@register_layer
class GlobalPool(TracedLayer):
    """The mean over all of space: ``(batch, d, *space)`` to ``(batch, d)``; on the sphere, of the scalars.

    Equivariance: translations do not change the mean, and h in H acts on it by ρ(h). For trivial fields it is
    invariant. On the sphere, a rotation takes the frame of every point along, so only the trivial components of ρ have
    a mean that rotates with the field. It is the integral over the area, and the layer returns one invariant value
    per trivial component.

    Args:
        in_type: fields on the line, the plane, 3-space or the sphere.
        grid: the samples on the sphere; omit it elsewhere.

    >>> C4 = Cyclic(4)
    >>> GlobalPool(Grid2d(C4).field(10 * C4.trivial))(torch.zeros(2, 10, 7, 7)).shape
    torch.Size([2, 10])
    >>> field, grid = Sphere().field(SO2().trivial + SO2().irrep(1)), Sphere().grid(band_limit=4)
    >>> GlobalPool(field, grid=grid)(torch.ones(2, 3, *grid.shape))
    tensor([[1.],
            [1.]])
    """

    needs_space = True
    keeps_space = False

    @checked
    def __init__(self, in_type: FieldType, *, grid: SphereGrid | None = None) -> None:
        space = in_type.space
        if not isinstance(space, Sphere):
            if grid is not None:
                raise InputError("GlobalPool", expected=f"no grid for fields on {space.name}", got=str(grid))
            space = require_grid("GlobalPool", in_type)
            super().__init__(in_type, in_type, pointwise_claim(space))
            self._axes = tuple(range(2, 2 + space.dimension))
            return
        if grid is None:
            raise InputError(
                "GlobalPool",
                expected="the grid on which the fields are sampled",
                got="none",
                fix="Pass grid=, the out_grid of the last convolution.",
            )
        duals = _invariant_duals(in_type.rho)
        if not len(duals):
            raise TypeMismatchError(
                "GlobalPool",
                expected="fields with scalar components, which alone have a mean on the sphere",
                got=str(in_type),
                fix="Map them to scalars first: NormPool(in_type), or a SphereConv to trivial fields.",
            )
        super().__init__(in_type, space.field(len(duals) * space.stabilizer.trivial), Exact())
        self.fixed_sizes = grid.shape
        self.tables = TableModule()
        self.tables.register_table("share", grid.weights / grid.weights.sum())
        self.tables.register_table("duals", duals)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, O, so2 = Cyclic(4), Octahedral(), SO2()
        yield cls(Grid2d(C4).field(C4.regular + C4.irrep(1)))
        yield cls(Grid3d(O).field(O.irreps[3] + O.trivial))
        yield cls(Sphere().field(2 * so2.trivial + so2.irrep(1) + so2.trivial), grid=Sphere().grid(band_limit=5))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        if self.fixed_sizes is None:
            return x.mean(self._axes)
        mean = (x * self.tables.get_buffer("share")).sum((2, 3))
        return mean @ self.tables.get_buffer("duals").T

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """No spatial axes remain."""
        if self.fixed_sizes is not None and tuple(sizes) != self.fixed_sizes:
            raise InputError(
                "GlobalPool",
                expected=f"the {self.fixed_sizes[0]} rings of {self.fixed_sizes[1]} points of its grid",
                got=f"sizes {tuple(sizes)}",
                fix="Pass the grid of the data as grid=.",
            )
        return ()


@on_cpu
def _invariant_duals(rho: Representation) -> Tensor:
    """The invariant components of a vector, ``(components, d)``: one row per trivial component of ρ."""
    vectors = torch.block_diag(*(invariant_vectors(atom) for atom in rho.atoms))
    return vectors / vectors.square().sum(1, keepdim=True)
