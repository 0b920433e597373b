"""The one-point space G/G: a group multiplies vectors by its matrices."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .._checked import checked
from .._digest import content_digest
from ..errors import InputError
from ..groups import Element, Group, Representation, parse
from ._space import Space


class Point(Space):
    """The homogeneous space G/G: a single point, 0, which every element fixes.

    The stabilizer is G itself, so a field is a vector ``(..., dim)`` in the space of a representation of G, and
    π(g)f = rho(g) f. Use it for features without a position: coordinates, latent variables, invariant outputs.

    Args:
        group: G, finite or Lie, or its name.

    >>> import torch
    >>> vectors = Point("SO(2)").field("irrep1")
    >>> quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    >>> vectors.transform(torch.tensor([[1.0, 0.0]]), quarter)
    tensor([[0., 1.]])
    """

    @checked
    def __init__(self, group: Group | str) -> None:
        group = parse(group) if isinstance(group, str) else group
        self.group = self.stabilizer = self.compact_group = group
        self.name = f"Point({group.name})"
        self.digest = content_digest("point", group.digest)

    # -- the space ---------------------------------------------------------------------------------------------

    @checked
    def compose(self, a: Element, b: Element) -> Element:
        return self.group.compose(a, b)

    @checked
    def inverse(self, g: Element) -> Element:
        return self.group.inverse(g)

    @checked
    def project(self, g: Element) -> int:
        return 0

    @checked
    def section(self, x: int) -> Element:
        self._require_point(x)
        return self.group.identity

    @checked
    def act(self, g: Element, x: int) -> int:
        return self._require_point(x)

    @checked
    def as_stabilizer(self, g: Element) -> Element:
        return g

    @checked
    def from_stabilizer(self, h: Element) -> Element:
        return h

    @checked
    def from_compact(self, g: Element) -> Element:
        return g

    def _require_point(self, x: Any) -> int:
        if x != 0:
            raise InputError(self.name, expected="the only point, 0", got=str(x))
        return 0

    # -- fields ------------------------------------------------------------------------------------------------

    @checked
    def transform(self, rho: Representation, f: Tensor, g: Element) -> Tensor:
        """rho(g) f for vectors ``(..., dim)``."""
        if not f.ndim or f.shape[-1] != rho.dim:
            raise InputError(
                f"transform of a field on {self.name}",
                expected=f"a tensor (..., {rho.dim})",
                got=f"shape {tuple(f.shape)}",
            )
        matrix = rho(g)
        if matrix.ndim != 2:
            raise InputError(
                f"{self.name}.transform", expected="a single element", got=f"{len(matrix)}", fix="Loop over g."
            )
        return f @ matrix.to(f).mT
