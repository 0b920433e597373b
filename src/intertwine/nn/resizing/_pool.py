"""Pooling over the channels of a field and over all of space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from ..._checked import checked, describe
from ...errors import InputError
from ...groups import Cyclic, Dihedral, Octahedral
from ...spaces import Cloud, Cloud2d, Cloud3d, FieldType, Grid2d, Grid3d
from .._layer import Companion, Layer, pointwise_claim, register_layer, require_grid
from .._traced import TracedLayer
from ..basis._summands import join, runs, split
from ..nonlinear._nonlinearity import require_orthogonal, require_permutation


def _scalars(field: FieldType) -> FieldType:
    return field.space.field(len(field.rho.atoms) * field.space.stabilizer.trivial)


@register_layer
class GroupPool(TracedLayer):
    """The maximum over the channels of each permutation field: one invariant value per field.

    Shapes: ``(batch, d, ...)`` to ``(batch, fields, ...)``. Equivariance: the maximum does not depend on the order.

    >>> C4 = Cyclic(4)
    >>> GroupPool(Grid2d(C4).field(5 * C4.regular)).out_type
    Field(5 trivial on Grid2d(C4))
    """

    @checked
    def __init__(self, in_type: FieldType) -> None:
        require_permutation("GroupPool", in_type)
        super().__init__(in_type, _scalars(in_type), pointwise_claim(in_type.space))
        self._runs = runs(in_type.rho)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D4 = Dihedral(4)
        yield cls(Grid2d(D4).field(2 * D4.regular + D4.quotient(D4.subgroup([4]))))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return join([part.amax(2) for part in split(x, self._runs)])


@register_layer
class NormPool(TracedLayer):
    """|v| of every summand v of an orthogonal representation: one invariant value per field.

    Shapes: ``(batch, d, ...)`` to ``(batch, fields, ...)``. Equivariance: |ρ(h)v| = |v|.

    >>> C4 = Cyclic(4)
    >>> NormPool(Grid2d(C4).field(C4.irrep(1))).out_type
    Field(trivial on Grid2d(C4))
    """

    @checked
    def __init__(self, in_type: FieldType, *, eps: float = 1e-6) -> None:
        require_orthogonal("NormPool", in_type)
        super().__init__(in_type, _scalars(in_type), pointwise_claim(in_type.space))
        self.eps, self._runs = eps, runs(in_type.rho)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        D4 = Dihedral(4)
        yield cls(Grid2d(D4).field(2 * D4.irrep(1) + D4.regular))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks; eps gives the root a finite gradient at 0."""
        return join([part.square().sum(2).clamp_min(self.eps**2).sqrt() for part in split(x, self._runs)])


@register_layer
class GlobalPool(TracedLayer):
    """The mean or sum over all of space: ``(batch, d, *space)`` to ``(batch, d)``.

    On a cloud, features ``(points, d)`` become ``(clouds, d)``. A batch of clouds is one tensor with the points of the
    first cloud, then those of the second, and so on; ``sizes`` says how many points each has. From a batch index as in
    PyTorch Geometric, it is ``batch.bincount()``. A cloud without points gives 0.

    Equivariance: translations do not change the mean, and h in H acts on it by ρ(h). For trivial fields it is
    invariant.

    Args:
        in_type: fields on the line, the plane, 3-space or a cloud.
        reduce: ``mean`` or ``sum``. Energies of atoms add up; colors of pixels don't.

    >>> C4 = Cyclic(4)
    >>> import torch
    >>> GlobalPool(Grid2d(C4).field(10 * C4.trivial))(torch.zeros(2, 10, 7, 7)).shape
    torch.Size([2, 10])
    >>> energy = GlobalPool(Cloud3d("O(3)").field("irrep0"), reduce="sum")
    >>> energy(torch.ones(5, 1), torch.tensor([2, 3]))
    tensor([[2.],
            [3.]])
    """

    keeps_space = False

    @checked
    def __init__(self, in_type: FieldType, *, reduce: Literal["mean", "sum"] = "mean") -> None:
        self.reduce = reduce
        self._axes: tuple[int, ...] = ()
        if isinstance(in_type.space, Cloud):
            super().__init__(in_type, in_type, pointwise_claim(in_type.space))
            self.companions = (Companion("sizes", _sizes),)
            self.traced_method = "compute_clouds"
            return
        grid = require_grid("GlobalPool", in_type)
        super().__init__(in_type, in_type, pointwise_claim(grid))
        self.needs_space = True
        self._axes = tuple(range(2, 2 + grid.dimension))

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, O = Cyclic(4), Octahedral()
        yield cls(Grid2d(C4).field(C4.regular + C4.irrep(1)))
        yield cls(Grid3d(O).field(O.irreps[3] + O.trivial), reduce="sum")
        yield cls(Cloud3d("O(3)").field("irrep0 + irrep1"))
        yield cls(Cloud2d("SO(2)").field("irrep0 + irrep1"), reduce="sum")

    def forward(self, x: Tensor, sizes: Tensor | None = None) -> Tensor:
        self.check_input(x)
        if not self.companions:
            if sizes is not None:
                raise InputError("GlobalPool", expected="one argument, x, on a grid", got="sizes as well")
            return self.compute(x)
        return self.compute_clouds(x, self._checked_sizes(x, sizes))

    def compute(self, x: Tensor) -> Tensor:
        """The map on a grid, without checks."""
        return x.mean(self._axes) if self.reduce == "mean" else x.sum(self._axes)

    def compute_clouds(self, x: Tensor, sizes: Tensor) -> Tensor:
        """The map on clouds, without checks."""
        number = (torch.ones_like(sizes).cumsum(0) - 1).repeat_interleave(sizes, output_size=x.shape[0])
        total = x.new_zeros(sizes.shape[0], self.in_type.dim).index_add(0, number, x)
        return total if self.reduce == "sum" else total / sizes.clamp(min=1).to(x.dtype)[:, None]

    def _checked_sizes(self, x: Tensor, sizes: Tensor | None) -> Tensor:
        if not isinstance(sizes, Tensor) or sizes.ndim != 1 or sizes.dtype != torch.int64:
            raise InputError(
                "GlobalPool",
                expected="sizes (clouds,) of torch.int64, the number of points of each cloud",
                got=f"{sizes.dtype} of shape {tuple(sizes.shape)}" if isinstance(sizes, Tensor) else describe(sizes),
                fix="Pass batch.bincount(), or torch.tensor([len(x)]) for one cloud.",
            )
        if torch.compiler.is_compiling() or x.device.type == "meta":  # what follows looks at values
            return sizes
        if (sizes.numel() and int(sizes.min()) < 0) or int(sizes.sum()) != len(x):
            raise InputError(
                "GlobalPool", expected=f"sizes of 0 or more that add up to {len(x)} points", got=str(sizes.tolist())
            )
        return sizes

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """No spatial axes remain."""
        return ()


def _sizes(x: Tensor, noise: torch.Generator) -> Tensor:
    """One cloud without points, between two others."""
    first = int(torch.randint(1, len(x), (), generator=noise))
    return torch.tensor([first, 0, len(x) - first])
