"""The longest vector of every window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor
from torch.nn.functional import max_pool1d, max_pool2d, max_pool3d

from ..._checked import checked
from ...groups import Cyclic, Dihedral, Octahedral
from ...spaces import FieldType, Grid2d, Grid3d
from .._centers import Centers, placed, require_even_hand, require_square_lattice
from .._layer import Approximate, Layer, pointwise_claim, register_layer, require_grid
from .._traced import TracedLayer
from .._window import Window
from ..basis._summands import join, runs, split
from ..nonlinear._nonlinearity import require_orthogonal

_MAXIMUM = {1: max_pool1d, 2: max_pool2d, 3: max_pool3d}


@register_layer
class NormMaxPool(TracedLayer):
    """Of each field, the longest vector in every window: max pooling for any orthogonal type.

    Shapes: as torch's max pooling. Equivariance: exact on sizes where the windows are symmetric about the center; a
    call with another size raises an error that names sizes that fit. If two vectors in a window have exactly the same
    length, the first one is taken, which is not equivariant.

    Args:
        in_type: fields of an orthogonal representation on a grid.
        kernel_size: the size of the window.
        stride: by default the kernel size.
        padding: the number of samples added on each side.

    >>> import torch
    >>> C4 = Cyclic(4)
    >>> x = torch.zeros(1, 2, 2, 2)
    >>> x[0, :, 0, 1] = torch.tensor([3.0, -4.0])
    >>> NormMaxPool(Grid2d(C4).field(C4.irrep(1)), 2)(x).flatten()
    tensor([ 3., -4.])
    """

    needs_space = True

    @checked
    def __init__(
        self,
        in_type: FieldType,
        kernel_size: int | Sequence[int],
        *,
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
    ) -> None:
        require_orthogonal("NormMaxPool", in_type)
        space = require_grid("NormMaxPool", in_type)
        step = kernel_size if stride is None else stride
        window = Window.of(kernel_size, stride=step, padding=padding, dimension=space.dimension, caller="NormMaxPool")
        require_square_lattice("NormMaxPool", space)
        require_even_hand("NormMaxPool", space, window)
        claim = pointwise_claim(space)
        if isinstance(claim, Approximate):
            claim = Approximate("the longest vector jumps between neighboring windows", bound=1.0)
        super().__init__(in_type, in_type, claim)
        self.window, self._centers, self._runs = window, Centers.of(space), runs(in_type.rho)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, O = Cyclic(4), Dihedral(4), Octahedral()
        yield cls(Grid2d(D4).field(2 * D4.irrep(1) + D4.regular + D4.trivial), 2)
        yield cls(Grid2d(C4).field(C4.irrep(1)), 3, stride=2, padding=1)
        yield cls(Grid3d(O).field(O.irreps[3]), 2)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.output_sizes(x.shape[2:])
        return self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        w = self.window
        longest = join([part.square().sum(2) for part in split(x, self._runs)])
        sizes, indices = _MAXIMUM[w.dimension](longest, w.kernel_size, w.stride, w.before, return_indices=True)
        start, out = 0, []
        for run, part in zip(self._runs, split(x, self._runs), strict=True):
            places = indices[:, start : start + run.count].flatten(2).unsqueeze(2).expand(-1, -1, run.dim, -1)
            out.append(part.flatten(3).gather(3, places).flatten(1, 2))
            start += run.count
        picked = join(out)
        return picked.reshape(picked.shape[0], picked.shape[1], *(sizes.shape[2 + axis] for axis in range(w.dimension)))

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output; an error if the windows would not be symmetric."""
        return placed("NormMaxPool", self.window, sizes, self._centers)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """The stride, if it divides the size of a periodic field."""
        return self.window.shift_step(sizes)

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        """Where no window sees padding."""
        return self.window.interior(sizes)
