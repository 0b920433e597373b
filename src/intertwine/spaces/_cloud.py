"""Scattered points in the plane and in 3-space: fields without a grid."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._checked import Positive, checked
from .._digest import content_digest
from ..errors import InputError, RepresentationError
from ..groups import Element, Group, Representation, parse
from ._grid import Motion
from ._space import Space


class Cloud(Space):
    """R^d with its motions x ↦ r x + t, r in H, and fields that are sampled at scattered points.

    A field is a tensor ``(points, channels)``; the points are a tensor ``(points, d)`` beside it. A motion moves the
    points and multiplies the values by ρ(r), so nothing is interpolated and every motion is exact.

    Args:
        stabilizer: H, a group of rotations or of rotations and reflections, or its name.
        dimension: d.
    """

    @checked
    def __init__(self, stabilizer: Group | str, *, dimension: Positive) -> None:
        stabilizer = parse(stabilizer) if isinstance(stabilizer, str) else stabilizer
        action: Representation | None = getattr(stabilizer, "standard", None)
        self.name = f"Cloud{dimension}d({stabilizer.name})"
        if action is None or action.dim != dimension:
            raise RepresentationError(
                self.name, expected=f"a group that acts on {dimension}-dimensional space", got=stabilizer.name
            )
        self.dimension = dimension
        self.stabilizer = self.compact_group = stabilizer
        self.action = action
        self.digest = content_digest("cloud", self.dimension, action.digest)

    # -- the space ---------------------------------------------------------------------------------------------

    @checked
    def motion(self, translation: Sequence[float] | Tensor, rotation: Element) -> Motion:
        """The motion x ↦ rotation·x + translation."""
        t = torch.as_tensor(translation, dtype=torch.float64)
        if t.shape != (self.dimension,):
            raise InputError(f"{self.name}.motion", expected=f"{self.dimension} coordinates", got=str(tuple(t.shape)))
        return Motion(t, rotation)

    @checked
    def compose(self, a: Motion, b: Motion) -> Motion:
        return Motion(self.act(a, b.translation), self.stabilizer.compose(a.rotation, b.rotation))

    @checked
    def inverse(self, g: Motion) -> Motion:
        back = self.stabilizer.inverse(g.rotation)
        return Motion(-self._turn(back, g.translation), back)

    @checked
    def project(self, g: Motion) -> Tensor:
        return g.translation

    @checked
    def section(self, x: Tensor) -> Motion:
        return Motion(x, self.stabilizer.identity)

    @checked
    def act(self, g: Motion, x: Tensor) -> Tensor:
        """The points ``(..., d)`` after the motion."""
        return self._turn(g.rotation, x) + g.translation.to(x)

    @checked
    def as_stabilizer(self, g: Motion) -> Element:
        return g.rotation

    @checked
    def from_stabilizer(self, h: Element) -> Motion:
        return Motion(torch.zeros(self.dimension, dtype=torch.float64), h)

    @checked
    def from_compact(self, g: Element) -> Motion:
        return self.from_stabilizer(g)

    def _turn(self, rotation: Element, x: Tensor) -> Tensor:
        return x @ self.action(rotation).to(x).mT

    # -- fields ------------------------------------------------------------------------------------------------

    @checked
    def transform(self, rho: Representation, f: Tensor, g: Motion) -> Tensor:
        """ρ(r) f for values ``(..., channels)``. The points move as well: :meth:`act` moves them."""
        if not f.ndim or f.shape[-1] != rho.dim:
            raise InputError(
                f"transform of a field on {self.name}",
                expected=f"a tensor (points, {rho.dim})",
                got=f"shape {tuple(f.shape)}",
            )
        return f @ rho(g.rotation).to(f).mT


class Cloud2d(Cloud):
    """Points in the plane with the motions R² ⋊ H, for example ``Cloud2d("SO(2)")`` or ``Cloud2d("O(2)")``.

    >>> plane = Cloud2d("O(2)")
    >>> plane.field("3*trivial + irrep1").dim
    5
    """

    @checked
    def __init__(self, stabilizer: Group | str) -> None:
        super().__init__(stabilizer, dimension=2)


class Cloud3d(Cloud):
    """Points in space with the motions R³ ⋊ H, for example ``Cloud3d("SO(3)")`` or ``Cloud3d("O(3)")``.

    >>> space = Cloud3d("SO(3)")
    >>> quarter_turn = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    >>> space.act(space.motion([0.0, 0.0, 5.0], quarter_turn), torch.tensor([[2.0, 0.0, 0.0]]))
    tensor([[0., 2., 5.]])
    """

    @checked
    def __init__(self, stabilizer: Group | str) -> None:
        super().__init__(stabilizer, dimension=3)
