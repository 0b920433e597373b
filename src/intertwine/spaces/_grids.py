"""The line, the plane and 3-space by name."""

from __future__ import annotations

from typing import Literal

import torch

from .._checked import checked
from ..groups import O2, O3, FiniteGroup, Group, MatrixRepresentation, Representation, parse
from ._grid import Grid

Lattice = Literal["square", "hexagonal"]
_HEXAGONAL = torch.tensor([[1.0, 0.5], [0.0, 0.75**0.5]], dtype=torch.float64)


class Grid1d(Grid):
    """The line with the motions R ⋊ H, for signals ``(..., channels, length)``.

    Each element of H preserves or reverses the direction of the line. By default, the determinant of the standard
    representation decides. ``Grid1d("C1")`` has only translations; ``Grid1d("D1")`` also reverses signals.

    Args:
        stabilizer: H, or its name.
        action: a one-dimensional representation of H with values 1 and -1.

    >>> line = Grid1d("D1")
    >>> line.field("trivial").transform(torch.arange(4.0).view(1, 4), line.from_stabilizer(1))
    tensor([[3., 2., 1., 0.]])
    >>> sign = Grid1d("C2", action=line.stabilizer.irreps[1])
    >>> sign == line
    True
    """

    @checked
    def __init__(self, stabilizer: Group | str, *, action: Representation | None = None) -> None:
        stabilizer = parse(stabilizer) if isinstance(stabilizer, str) else stabilizer
        super().__init__(
            stabilizer,
            dimension=1,
            action=action,
            default=_orientation(stabilizer),
            lattice_basis=torch.eye(1, dtype=torch.float64),
            name=f"Grid1d({stabilizer.name})",
        )


def _orientation(group: Group) -> Representation | None:
    """The sign of the determinant of the standard representation; None if the group has no standard representation."""
    standard: Representation | None = getattr(group, "standard", None)
    if isinstance(group, O2 | O3):
        return group.irrep(0, -1)
    if standard is None or not isinstance(group, FiniteGroup):
        return None if standard is None else group.trivial
    signs = torch.linalg.det(standard.matrices).sign()
    return group.trivial if bool((signs > 0).all()) else MatrixRepresentation(group, signs[:, None, None], name="sign")


class Grid2d(Grid):
    """The plane with the motions R² ⋊ H, H ≤ O(2), sampled on the square or the hexagonal lattice.

    Args:
        stabilizer: H, or its name, such as ``"D4"``.
        action: a two-dimensional orthogonal representation of H; default: the standard one.
        lattice: the lattice on which images are sampled.

    >>> from intertwine.groups import Cyclic
    >>> C4 = Cyclic(4)
    >>> plane = Grid2d(C4)
    >>> f = torch.arange(9.0, dtype=torch.float64).reshape(1, 3, 3)
    >>> quarter = plane.motion([0, 0], 1)
    >>> torch.equal(plane.field(C4.trivial).transform(f, quarter), torch.rot90(f, 1, (-2, -1)))
    True
    """

    @checked
    def __init__(
        self, stabilizer: Group | str, *, action: Representation | None = None, lattice: Lattice = "square"
    ) -> None:
        stabilizer = parse(stabilizer) if isinstance(stabilizer, str) else stabilizer
        self.lattice = lattice
        super().__init__(
            stabilizer,
            dimension=2,
            action=action,
            default=getattr(stabilizer, "standard", None),
            lattice_basis=torch.eye(2, dtype=torch.float64) if lattice == "square" else _HEXAGONAL,
            name=f"Grid2d({stabilizer.name})" if lattice == "square" else f"Grid2d({stabilizer.name}, hexagonal)",
        )


class Grid3d(Grid):
    """3-space with the motions R³ ⋊ H, H ≤ O(3), sampled on the cubic lattice.

    Groups of the plane can act about an axis, as in the example.

    Args:
        stabilizer: H, or its name, such as ``"Oh"``.
        action: a three-dimensional orthogonal representation of H; default: the standard one.

    >>> from intertwine.groups import SO2
    >>> Grid3d(SO2(), action=SO2().about_axis("z"))
    Grid3d(SO(2), about z)
    """

    @checked
    def __init__(self, stabilizer: Group | str, *, action: Representation | None = None) -> None:
        stabilizer = parse(stabilizer) if isinstance(stabilizer, str) else stabilizer
        super().__init__(
            stabilizer,
            dimension=3,
            action=action,
            default=getattr(stabilizer, "standard", None),
            lattice_basis=torch.eye(3, dtype=torch.float64),
            name=f"Grid3d({stabilizer.name})",
        )
