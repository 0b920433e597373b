"""The line, the plane and 3-space as homogeneous spaces Z^d ⋊ H / H and R^d ⋊ H / H."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import pi
from typing import NamedTuple

import torch
from torch import Tensor

from .._checked import checked, describe
from .._digest import content_digest
from .._numerics import LAW_TOLERANCE
from ..errors import InputError, RepresentationError
from ..groups import Element, FiniteGroup, Group, LieGroup, Octahedral, Representation
from ._axis_move import AxisMove
from ._resample import Border, resample
from ._space import Space


class Motion(NamedTuple):
    """The element (t, r) of R^d ⋊ H, which maps x to r x + t: first the rotation or reflection, then the translation.

    Attributes:
        translation: ``(..., d)``, in lattice units.
        rotation: an element of H.
    """

    translation: Tensor
    rotation: Element


class Grid(Space):
    """R^d with its motions (t, r), r in H, and the lattice on which fields are sampled.

    The section is s(x) = (x, identity), so the cocycle is h(x, (t, r)) = r at every point. A sampled field is
    ``(..., channels, *sizes)``. The origin is the center of the array, and rotations are about it. If H maps the
    lattice to itself (``exact``), motions permute the samples of a periodic field and the induced representation is
    exact. Otherwise the field is interpolated.

    Args:
        stabilizer: H, a group that acts on d-dimensional space.
        dimension: d.
        action: the orthogonal representation by which H acts.
        default: the action used if ``action`` is None.
        lattice_basis: a matrix whose columns are the steps of the lattice along the array's axes.
        name: the name of the space with its default action.
    """

    dimension: int

    @checked
    def __init__(
        self,
        stabilizer: Group,
        *,
        dimension: int,
        action: Representation | None,
        default: Representation | None,
        lattice_basis: Tensor,
        name: str,
    ) -> None:
        acting = action if action is not None else default
        if acting is None or acting.dim != dimension or acting.group != stabilizer:
            raise RepresentationError(
                name,
                expected=f"a group that acts on {dimension}-dimensional space",
                got=f"{stabilizer.name} acting by {acting if acting is not None else 'nothing'}",
                fix=f"Pass action=rho with rho a {dimension}-dimensional representation of {stabilizer.name}.",
            )
        _require_orthogonal(acting, caller=name)
        self.stabilizer, self.dimension, self.action, self.lattice_basis = stabilizer, dimension, acting, lattice_basis
        self.compact_group = stabilizer
        self.name = name if acting == default else f"{name[:-1]}, {acting.name})"
        self.digest = content_digest("grid", dimension, acting.digest, lattice_basis)

    # -- the space ---------------------------------------------------------------------------------------------

    @checked
    def motion(self, translation: Sequence[float] | Tensor, rotation: Element) -> Motion:
        """The motion x ↦ rotation·x + translation."""
        t = torch.as_tensor(translation, dtype=torch.float64)
        if t.shape[-1:] != (self.dimension,):
            raise InputError(
                f"{self.name}.motion",
                expected=f"{self.dimension} coordinates",
                got=f"shape {tuple(t.shape)}",
            )
        return Motion(t, rotation)

    @checked
    def compose(self, a: Motion, b: Motion) -> Motion:
        return Motion(
            self._turn(a.rotation, b.translation) + a.translation, self.stabilizer.compose(a.rotation, b.rotation)
        )

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
        return self._turn(g.rotation, x) + g.translation

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
        return (self.matrices(rotation) @ x[..., None])[..., 0]

    @checked
    def matrices(self, rotation: Element) -> Tensor:
        """The matrices of the action in lattice coordinates: integers where H maps the lattice to itself."""
        basis = self.lattice_basis
        m = torch.linalg.inv(basis) @ self.action(rotation) @ basis
        rounded = m.round()  # removes rounding errors, which lets callers compare entries exactly
        return torch.where((m - rounded).abs() < 1e-9, rounded, m) + 0.0

    @cached_property
    def exact(self) -> bool:
        """Whether H maps the lattice to itself."""
        if not isinstance(self.stabilizer, FiniteGroup):
            return False
        m = self.matrices(self.stabilizer.elements)
        return bool((m == m.round()).all())

    @cached_property
    def lattice_elements(self) -> tuple[Element, ...]:
        """The elements of H that map the lattice to itself. For a Lie group: symmetries of the square or the cube."""
        group = self.stabilizer
        candidates: list[Element] = []
        if isinstance(group, FiniteGroup):
            candidates = list(range(group.order))
        elif isinstance(group, LieGroup):
            candidates = [turn @ part for turn in _turns(group) for part in group.component_representatives]
        return tuple(h for h in candidates if self.preserves_lattice(h))

    @checked
    def preserves_lattice(self, rotation: Element) -> bool:
        """Whether an element of H maps the lattice to itself."""
        matrix = self.matrices(rotation)
        return torch.equal(matrix, matrix.round())

    # -- samples -----------------------------------------------------------------------------------------------

    @checked
    def coordinates(self, sizes: Sequence[int]) -> Tensor:
        """Lattice coordinates ``(*sizes, d)`` of the samples of an array of these sizes, with the origin at the center.

        In the plane, x increases with the columns and y decreases with the rows, which makes a rotation by 90°
        ``torch.rot90``. In 3-space, (x, y, z) increase along the last, the middle and the first axis.
        """
        if len(sizes) != self.dimension:
            raise InputError(f"{self.name}.coordinates", expected=f"{self.dimension} sizes", got=describe(sizes))
        axes = [torch.arange(n, dtype=torch.float64) - (n - 1) / 2 for n in sizes]
        mesh = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
        return self._index_to_point(mesh)

    def _index_to_point(self, index: Tensor) -> Tensor:
        point = index.flip(-1)
        if self.dimension == 2:
            point = point * torch.tensor([1.0, -1.0], dtype=point.dtype) + 0.0  # + 0.0 turns -0.0 into 0.0
        return point

    @checked
    def point_to_index(self, point: Tensor) -> Tensor:
        """Array positions relative to the center, for points in lattice coordinates ``(..., d)``.

        >>> from intertwine.spaces import Grid2d
        >>> Grid2d("C4").point_to_index(torch.tensor([1.0, 2.0]))  # right and up: rows grow downward
        tensor([-2.,  1.])
        """
        if point.shape[-1:] != (self.dimension,) or not point.is_floating_point():
            raise InputError(
                f"{self.name}.point_to_index",
                expected=f"floating point numbers (..., {self.dimension})",
                got=describe(point),
            )
        if self.dimension == 2:
            point = point * torch.tensor([1.0, -1.0], dtype=point.dtype)
        return point.flip(-1)

    @checked
    def axis_move(self, rotation: Element) -> AxisMove | None:
        """How an element of H moves samples, if it only permutes and reverses axes; None otherwise.

        >>> from intertwine.spaces import Grid2d
        >>> Grid2d("C8").axis_move(2), Grid2d("C8").axis_move(1)
        (AxisMove(order=(1, 0), flips=(True, False)), None)
        """
        if isinstance(rotation, int) and isinstance(self.stabilizer, FiniteGroup):
            self.stabilizer.require_element(rotation)
            return self._axis_moves[rotation]
        return self._axis_move(self.matrices(rotation))

    @cached_property
    def _axis_moves(self) -> tuple[AxisMove | None, ...]:
        return tuple(self._axis_move(m) for m in self.matrices(self.stabilizer.elements))

    def _axis_move(self, matrix: Tensor) -> AxisMove | None:
        """The move with this matrix on points, converted to array indices."""
        steps = torch.eye(self.dimension, dtype=matrix.dtype)
        return AxisMove.from_matrix(self.point_to_index(self._index_to_point(steps) @ matrix.mT).mT)

    @checked
    def transform(self, rho: Representation, f: Tensor, g: Motion, *, padding: Border = "circular") -> Tensor:
        """(π(t, r)f)(x) = ρ(r) f(r⁻¹(x - t)) on samples ``(..., channels, *sizes)``.

        Exact if the motion maps the lattice to itself, otherwise by cubic interpolation. ``padding`` says what lies
        outside the array; by default, fields are periodic. If the motion permutes axes, it permutes their sizes too.
        """
        g = Motion(torch.as_tensor(g.translation, dtype=torch.float64), g.rotation)
        if f.ndim <= self.dimension or f.shape[-self.dimension - 1] != rho.dim:
            raise InputError(
                f"transform of a field on {self.name}",
                expected=f"a tensor (..., {rho.dim} channels, {', '.join(['size'] * self.dimension)})",
                got=f"shape {tuple(f.shape)}",
                fix="Channels come before the spatial axes.",
            )
        return _on_channels(rho(g.rotation), self._moved(f, g, padding), self.dimension)

    def _moved(self, f: Tensor, g: Motion, padding: Border) -> Tensor:
        """f(r⁻¹(x - t)), channel by channel."""
        move = self.axis_move(g.rotation)
        if move is not None:  # permuting axes is exact and much cheaper than resampling
            f, g = move(f), Motion(g.translation, self.stabilizer.identity)
            shift = self.point_to_index(g.translation).tolist()
            if not any(shift):
                return f
            if padding == "circular" and all(step == round(step) for step in shift):
                return f.roll([round(step) for step in shift], [*range(-self.dimension, 0)])
        sizes = f.shape[-self.dimension :]
        source = self.act(self.inverse(g), self.coordinates(sizes))
        center = (torch.tensor(sizes, dtype=torch.float64) - 1) / 2
        index = self.point_to_index(source) + center
        nearest = index.round()
        if bool((index - nearest).abs().max() < 1e-9):
            return self._gather(f, nearest.long(), sizes, padding)
        return resample(f, index, border=padding)

    def _gather(self, f: Tensor, index: Tensor, sizes: Sequence[int], padding: Border) -> Tensor:
        extent = torch.tensor(list(sizes))
        wrapped = index % extent
        inside = (index == wrapped).all(-1)
        flat = torch.zeros(index.shape[:-1], dtype=torch.int64)
        for axis, n in enumerate(sizes):
            flat = flat * n + wrapped[..., axis]
        if padding == "circular" and len(torch.unique(flat)) != flat.numel():
            raise InputError(
                f"transform of a field on {self.name}",
                expected="sizes that the rotation maps to themselves, such as a square",
                got=f"sizes {tuple(sizes)}",
                fix="Use a square array, or padding='zeros'.",
            )
        if padding == "mirror":
            return resample(f, index.to(torch.float64), border=padding, interpolation="linear")
        moved = f.flatten(-self.dimension)[..., flat.flatten().to(f.device)].unflatten(-1, tuple(sizes))
        return moved if padding == "circular" else moved * inside.to(f)


def _on_channels(matrix: Tensor, f: Tensor, dimension: int) -> Tensor:
    """A matrix times the channels of ``(..., channels, *sizes)``. The identity is skipped: most images are scalars."""
    if torch.equal(matrix, torch.eye(len(matrix), dtype=matrix.dtype)):
        return f
    return torch.einsum("ij,...jp->...ip", matrix.to(f), f.flatten(-dimension)).unflatten(-1, f.shape[-dimension:])


def _turns(group: LieGroup) -> list[Tensor]:
    """The rotations of the square or the cube, as elements of a group of rotations."""
    if group.matrix_dim == 2:
        return list(group.exp(torch.arange(4, dtype=torch.float64)[:, None] * (pi / 2)))
    cube = Octahedral().standard
    return list(cube.matrices) if cube is not None and group.matrix_dim == 3 else []


def _require_orthogonal(action: Representation, *, caller: str) -> None:
    """Raise an error unless an action is orthogonal. For a Lie group, what it declares is tested at a few elements."""
    group = action.group
    complaint = None if action.is_orthogonal else "which is not orthogonal"
    if complaint is None and isinstance(group, LieGroup):
        with torch.device("cpu"), torch.no_grad():
            g, h = group.probes, group.probes.flip(0)
            a, b = action(g), action(h)
            if float((a @ a.mT - torch.eye(action.dim, dtype=a.dtype)).abs().max()) > LAW_TOLERANCE:
                complaint = "whose matrices are not orthogonal"
            elif float((action(group.compose(g, h)) - a @ b).abs().max()) > LAW_TOLERANCE:
                complaint = "which is not a homomorphism: rho(gh) differs from rho(g) rho(h)"
    if complaint is not None:
        raise RepresentationError(
            caller,
            expected=f"an orthogonal representation of {group.name} as the action",
            got=f"{action.name}, {complaint}",
            fix="Motions of a grid preserve distances: write the action in an orthonormal basis.",
        )
