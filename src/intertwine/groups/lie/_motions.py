"""The base class of groups of motions of Euclidean space."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from ..._checked import checked
from ...errors import InputError
from .._group import Element
from .._representation import Representation, require_same_group
from ..special._checks import require_vectors
from ._irreps import trivial
from ._lie_group import MEMBER_TOLERANCE, LieGroup
from ._null_space import intertwiner_count
from ._representation import LieRepresentation


class EuclideanGroup(LieGroup):
    """A group of motions x ↦ rx + t of R^n, as matrices [[r, t], [0, 1]]."""

    @property
    def component_representatives(self) -> Tensor:
        return self.identity[None]

    @property
    def trivial(self) -> LieRepresentation:
        return trivial(self)

    @checked
    def inverse(self, g: Element) -> Tensor:
        g = self.as_matrices(g, caller=f"{self.name}.inverse")
        back = self.rotation(g).mT
        return homogeneous(back, -(back @ self.translation(g)[..., None])[..., 0])

    @checked
    def rotation(self, g: Element) -> Tensor:
        """The rotation r of x ↦ rx + t, ``(..., n, n)``."""
        n = self.space_dim
        return self.as_matrices(g, caller=f"{self.name}.rotation")[..., :n, :n]

    @checked
    def translation(self, g: Element) -> Tensor:
        """The translation t of x ↦ rx + t, ``(..., n)``."""
        n = self.space_dim
        return self.as_matrices(g, caller=f"{self.name}.translation")[..., :n, n]

    @checked
    def act(self, g: Element, x: Tensor) -> Tensor:
        """The points gx = rx + t for points x ``(..., n)``."""
        x = require_vectors(x, self.space_dim, caller=f"{self.name}.act")
        return (self.rotation(g) @ x[..., None])[..., 0] + self.translation(g)

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator | None = None, *, radius: float = 1.0) -> Tensor:
        """Random elements. Rotations are uniform, translations uniform in the ball of this radius.

        The group has no finite Haar measure, so the radius is a choice.
        """

    @checked
    def intertwining_number(self, rho1: Representation, rho2: Representation) -> int:
        """The dimension of Hom_G(rho1, rho2), by solving drho2(X) A = A drho1(X) for all generators X.

        For a group that is not compact, characters do not determine it.
        """
        require_same_group(f"{self.name}.intertwining_number", (self.trivial, rho1, rho2))
        return intertwiner_count(self.differential(rho1), self.differential(rho2), caller=f"{self.name}")

    def _complaint(self, g: Tensor) -> str | None:
        n, g = self.space_dim, g.detach()
        last = self.identity.to(g.device)[n]
        if g.numel() and not float((g[..., n, :] - last).abs().max()) <= MEMBER_TOLERANCE:
            return f"matrices whose last row is not {[int(v) for v in last]}"
        if g.numel() and not bool(torch.isfinite(g).all()):
            return "matrices with entries that are NaN or infinite"
        return self._linear_complaint(g[..., :n, :n])

    @abstractmethod
    def _linear_complaint(self, r: Tensor) -> str | None:
        """Why the upper left block is not allowed; None if it is."""


def homogeneous(r: Tensor, t: Tensor) -> Tensor:
    """The matrices [[r, t], [0, 1]]."""
    batch = torch.broadcast_shapes(r.shape[:-2], t.shape[:-1])
    top = torch.cat([r.expand(*batch, *r.shape[-2:]), t.expand(*batch, t.shape[-1])[..., None]], -1)
    last = torch.eye(top.shape[-1], dtype=top.dtype, device=top.device)[-1:]
    return torch.cat([top, last.expand(*batch, 1, top.shape[-1])], -2)


def shifts(n: int) -> Tensor:
    """The generators of the translations of R^n."""
    out = torch.zeros(n, n + 1, n + 1, dtype=torch.float64)
    out[range(n), range(n), n] = 1
    return out


def ball(n: int, dim: int, radius: float, generator: torch.Generator | None, *, caller: str) -> Tensor:
    """Points uniformly distributed in a ball."""
    if not 0 <= radius < float("inf"):
        raise InputError(caller, expected="a finite radius ≥ 0", got=repr(radius))
    t = torch.randn(n, dim, dtype=torch.float64, generator=generator)
    length = torch.rand(n, 1, dtype=torch.float64, generator=generator) ** (1 / dim)
    length = length / torch.linalg.vector_norm(t, dim=-1, keepdim=True)
    points: Tensor = t * (radius * length)
    return points
