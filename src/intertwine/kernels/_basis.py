"""Kernels between fields on two finite homogeneous spaces of one group, written in three ways."""

from __future__ import annotations

import torch
from torch import Tensor

from .._checked import checked, describe
from ..errors import InputError, TypeMismatchError
from ..spaces import FieldType, HomogeneousSpace
from ._orbit_kernels import OrbitKernels
from ._orbits import OrbitProblem


class KernelBasis(OrbitKernels):
    r"""An orthonormal basis of the equivariant kernels from fields on G/H1 to fields on G/H2.

    The kernel of an equivariant map can be written in three ways. The methods convert between them:

    - on the group, κ(h2 g h1) = ρ2(h2) κ(g) ρ1(h1);
    - on the cosets G/H1, κ_C(h2 x) = ρ2(h2) κ_C(x) ρ1(h1(x, h2))⁻¹, where κ(g) = κ_C(gH1) ρ1(h1(g));
    - on the double cosets H2\G/H1, one matrix per representative γ, which commutes with H2 ∩ γH1γ⁻¹.

    The equation is solved on the double cosets, where it has the fewest unknowns, and extended to the others. The basis
    is orthonormal on the cosets: Σ_x ⟨κ_C(x), κ'_C(x)⟩ is 1 for equal and 0 for different basis kernels. Cosets have
    the counting measure: the map is out(x) = Σ_y κ(s2(x)⁻¹ s1(y)) f(y), and a sum over the group is divided by |H1|.
    """

    @checked
    def __init__(self, in_type: FieldType, out_type: FieldType, *, allow_empty: bool = False) -> None:
        self._in, self._out = finite_spaces(in_type, out_type)
        self.group = self._in.group
        h2 = self._out.subgroup
        problem = OrbitProblem(self._in.action[h2.embedding], self._in.cocycle_table[h2.embedding], h2.generators)
        super().__init__(in_type, out_type, problem, allow_empty=allow_empty)

    def _representative(self, point: int) -> int | tuple[float, ...]:
        return int(self._in.section(point))

    def on_group(self) -> Tensor:
        """The basis as functions on G, ``(dim, |G|, d2, d1)``."""
        self._require_room(self.dim * self.group.order, "on_group")
        return self.cosets_to_group(self.on_cosets())

    @checked
    def cosets_to_group(self, kappa: Tensor) -> Tensor:
        """κ(g) = κ_C(gH1) ρ1(h1(g)); ``(..., points, d2, d1)`` to ``(..., |G|, d2, d1)``."""
        self._require_kernel(kappa)
        g = self.group.elements
        return kappa[..., self._in.project(g), :, :] @ self.in_type.rho(self._in.remainder)

    @checked
    def group_to_cosets(self, kappa: Tensor) -> Tensor:
        """κ_C(x) = κ(s1(x))."""
        self._require_kernel(kappa, self.group.order)
        return kappa[..., self._in.subgroup.coset_representatives, :, :]

    # -- the equivariant map -----------------------------------------------------------------------------------

    @checked
    def operator(self, kappa: Tensor | None = None) -> Tensor:
        """The map on fields, ``(..., d2, points2, d1, points1)``, for a kernel or, by default, for all basis kernels.

        T(x, y) = κ(s2(x)⁻¹ s1(y)).
        """
        if kappa is None:
            self._require_room(self.dim * self.points * self._out.points, "operator")
            kappa = self.on_cosets()
        return torch.einsum("...xyab->...axby", self.cosets_to_group(kappa)[..., self._relative(), :, :])

    def transport(self) -> tuple[Tensor, Tensor]:
        """The points and twists in T(x, y) = κ_C(point) twist: point s2(x)⁻¹y, twist ρ1(h1(s2(x)⁻¹s1(y))).

        Points have shape ``(points2 * points1,)``, twists ``(points2 * points1, d1, d1)``.
        """
        g = self._relative().flatten()
        return torch.as_tensor(self._in.project(g)), self.in_type.rho(self._in.remainder[g])

    @checked
    def operator_from_group(self, kappa: Tensor) -> Tensor:
        """The map on fields for a kernel on the group, computed from its definition on Mackey functions.

        It lifts a field to the group, correlates there, (κ⋆F)(g) = (1/|H1|) Σ_g' κ(g⁻¹g') F(g'), and lowers the result.
        """
        self._require_kernel(kappa, self.group.order)
        n, d = self.points, self.in_type.dim
        basis = torch.eye(n * d, dtype=torch.float64).reshape(n * d, d, n)
        lifted = self.in_type.lift(basis)
        relative = self.group.table[self.group.inverse(self.group.elements)]
        values = torch.einsum("...ghab,ebh->...eag", kappa[..., relative, :, :], lifted) / self._in.subgroup.order
        lowered = self.out_type.lower(values)
        out = lowered.reshape(*lowered.shape[:-3], d, n, *lowered.shape[-2:])
        return torch.einsum("...byax->...axby", out)

    @checked
    def correlate(self, kappa: Tensor, f: Tensor) -> Tensor:
        """The twisted cross-correlation of a kernel on G/H1 with a field, summed term by term:

        out(x) = Σ_y κ_C(s2(x)⁻¹ y) ρ1(h1(s2(x)⁻¹ s1(y))) f(y).

        Args:
            kappa: ``(points1, d2, d1)``.
            f: ``(..., d1, points1)``.
        """
        self._require_kernel(kappa)
        if tuple(f.shape[-2:]) != (self.in_type.dim, self.points):
            raise InputError(
                f"{type(self).__name__}.correlate",
                expected=f"a field (..., {self.in_type.dim}, {self.points})",
                got=describe(f),
            )
        back = self.group.inverse(self._out.subgroup.coset_representatives)
        out = f.new_zeros(*f.shape[:-2], self.out_type.dim, self._out.points)
        s1 = self._in.subgroup.coset_representatives
        for x, u in enumerate(torch.as_tensor(back).tolist()):
            for y in range(self.points):
                g = int(self.group.compose(u, int(s1[y])))
                twist = self.in_type.rho(int(self._in.remainder[g]))
                matrix = (kappa[int(self._in.act(u, y))] @ twist).to(f.dtype)
                out[..., x] += (matrix @ f[..., y, None])[..., 0]
        return out

    def _relative(self) -> Tensor:
        """s2(x)⁻¹ s1(y) for all points, ``(points2, points1)``."""
        back = self.group.inverse(self._out.subgroup.coset_representatives)
        return self.group.table[back][:, self._in.subgroup.coset_representatives]


def finite_spaces(in_type: FieldType, out_type: FieldType) -> tuple[HomogeneousSpace, HomogeneousSpace]:
    """The two spaces; raises an error unless they are finite spaces of the same group."""
    space1, space2 = in_type.space, out_type.space
    if not isinstance(space1, HomogeneousSpace) or not isinstance(space2, HomogeneousSpace):
        raise TypeMismatchError(
            "kernels.solve",
            expected="fields on two homogeneous spaces of one finite group",
            got=f"{in_type} and {out_type}",
            fix="Build both types on HomogeneousSpace(G, H), or both on one grid or sphere.",
        )
    space1.require_same_group(space2, caller="kernels.solve")
    return space1, space2
