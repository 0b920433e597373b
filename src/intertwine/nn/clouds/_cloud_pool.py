"""Sums and means over the clouds of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from ..._checked import checked, describe
from ...errors import InputError, TypeMismatchError
from ...spaces import Cloud, Cloud2d, Cloud3d, FieldType
from .._layer import Companion, Layer, pointwise_claim, register_layer
from .._traced import TracedLayer


@register_layer
class CloudPool(TracedLayer):
    """The mean or the sum over the points of each cloud: ``(points, d)`` to ``(clouds, d)``.

    A batch of clouds is one tensor with the points of the first cloud, then those of the second, and so on. ``sizes``
    says how many points each has. From a batch index as in PyTorch Geometric, it is ``batch.bincount()``. A cloud
    without points gives 0.

    Equivariance: translations do not change the result, and h in H acts on it by ρ(h). For trivial fields it is
    invariant.

    Args:
        in_type: fields on a cloud.
        reduce: ``mean`` or ``sum``. Energies of atoms add up; temperatures don't.

    >>> energy = CloudPool(Cloud3d("O(3)").field("irrep0"), reduce="sum")
    >>> energy(torch.ones(5, 1), torch.tensor([2, 3]))
    tensor([[2.],
            [3.]])
    """

    keeps_space = False

    @checked
    def __init__(self, in_type: FieldType, *, reduce: Literal["mean", "sum"] = "mean") -> None:
        if not isinstance(in_type.space, Cloud):
            raise TypeMismatchError(
                "CloudPool",
                expected="fields on a cloud",
                got=str(in_type),
                fix="GlobalPool takes fields on grids and on the sphere.",
            )
        super().__init__(in_type, in_type, pointwise_claim(in_type.space))
        self.reduce = reduce
        self.companions = (Companion("sizes", _sizes),)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        yield cls(Cloud3d("O(3)").field("irrep0 + irrep1"))
        yield cls(Cloud2d("SO(2)").field("irrep0 + irrep1"), reduce="sum")

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:  # type: ignore[override]
        self.check_input(x)
        return self.compute(x, self._checked_sizes(x, sizes))

    def compute(self, x: Tensor, sizes: Tensor) -> Tensor:
        """The map without checks."""
        # The number of the cloud of a point is how many clouds have begun, minus one. An empty cloud begins where the
        # next one does. ONNX has no repeat_interleave of a known size.
        begins = x.new_zeros(x.shape[0] + 1, dtype=torch.int64).index_add(
            0, sizes.cumsum(0) - sizes, torch.ones_like(sizes)
        )
        number = begins.cumsum(0)[:-1] - 1
        total = x.new_zeros(sizes.shape[0], self.in_type.dim).index_add(0, number, x)
        return total if self.reduce == "sum" else total / sizes.clamp(min=1).to(x.dtype)[:, None]

    def _checked_sizes(self, x: Tensor, sizes: Tensor) -> Tensor:
        if not isinstance(sizes, Tensor) or sizes.ndim != 1 or sizes.dtype != torch.int64:
            raise InputError(
                "CloudPool",
                expected="sizes (clouds,) of torch.int64, the number of points of each cloud",
                got=f"{sizes.dtype} of shape {tuple(sizes.shape)}" if isinstance(sizes, Tensor) else describe(sizes),
                fix="Pass batch.bincount(), or torch.tensor([len(x)]) for one cloud.",
            )
        if torch.compiler.is_compiling() or x.device.type == "meta":  # what follows looks at values
            return sizes
        if (sizes.numel() and int(sizes.min()) < 0) or int(sizes.sum()) != len(x):
            raise InputError(
                "CloudPool", expected=f"sizes of 0 or more that add up to {len(x)} points", got=str(sizes.tolist())
            )
        return sizes

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """No spatial axes remain."""
        return ()


def _sizes(x: Tensor, noise: torch.Generator) -> Tensor:
    """One cloud without points, between two others."""
    first = int(torch.randint(1, len(x), (), generator=noise))
    return torch.tensor([first, 0, len(x) - first])
