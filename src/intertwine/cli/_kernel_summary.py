"""What ``intertwine kernels`` prints about a basis, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..groups import FiniteGroup, Subgroup
    from ..kernels import DoubleCoset, OrbitKernels, SteerableKernelBasis
    from ..spaces import FieldType

_ELEMENTS_SHOWN = 12


def summary_of(
    group: FiniteGroup, basis: OrbitKernels, stabilizers: tuple[Subgroup, Subgroup] | None
) -> dict[str, Any]:
    """Everything that the command prints, in the form of --json."""
    from ..kernels import realizations

    fiber = stabilizers[0] if stabilizers is not None else group
    return {
        "group": group.name,
        "order": group.order,
        "subgroup": _described(stabilizers[0]) if stabilizers is not None else None,
        "out_subgroup": _described(stabilizers[1]) if stabilizers is not None else None,
        **_filter_size(basis),
        "types": {"in": _described_type(basis.in_type), "out": _described_type(basis.out_type)},
        "dimension": basis.dim,
        "mackey": basis.mackey_dim,
        "residual": basis.residual,
        "double_cosets": [_described_coset(group, coset, fiber.order) for coset in basis.double_cosets],
        "realizations": [
            {"on": each.on, "points": each.points, "numbers": each.numbers, "dimension": each.dimension}
            for each in realizations(basis)
        ],
    }


def steerable_summary(basis: SteerableKernelBasis) -> dict[str, Any]:
    """The same for a group that does not map the lattice to itself: its double cosets are radii, sampled on rings."""
    return {
        "group": basis.group.name,
        "order": getattr(basis.group, "order", None),
        "subgroup": None,
        "out_subgroup": None,
        "taps": list(basis.kernel_size),
        "lattice": "square" if len(basis.kernel_size) == 2 else "cubic",
        "types": {"in": _described_type(basis.in_type), "out": _described_type(basis.out_type)},
        "dimension": basis.dim,
        "mackey": basis.mackey_dim,
        "residual": basis.residual,
        "double_cosets": [
            {
                "radius": shell.ring.radius,
                "width": shell.ring.sigma,
                "band_limit": shell.ring.band_limit,
                "kernels": shell.dim,
            }
            for shell in basis.double_cosets
        ],
        "realizations": [],
    }


def _described(subgroup: Subgroup) -> dict[str, Any]:
    return {
        "name": subgroup.name,
        "order": subgroup.order,
        "elements": subgroup.embedding.tolist(),
        "text": elements_of(subgroup),
    }


def elements_of(subgroup: Subgroup) -> str:
    """The labels of a subgroup's elements, at most twelve."""
    labels = [subgroup.label(h) for h in range(min(subgroup.order, _ELEMENTS_SHOWN))]
    return "{" + ", ".join(labels) + (", ...}" if subgroup.order > _ELEMENTS_SHOWN else "}")


def _described_type(field: FieldType) -> dict[str, Any]:
    return {"space": field.space.name, "representation": field.rho.name, "dim": field.dim}


def _filter_size(basis: OrbitKernels) -> dict[str, Any]:
    from ..kernels import LatticeKernelBasis
    from ..spaces import Grid2d

    if not isinstance(basis, LatticeKernelBasis):
        return {"taps": None, "lattice": None}
    lattice = basis.space.lattice if isinstance(basis.space, Grid2d) else "cubic"
    return {"taps": list(basis.kernel_size), "lattice": lattice}


def _described_coset(group: FiniteGroup, coset: DoubleCoset, fiber: int) -> dict[str, Any]:
    point = coset.representative
    if not isinstance(point, int):
        point = tuple(c + 0.0 for c in point)  # turns -0.0 into 0.0
    return {
        "representative": point if isinstance(point, int) else list(point),
        "label": group.label(point) if isinstance(point, int) else f"({', '.join(f'{c:g}' for c in point)})",
        "points": coset.points,
        "elements": coset.points * fiber,
        "stabilizer_order": coset.stabilizer_order,
        "kernels": coset.dim,
    }
