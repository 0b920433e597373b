"""The classification of published equivariant networks by (G, H, ρ), with the class of ours that builds each row.

A row that this package can build has a check: a function that builds two field types, solves for the kernels, counts
them from characters, and measures whether the resulting map commutes with motions of the lattice and with random
elements of the row's group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..._checked import checked
from ...groups import O2, SO2, SO3, Cyclic, Dihedral, Octahedral
from ...kernels import (
    HermiteKernelBasis,
    KernelBasis,
    LatticeKernelBasis,
    RotatedKernelBasis,
    SphereKernelBasis,
    SteerableKernelBasis,
)
from ...spaces import Grid1d, Grid2d, Grid3d
from ._checks import Check as Check
from ._checks import at_a_point, on_a_grid, on_cosets, on_points, on_scales, on_the_sphere, on_tuples


@checked
@dataclass(frozen=True)
class Row:
    """One kind of network: features that are fields of type ρ on G/H.

    Attributes:
        group: G.
        stabilizer: H.
        base: the homogeneous space G/H.
        rho: the representation of H that the features carry.
        papers: the publications.
        builder: the class in this package that builds its kernels, or the reason that there is none.
        layer: the layer that applies them.
        trained_by: the experiment (with its rows), the example or the page that trains such a network.
        check: builds and measures one instance; None for a row that this package cannot build.
    """

    group: str
    stabilizer: str
    base: str
    rho: str
    papers: str
    builder: str
    layer: str
    trained_by: str
    check: Callable[[], Check] | None


LATTICE, STEERABLE = LatticeKernelBasis.__name__, SteerableKernelBasis.__name__
ROTATED = RotatedKernelBasis.__name__
SPHERE, FINITE, HERMITE = SphereKernelBasis.__name__, KernelBasis.__name__, HermiteKernelBasis.__name__
_NOT_BUILT = ("–", "–", None)


def classification() -> tuple[Row, ...]:
    """The table: appendix D of Cohen, Geiger & Weiler (2019), and some later networks."""
    return (*_on_the_line(), *_on_the_plane(), *_in_space(), *_on_the_sphere(), *_on_finite_sets(), *_at_a_point())


def _on_the_line() -> list[Row]:
    line = Grid1d("D1")
    regular = line.field("regular").rho
    return [
        Row(
            *("Z⋊{±1}", "{±1}", "Z", "any", "signals; Cohen et al. 2019", LATTICE, "Conv1d", "examples/signals.py"),
            on_a_grid(line, regular, regular + line.field("irrep(0,-1)").rho, 1),
        )
    ]


def _on_the_plane() -> list[Row]:
    c1, c4, d4, d6, c8 = Cyclic(1), Cyclic(4), Dihedral(4), Dihedral(6), Cyclic(8)
    so2, o2 = SO2(), O2()
    square, mirrored, hexagonal, ring = Grid2d(c4), Grid2d(d4), Grid2d(d6, lattice="hexagonal"), Grid2d(c8)
    quarter = so2.from_angle(torch.pi / 2)
    steerable_in = c4.irrep(1) + c4.quotient(c4.subgroup([2]))
    frequencies = so2.irrep(0) + so2.irrep(1)
    any_o2 = o2.irrep(0, -1) + o2.irrep(2)
    digits = "rotated-mnist"
    return [
        Row(
            *("Z²", "{e}", "Z²", "trivial", "LeCun et al. 1990", LATTICE, "Conv2d", "lenet (lenet5)"),
            on_a_grid(Grid2d(c1), c1.trivial, c1.trivial, 0),
        ),
        Row(
            *("p4, p4m", "C4, D4", "Z²", "regular", "Cohen & Welling 2016; Dieleman et al. 2016", LATTICE),
            *("Conv2d", f"{digits} (c4, d4)"),
            on_a_grid(mirrored, d4.regular, d4.regular, 5),
        ),
        Row(
            *("p4, p4m", "C4, D4", "Z²", "any", "Cohen & Welling 2017", LATTICE, "Conv2d", f"{digits} (c4-types)"),
            on_a_grid(square, steerable_in, c4.irrep(1) + c4.irrep(2), 1),
        ),
        Row(
            *("p6, p6m", "C6, D6", "hexagonal", "regular", "Hoogeboom et al. 2018", f"{LATTICE} (hexagonal)"),
            *("Conv2d", f"{digits} (c6-hexagonal)"),
            on_a_grid(hexagonal, d6.regular, d6.regular, 7),
        ),
        Row(
            *("R²⋊C_N", "C_N", "R²", "regular", "Zhou et al. 2017; Bekkers et al. 2018", f"{ROTATED} (free filters)"),
            *("Conv2d", f"{digits} (c8-free)"),
            on_a_grid(ring, c8.regular, c8.regular, 2, free=True),
        ),
        Row(
            *("R²⋊C_N", "C_N", "R²", "regular", "Weiler et al. 2018", STEERABLE, "Conv2d", f"{digits} (c8)"),
            on_a_grid(ring, c8.regular, c8.regular, 2),
        ),
        Row(
            *("R²⋊C_N", "C_N", "R²", "vector", "Marcos et al. 2017", STEERABLE),
            *("Conv2d, OrientationPool", f"{digits} (c8-vectors)"),
            on_a_grid(ring, c8.irrep(1), c8.regular, 2),
        ),
        Row(
            *("SE(2)", "SO(2)", "R²", "irreducible", "Worrall et al. 2017", STEERABLE, "Conv2d", f"{digits} (so2)"),
            on_a_grid(Grid2d(so2), frequencies, so2.irrep(1) + so2.irrep(2), quarter),
        ),
        Row(
            *("E(2)", "O(2), subgroups", "R²", "any", "Weiler & Cesa 2019", STEERABLE, "Conv2d", f"{digits} (o2)"),
            on_a_grid(Grid2d(o2), any_o2, o2.irrep(1) + o2.irrep(0), quarter),
        ),
        Row(
            *("R²⋊R⁺", "R⁺", "R²", "regular"),
            "Worrall & Welling 2019; Ghosh & Gupta 2019; Sosnovik et al. 2020",
            f"{HERMITE} (sampled scales)",
            *("ScaleLift2d, ScaleConv2d", "examples/scaled_digits.py"),
            on_scales(order=2),
        ),
    ]


def _in_space() -> list[Row]:
    o, so3 = Octahedral(), SO3()
    degrees = so3.irrep(0) + so3.irrep(1)
    quarter = so3.exp(torch.tensor([0.0, 0.0, torch.pi / 2], dtype=torch.float64)).round()
    return [
        Row(
            *("Z³⋊O", "O, subgroups", "Z³", "regular", "Winkels & Cohen 2018; Worrall & Brostow 2018", LATTICE),
            *("Conv3d", "tetris (octahedral)"),
            on_a_grid(Grid3d(o), o.regular, o.trivial, 7),
        ),
        Row(
            *("SE(3)", "SO(3)", "R³", "irreducible", "Weiler et al. 2018", STEERABLE, "Conv3d", "tetris (so3)"),
            on_a_grid(Grid3d(so3), degrees, degrees + so3.irrep(2), quarter),
        ),
        Row(
            *("SE(3), E(3)", "SO(3), O(3)", "R³, points", "irreducible"),
            *("Thomas et al. 2018; Kondor 2018; Anderson et al. 2019", "PointConv", "PointConv"),
            "tetris (cloud); nbody (moving); molecules",
            on_points(degrees, degrees + so3.irrep(2)),
        ),
    ]


def _on_the_sphere() -> list[Row]:
    so2 = SO2()
    regular = so2.irrep(0) + so2.irrep(1) + so2.irrep(2)  # functions on SO(2) below frequency 3
    digits = "spherical-digits"
    return [
        Row(
            *("SO(3)", "SO(2)", "S²", "trivial", "Esteves et al. 2018; Perraudin et al. 2018", SPHERE),
            *("SphereConv", f"{digits} (scalars-upright)"),
            on_the_sphere(so2.trivial, so2.trivial),
        ),
        Row(
            *("SO(3)", "SO(2)", "S²", "regular", "Cohen et al. 2017, 2018", f"{SPHERE} (band-limited)"),
            *("SphereConv", f"{digits} (spherical-upright)"),
            on_the_sphere(so2.trivial, regular),
        ),
        Row(
            *("SO(3)", "SO(2)", "S²", "irreducible", "Kondor et al. 2018; Esteves et al. 2020", SPHERE),
            *("SphereConv", f"{digits} (spins-upright)"),
            on_the_sphere(so2.irrep(0) + so2.irrep(1), so2.irrep(1) + so2.irrep(2)),
        ),
        Row(
            *("SO(3)", "SO(2)", "S², a mesh", "trivial", "Jiang et al. 2019"),
            "not built: differential operators on a mesh, which no rotation maps to itself",
            *_NOT_BUILT,
        ),
        Row(
            *("gauges", "C6", "icosahedron", "regular", "Cohen et al. 2019 (icosahedral)"),
            "not built: equivariant to changes of gauge on a surface that is not homogeneous",
            *_NOT_BUILT,
        ),
    ]


def _on_finite_sets() -> list[Row]:
    cube = Octahedral()
    corner = cube.subgroup(elements=[g for g in range(cube.order) if _fixes_a_corner(cube, g)])
    return [
        Row(
            *("S_n", "S_{n-1}", "a set", "trivial", "Zaheer et al. 2017", "TupleLinear", "TupleLinear", "docs/sets.md"),
            on_tuples(1),
        ),
        Row(
            *("S_n", "S_n", "a point", "pairs (graphs)", "Maron et al. 2019; Kondor et al. 2018 (CCN)", "TupleLinear"),
            *("TupleLinear", "docs/sets.md"),
            on_tuples(2),
        ),
        Row(
            *("any finite", "any", "G/H", "any", "Kondor & Trivedi 2018", FINITE, "CosetLinear"),
            "docs/classification.md",
            on_cosets(cube, corner, corner.regular),
        ),
    ]


def _fixes_a_corner(cube: Octahedral, g: int) -> bool:
    corner = torch.ones(3, dtype=torch.float64)
    return bool(torch.allclose(Grid3d(cube).action(g) @ corner, corner))


def _at_a_point() -> list[Row]:
    so3 = SO3()
    rho = 2 * so3.irrep(0) + 2 * so3.irrep(1) + so3.irrep(2)
    papers = "Kondor et al. 2018 (Clebsch-Gordan nets); Finzi et al. 2021"
    return [
        Row(
            *("SO(3), any compact", "the same", "a point", "any", papers, "Linear", "Linear, TensorProduct"),
            "examples/inertia.py",
            at_a_point(rho, rho),
        )
    ]
