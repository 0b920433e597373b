"""Nonlinearities on fields whose values are functions on the group, a circle or a sphere, given by coefficients.

A field of type n (ψ0 + ψ1 + …) with the right multiplicities stores n functions by their Fourier coefficients. The
layer evaluates them at points, applies a nonlinearity there, and expands the result again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import pi, sqrt

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import checked
from ..._devices import on_cpu
from ...errors import InputError, NumericalError, TypeMismatchError
from ...groups import (
    O2,
    O3,
    SO2,
    SO3,
    CompactLieGroup,
    Cyclic,
    Dihedral,
    FiniteGroup,
    Group,
    Octahedral,
    Representation,
    Symmetric,
    degree_of,
    direct_sum,
    wigner_d,
)
from ...spaces import FieldType, Grid2d, Grid3d, HomogeneousSpace, Sphere
from .._layer import Approximate, Exact, Layer, Strict, pointwise_claim, register_layer
from .._traced import TracedLayer
from ..basis._hom import endomorphisms
from ..basis._mix import Mix, mix, mixing
from ..basis._tables import TableModule


@checked
def band_limited_regular(group: Group, degree: int | None = None) -> Representation:
    """Functions on the group up to a degree: each irreducible as often as in the regular representation.

    For SO(2) each irreducible occurs once, for SO(3) degree l occurs 2l+1 times. For a finite group omit ``degree``;
    the sum is the regular representation in the basis of irreducibles.

    >>> band_limited_regular(SO2(), 2)
    SO(2): trivial + irrep(1) + irrep(2)
    >>> band_limited_regular(SO3(), 1).dim, band_limited_regular(Dihedral(4)).dim
    (10, 8)
    """
    irreps = _irreps(group, degree, caller="band_limited_regular")
    return direct_sum(psi for psi in irreps for _ in range(_columns(psi, "group").shape[1]))


@checked
def band_limited_quotient(group: Group, degree: int) -> Representation:
    """Functions on the circle (for SO(2), O(2)) or the sphere (for SO(3), O(3)) up to a degree: each degree once.

    >>> band_limited_quotient(SO3(), 2), band_limited_quotient(O2(), 1)
    (SO(3): trivial + irrep(1) + irrep(2), O(2): trivial + irrep(1))
    """
    irreps = _irreps(group, degree, caller="band_limited_quotient")
    quotient = [psi for psi in irreps if _columns(psi, "quotient").shape[1]]
    if isinstance(group, FiniteGroup):
        raise InputError(
            "band_limited_quotient",
            expected="SO2(), O2(), SO3() or O3()",
            got=group.name,
            fix="For a finite group use G.quotient(H), with a pointwise nonlinearity.",
        )
    return direct_sum(quotient)


def _irreps(group: Group, degree: int | None, *, caller: str) -> Sequence[Representation]:
    if isinstance(group, FiniteGroup) and degree is None:
        return group.irreps
    if isinstance(group, CompactLieGroup) and isinstance(degree, int) and degree >= 0:
        return group.irreps_up_to(degree)
    raise InputError(
        caller,
        expected="a compact Lie group with a degree of at least 0, or a finite group without one",
        got=f"{group.name} with degree {degree!r}",
        fix="For example, SO2() with degree 3, or Cyclic(8) without.",
    )


_MAX_ORBITS = 64
_MIN_NORM = 0.05
"""The squared norm on the samples below which samples miss a function of norm 1."""


# -- functions ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
@on_cpu
def _columns(psi: Representation, domain: str) -> Tensor:
    """Vectors v, ``(d, m)``, for which the functions g ↦ u·ψ(g)v with all u are orthogonal and span ψ's part.

    On the group: as many v as there are copies of ψ, and no map ψ → ψ takes one to another. On the quotient by K: the v
    that K fixes.
    """
    if domain == "quotient" and not isinstance(psi.group, SO2):  # the circle is SO(2) itself
        fixed = psi(_stabilizer(psi.group, degree_of(psi))).mean(0)
        values, vectors = torch.linalg.eigh((fixed + fixed.T) / 2)
        columns = vectors[:, values > 0.5]
        return columns * columns.sum(0).sign()  # fixes the sign, which eigh leaves open
    maps = endomorphisms(psi) * sqrt(psi.dim)
    taken = torch.zeros(psi.dim, 0, dtype=torch.float64)
    chosen: list[Tensor] = []
    for v in torch.eye(psi.dim, dtype=torch.float64):
        v = v - taken @ (taken.T @ v)
        if float(v.norm()) > 0.5 / sqrt(psi.dim):  # some unit vector is at least that far from any subspace
            v = v / v.norm()
            chosen.append(v)
            taken = torch.cat([taken, (maps @ v).T], 1)
    return torch.stack(chosen, 1)


def _stabilizer(group: Group, degree: int) -> Tensor:
    """Elements of the subgroup that fixes a point of the circle or the sphere, enough to average over it."""
    if isinstance(group, SO3 | O3):
        turns = group.embed(SO2(), SO2().haar_quadrature(degree)[0])
        mirror = torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64).diag()
        return torch.cat([turns, turns @ mirror]) if isinstance(group, O3) else turns
    return group.component_representatives if isinstance(group, O2) else torch.zeros(1, dtype=torch.int64)


@on_cpu
def _evaluation(kinds: Sequence[Representation], domain: str, elements: Tensor) -> Tensor:
    """Orthonormal functions at elements of the group, ``(elements, D)``."""
    blocks = []
    for psi in kinds:
        values = psi(elements) @ _columns(psi, domain) * sqrt(psi.dim)  # (elements, d, m)
        blocks.append(values.transpose(1, 2).flatten(1))
    return torch.cat(blocks, 1)


# -- samples -----------------------------------------------------------------------------------------------------


def _symmetry(group: CompactLieGroup) -> Tensor:
    """The elements that map the square or the cubic lattice to itself."""
    if isinstance(group, SO2 | O2):
        turns = group.exp(torch.arange(4, dtype=torch.float64)[:, None] * (pi / 2)).round() + 0.0
    else:
        turns = Octahedral().standard(torch.arange(24))  # type: ignore[misc]
    both = len(group.component_representatives) > 1
    return torch.cat([c @ turns for c in group.component_representatives]) if both else turns


def _unit(group: CompactLieGroup, domain: str) -> int:
    """The number that must divide the number of samples."""
    return 4 if isinstance(group, O2) and domain == "quotient" else len(_symmetry(group))


@lru_cache(maxsize=64)
@on_cpu
def _sample(group: CompactLieGroup, domain: str, samples: int) -> tuple[Tensor, Tensor]:
    """Elements of the group, a set that the motions of the lattice permute, and weights of sum 1.

    In the plane, equally spaced rotations. In space, orbits of the motions on the sphere, with weights that integrate
    exactly up to the largest possible degree; on the group, each of them followed by equally spaced rotations about the
    pole.
    """
    if isinstance(group, SO2 | O2):
        n = samples if domain == "quotient" or isinstance(group, SO2) else samples // 2
        turns = group.exp(torch.arange(n, dtype=torch.float64)[:, None] * (2 * pi / n))
        elements = torch.cat([turns, turns @ group.component_representatives[1]]) if samples > n else turns
        return elements, torch.full((samples,), 1 / samples, dtype=torch.float64)
    if domain == "quotient":
        elements, weights, _ = _on_the_sphere(group, samples // len(_symmetry(group)))
        return elements, weights
    orbits = samples // len(_symmetry(group))
    m, exact = orbits, -1
    for r in (r for r in range(1, orbits + 1) if orbits % r == 0):
        turns_allow = orbits // r - 1  # the frequency up to which this many rotations integrate exactly
        if turns_allow <= exact:
            break
        exact, m = max((exact, m), (min(_on_the_sphere(SO3(), r)[2], turns_allow), orbits // r))
    elements, weights, _ = _on_the_sphere(SO3(), orbits // m)
    turns = SO3().embed(SO2(), SO2().haar_quadrature(m - 1)[0])
    elements, weights = (elements[:, None] @ turns).flatten(0, 1), (weights / m).repeat_interleave(m)
    components = group.component_representatives
    return torch.cat([c @ elements for c in components]), weights.repeat(len(components)) / len(components)


@lru_cache(maxsize=64)
@on_cpu
def _on_the_sphere(group: CompactLieGroup, orbits: int) -> tuple[Tensor, Tensor, int]:
    """Elements that map the pole to points of the sphere, their weights, and the degree up to which these are exact."""
    symmetry, best, highest = _symmetry(group), None, -1
    for shift in range(max(4, 64 // orbits)):  # some shifts reach a higher degree; few orbits are cheap
        elements = (symmetry[:, None] @ _spiral(orbits, shift)).transpose(0, 1)  # (orbits, symmetries, 3, 3)
        weights, exact = _weights(elements)
        if exact > highest:
            best, highest = (elements.flatten(0, 1), (weights / len(symmetry)).repeat_interleave(len(symmetry))), exact
    if best is None:
        raise NumericalError("FourierNonlinearity", expected="weights", got="none", fix="Report this as a bug.")
    return *best, highest


def _spiral(count: int, shift: int) -> Tensor:
    """Rotations that map the pole to points on a spiral, spread evenly over the sphere."""
    k = torch.arange(count, dtype=torch.float64) + 0.5
    z = 1 - 2 * ((k / count + 0.1234 * (shift + 1)) % 1)
    return SO3().from_euler(k * (pi * (3 - sqrt(5))) + 0.1234 * (shift + 1), z.acos(), torch.zeros_like(z))


def _weights(orbits: Tensor) -> tuple[Tensor, int]:
    """Positive weights of the orbits, and the largest degree up to which they integrate exactly.

    The constraints are the means of all harmonics over the orbits. Of all weights that satisfy them, this returns those
    closest to equal weights.
    """
    r = len(orbits)
    equal = weights = torch.full((r,), 1 / r, dtype=torch.float64)
    rows, exact = [torch.ones(1, r, dtype=torch.float64)], 0
    for degree in range(1, 40):
        rows.append(wigner_d(degree, orbits)[..., degree].mean(1).T)
        constraints = torch.cat(rows)
        excess = constraints @ equal
        excess[0] -= 1
        candidate = equal - torch.linalg.pinv(constraints, rtol=1e-10) @ excess
        if float((constraints @ candidate)[1:].abs().max()) > 1e-11 or float(candidate.min()) < 0.05 / r:
            break
        weights, exact = candidate, degree
    return weights, exact


# -- the layer ---------------------------------------------------------------------------------------------------


@register_layer
class FourierNonlinearity(TracedLayer):
    """Evaluates the functions that a field holds at points, applies φ to the values, and expands the result again.

    The type holds n functions f by their coefficients: each irreducible ψ as often as n functions on the group
    have it (:func:`band_limited_regular`), or n functions on the circle or the sphere (:func:`band_limited_quotient`),
    in any order; the k-th copies belong together. The layer is c ↦ B φ(A c), where A holds the values of orthonormal
    functions at the samples and B is its weighted pseudoinverse.

    Shapes: any input of ``in_type`` to the same shape. Equivariance: exact for a finite group, whose elements are the
    samples: it is a pointwise function on the regular representation in another basis. For a Lie group it is
    exact for the motions of the lattice, which permute the samples (and for all rotations by 360°/samples in the
    plane). For other elements it is approximate, because φ(f) has all degrees and samples alias high ones to low ones;
    more samples make the error smaller.

    Args:
        in_type: fields that hold functions, as described above.
        function: φ, an elementwise torch module; by default ``torch.nn.ELU()``.
        samples: the number of samples; for a Lie group a multiple of 4 in the plane (8 on the group O(2)), of 24 in
            space (48 for O(3)).

    >>> so2 = SO2()
    >>> layer = FourierNonlinearity(Grid2d(so2).field(8 * band_limited_regular(so2, 3)))
    >>> layer.samples, layer(torch.randn(1, 56, 5, 5)).shape
    (28, torch.Size([1, 56, 5, 5]))
    """

    @checked
    def __init__(
        self, in_type: FieldType, function: torch_nn.Module | None = None, *, samples: int | None = None
    ) -> None:
        caller, group = "FourierNonlinearity", in_type.space.stabilizer
        kinds, domain, channels = _functions(caller, in_type.rho)
        copies, size = channels.shape
        values, back = _transform(caller, group, kinds, domain, samples)
        super().__init__(in_type, in_type, _claim(in_type, domain, len(values)))
        self.samples, self._shape = len(values), (copies, size)
        self.tables = TableModule()
        self.tables.register_table("values", values)
        self.tables.register_table("back", back)
        order = channels.flatten()
        self._sorts = not torch.equal(order, torch.arange(len(order), device="cpu"))
        if self._sorts:
            self.tables.register_table("order", order)
            self.tables.register_table("reversed", torch.argsort(order))
        self.function = torch_nn.ELU() if function is None else function

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C3, C4, D4, O, G = Cyclic(3), Cyclic(4), Dihedral(4), Octahedral(), Symmetric(3)
        so2, o2, so3, o3 = SO2(), O2(), SO3(), O3()
        H = G.subgroup([1])
        yield cls(Grid2d(D4).field(2 * band_limited_regular(D4)))
        yield cls(Grid2d(C4).field(C4.irrep(1) + C4.trivial), torch_nn.SiLU())
        yield cls(Grid3d(O).field(band_limited_regular(O)))
        yield cls(HomogeneousSpace(G, H).field(H.irreps[1] + 2 * H.trivial + H.irreps[1]))
        yield cls(Grid2d(so2).field(so2.irrep(1) + 2 * so2.trivial + so2.irrep(1)))
        yield cls(Grid2d(o2).field(band_limited_regular(o2, 1)))
        yield cls(Grid2d(o2).field(band_limited_quotient(o2, 1)), torch_nn.Tanh())
        yield cls(Grid3d(so3).field(band_limited_quotient(so3, 1)))
        yield cls(Grid3d(o3).field(band_limited_quotient(o3, 1)))
        yield cls(Sphere().field(band_limited_regular(so2, 1)))
        yield cls(HomogeneousSpace(C3, C3).field(band_limited_regular(C3.whole)))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self._map(x, mixing(x))

    def compute(self, x: Tensor) -> Tensor:
        """The map without checks."""
        return self._map(x, mix)

    def _map(self, x: Tensor, mix: Mix) -> Tensor:
        y = x.index_select(1, self.tables.get_buffer("order")) if self._sorts else x
        y = y.unsqueeze(-1).flatten(2).unflatten(1, self._shape)  # one spatial axis, even if the input has none
        y = self.function(mix(self.tables.get_buffer("values"), y))
        y = mix(self.tables.get_buffer("back"), y).flatten(1, 2).reshape(x.shape)
        return y.index_select(1, self.tables.get_buffer("reversed")) if self._sorts else y

    def extra_repr(self) -> str:
        """The type and the number of samples."""
        return f"{self.in_type.rho}, samples={self.samples}"


@on_cpu
def _functions(caller: str, rho: Representation) -> tuple[list[Representation], str, Tensor]:
    """The irreducibles of one function, its domain, and the channels of each function ``(n, D)``."""
    places: dict[str, list[int]] = {}
    kinds: dict[str, Representation] = {}
    offset = 0
    for atom in rho.atoms:
        kinds[atom.digest] = atom
        places.setdefault(atom.digest, []).append(offset)
        offset += atom.dim
    n = len(places.get(rho.group.trivial.digest, []))
    domains = ["group", "quotient"] if isinstance(rho.group, CompactLieGroup) else ["group"]
    irreducible = all(_is_irrep(psi) for psi in kinds.values())
    for domain in domains if n and irreducible else []:
        copies = {digest: _columns(psi, domain).shape[1] for digest, psi in kinds.items()}
        if all(len(places[digest]) == n * m for digest, m in copies.items()):
            rows = [
                [
                    start + i
                    for digest, psi in kinds.items()
                    for start in places[digest][f * copies[digest] : (f + 1) * copies[digest]]
                    for i in range(psi.dim)
                ]
                for f in range(n)
            ]
            return list(kinds.values()), domain, torch.tensor(rows)
    name = rho.group.name
    finite = isinstance(rho.group, FiniteGroup)
    maker = "band_limited_regular(H)" if finite else "band_limited_regular(H, L) or band_limited_quotient(H, L)"
    raise TypeMismatchError(
        caller,
        expected=f"a sum of irreducibles of {name} in which each occurs as often as functions on the group have it",
        got=rho.name,
        fix=f"Make it with {maker}; ToIrreps maps a regular type to it. "
        + ("Pointwise fits permutation types; " if finite else "")
        + "NormNonlinearity and Gated fit other types.",
    )


@on_cpu
def _transform(
    caller: str, group: Group, kinds: Sequence[Representation], domain: str, samples: int | None
) -> tuple[Tensor, Tensor]:
    """A ``(samples, D)`` and B ``(D, samples)``, scaled to give white noise values of variance 1."""
    if isinstance(group, CompactLieGroup):
        elements, weights = _sample(group, domain, _checked_samples(caller, group, kinds, domain, samples))
    else:
        elements = group.elements
        weights = torch.full((len(elements),), 1 / len(elements), dtype=torch.float64)
        if samples not in (None, len(elements)):
            raise InputError(
                caller,
                expected=f"the {len(elements)} elements of {group.name} as samples",
                got=f"samples={samples!r}",
                fix="Omit samples.",
            )
    values = _evaluation(kinds, domain, elements)
    weighted = values.T * weights
    gram = weighted @ values  # the identity if products of two functions are integrated exactly
    if float(torch.linalg.eigvalsh(gram)[0]) < _MIN_NORM:
        raise InputError(
            caller,
            expected=f"samples that tell the {len(gram)} functions on {group.name} apart",
            got=f"samples={len(values)}",
            fix=f"Use {2 * len(values)} or more, or omit samples.",
        )
    scale = sqrt(len(gram))
    return values / scale, torch.linalg.solve(gram, weighted) * scale


@on_cpu
def _is_irrep(psi: Representation) -> bool:
    group = psi.group
    if isinstance(group, FiniteGroup):
        return psi in group.irreps
    return isinstance(group, CompactLieGroup) and psi in group.irreps_up_to(degree_of(psi))


def _checked_samples(
    caller: str, group: CompactLieGroup, kinds: Sequence[Representation], domain: str, samples: int | None
) -> int:
    """The given number; by default one for which the error of ELU is at most a few percent."""
    unit, size = _unit(group, domain), sum(psi.dim * _columns(psi, domain).shape[1] for psi in kinds)
    if samples is None and domain == "group" and isinstance(group, SO3 | O3):
        needed = 2 * max(degree_of(psi) for psi in kinds) + 1  # integrates products of two functions exactly
        orbits = next((r for r in range(1, _MAX_ORBITS) if _on_the_sphere(SO3(), r)[2] >= needed), _MAX_ORBITS)
        return unit * orbits * (needed + 1)
    if samples is None:
        per_function = 16 if isinstance(group, O3) else 8 if isinstance(group, SO3) else 4
        return unit * -(-per_function * size // unit)
    if not isinstance(samples, int) or samples % unit or samples < size:
        least = unit * -(-size // unit)
        raise InputError(
            caller,
            expected=f"samples, a multiple of {unit} (motions of the lattice permute them) of at least {least}",
            got=repr(samples),
            fix=f"For example samples={2 * least}.",
        )
    return samples


def _claim(in_type: FieldType, domain: str, samples: int) -> Strict:
    claim, group = pointwise_claim(in_type.space), in_type.space.stabilizer
    if isinstance(group, FiniteGroup):
        return claim
    what = group.name if domain == "group" else "a circle" if isinstance(group, O2) else "a sphere"
    because = f"functions on {what} are evaluated at {samples} points"
    if isinstance(claim, Exact):
        return Approximate(because)
    return Approximate(f"{claim.because}; {because}", bound=claim.bound + 0.05)
