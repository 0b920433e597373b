"""The base class of Lie groups. Elements are matrices; batches of elements have leading axes."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache

import torch
from torch import Tensor

from ..._checked import checked
from ...errors import InputError, SubgroupError
from .._group import Element, Group
from .._representation import Representation, require_same_group
from ..special._checks import require_shape
from ._representation import LieRepresentation

MEMBER_TOLERANCE = 1e-5
"""How far a matrix may be from the group and still count as an element. Loose enough for float32."""


class LieGroup(Group):
    """A Lie group of matrices.

    An element is a float64 tensor ``(matrix_dim, matrix_dim)``; float32 is promoted. Coordinates in the Lie algebra are
    with respect to the basis ``generators``: exp(c) = expm(Σ_a c_a generators[a]).

    Attributes:
        space_dim: the dimension n of the space R^n on which the group acts.
        matrix_dim: the size of the matrices, n for groups that fix the origin, else n + 1 (homogeneous coordinates).
        algebra_dim: the dimension of the group.
    """

    space_dim: int
    matrix_dim: int
    algebra_dim: int

    # -- what a group defines ----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def generators(self) -> Tensor:
        """A basis of the Lie algebra, ``(algebra_dim, matrix_dim, matrix_dim)``."""

    @property
    @abstractmethod
    def component_representatives(self) -> Tensor:
        """One element per connected component, the identity first.

        A linear map is equivariant if it is equivariant for the ``generators`` (through :meth:`differential`) and for
        these elements.
        """

    @abstractmethod
    def exp(self, coords: Tensor) -> Tensor:
        """The exponential of ``(..., algebra_dim)`` coordinates in the Lie algebra."""

    @abstractmethod
    def log(self, g: Element) -> Tensor:
        """The principal logarithm, ``(..., algebra_dim)``: exp(log(g)) = g, with a rotation angle of at most π.

        It is smooth except at half turns. Elements outside the identity component have no logarithm and raise an error.
        """

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """``n`` random elements, ``(n, matrix_dim, matrix_dim)``."""

    @abstractmethod
    def _complaint(self, g: Tensor) -> str | None:
        """Why matrices of the right shape are not elements; None if they are."""

    @abstractmethod
    def _embed_lie(self, subgroup: Group, h: Element) -> Tensor | None:
        """Convert an element of a Lie subgroup to an element of this group; None if ``subgroup`` is not a known one."""

    @abstractmethod
    def _embed_linear(self, m: Tensor, *, proper: bool) -> Tensor | None:
        """The elements that act on R^n by the orthogonal matrices m; None if they are not in the group."""

    # -- what follows from it ----------------------------------------------------------------------------------

    @property
    def identity(self) -> Tensor:
        return torch.eye(self.matrix_dim, dtype=torch.float64)

    @property
    def elements(self) -> Tensor:
        raise InputError(
            f"{self.name}.elements",
            expected="a group with finitely many elements",
            got=f"{self.name}, which has infinitely many",
            fix="Draw some with sample(n), or restrict to a finite subgroup: rho.restrict(H).",
        )

    @property
    def probes(self) -> Tensor:
        """A few fixed elements that generate a dense subgroup. Continuous homomorphisms that agree there are equal."""
        d = self.algebra_dim
        generic = torch.arange(1.0, (d + 1) * d + 1, dtype=torch.float64).sin().reshape(d + 1, d)
        return torch.cat([self.component_representatives, self.exp(generic)])

    @checked
    def compose(self, a: Element, b: Element) -> Tensor:
        return self.as_matrices(a, caller=f"{self.name}.compose") @ self.as_matrices(b, caller=f"{self.name}.compose")

    @checked
    def contains(self, g: Element) -> bool:
        """Whether every matrix in the batch g is an element, to 1e-5.

        >>> from intertwine.groups import SO2
        >>> SO2().contains(torch.eye(2)), SO2().contains(2 * torch.eye(2))
        (True, False)
        """
        shaped = isinstance(g, Tensor) and g.shape[-2:] == (self.matrix_dim, self.matrix_dim)
        return shaped and self._complaint(self.as_matrices(g, caller=self.name)) is None

    @checked
    def require(self, g: Element, *, caller: str) -> Tensor:
        """Convert elements to float64; raise an error if a matrix is not an element."""
        m = self.as_matrices(g, caller=caller)
        # Reading values would break the graph under torch.compile.
        complaint = None if torch.compiler.is_compiling() else self._complaint(m)
        if complaint is not None:
            raise InputError(
                caller,
                expected=f"elements of {self.name}",
                got=complaint,
                fix="Make elements with sample(n) or exp(coords).",
            )
        return m

    @checked
    def as_matrices(self, g: Element, *, caller: str) -> Tensor:
        """Convert matrices to float64, checking only their shape."""
        size, fix = self.matrix_dim, "Elements of a Lie group are matrices; see exp, log and sample."
        return require_shape(g, size, size, caller=caller, what=f"elements of {self.name}", fix=fix)

    @checked
    def as_coordinates(self, coords: Tensor) -> Tensor:
        """Convert coordinates in the Lie algebra to float64, checking their shape."""
        what, fix = "coordinates in the Lie algebra", "Their basis is the attribute generators."
        return require_shape(coords, self.algebra_dim, caller=f"{self.name}.exp", what=what, fix=fix)

    @property
    def standard(self) -> Representation:
        """The group's matrices themselves, acting on column vectors (x, y, …)."""
        orthogonal = self.matrix_dim == self.space_dim
        return LieRepresentation(
            self, _identity_map, dim=self.matrix_dim, degree=1, name="standard", is_orthogonal=orthogonal
        )

    @checked
    def embed(self, subgroup: Group, h: Element) -> Tensor:
        """Convert the element ``h`` of ``subgroup`` to an element of this group.

        Rotations of the plane become rotations of space about the z axis. A finite group is embedded by the matrices of
        its ``standard`` representation. Anything else raises an error.
        """
        if subgroup == self:
            return self.require(h, caller=f"{self.name}.embed")
        inside = self._embed_lie(subgroup, h)
        if inside is not None:
            return inside
        standard = getattr(subgroup, "standard", None)
        if isinstance(standard, Representation) and not isinstance(subgroup, LieGroup):
            proper = _is_proper(standard)
            if proper is not None and standard.dim == self.space_dim:
                inside = self._embed_linear(standard(h), proper=proper)
            if inside is not None:
                return inside
            got = f"{subgroup.name}, which acts by {_describe(standard.dim, proper)}"
        else:
            got = f"{subgroup.name}, for which no embedding is known"
        raise SubgroupError(
            f"{self.name}.embed",
            expected=f"a subgroup of {self.name}",
            got=got,
            fix="Restrict in steps (SO(3), SO(2), C_n), or build a group of motions with FiniteGroup.from_matrices.",
        )

    @checked
    def differential(self, rho: Representation) -> Tensor:
        """The matrices by which the Lie algebra acts: d/dt rho(exp(t X_a)) at t = 0 for the generators X_a.

        Returns:
            ``(algebra_dim, rho.dim, rho.dim)``.

        >>> from intertwine.groups import SO2
        >>> SO2().differential(SO2().irrep(3))
        tensor([[[ 0., -3.],
                 [ 3.,  0.]]], dtype=torch.float64)
        """
        require_same_group(f"{self.name}.differential", (self.trivial, rho))
        with torch.enable_grad():
            coords = torch.zeros(self.algebra_dim, dtype=torch.float64, requires_grad=True)
            values = rho(self.exp(coords))
            if not values.requires_grad:  # constant
                return values.new_zeros(self.algebra_dim, *values.shape)
            # The gradient is linear in the weights u of the values, and its coefficients are the derivatives we want.
            # This takes one pass per generator instead of one per matrix entry.
            u = torch.zeros_like(values, requires_grad=True)
            (gradient,) = torch.autograd.grad(values, coords, u, create_graph=True)
            along = [torch.autograd.grad(c, u, retain_graph=True, materialize_grads=True)[0] for c in gradient]
        return torch.stack(along) + 0.0  # + 0.0 turns -0.0 into 0.0


def rotation_complaint(m: Tensor, *, proper: bool) -> str | None:
    """Why matrices are not orthogonal, or not of determinant 1 if they must be proper; None if they are."""
    if m.numel() == 0:
        return None
    m = m.detach()
    if not bool(torch.isfinite(m).all()):
        return "matrices with entries that are NaN or infinite"
    eye = torch.eye(m.shape[-1], dtype=m.dtype, device=m.device)
    error = float((m.mT @ m - eye).abs().max())
    if error > MEMBER_TOLERANCE:
        return f"matrices that are not orthogonal: gᵀg differs from the identity by {error:.2g}"
    if proper and bool((torch.linalg.det(m) < 0).any()):
        return "orthogonal matrices of determinant -1, which reverse orientation"
    return None


def _identity_map(g: Tensor) -> Tensor:
    return g


def _describe(dim: int, proper: bool | None) -> str:
    kind = {True: "rotations", False: "orthogonal matrices, some of determinant -1,", None: "matrices, not orthogonal,"}
    return f"{kind[proper]} in dimension {dim}"


@lru_cache(maxsize=256)
def _is_proper(standard: Representation) -> bool | None:
    """Whether all matrices of a finite group's representation are rotations; None if some are not even orthogonal."""
    if not standard.is_orthogonal:
        return None
    return bool((torch.linalg.det(standard.matrices) > 0).all())
