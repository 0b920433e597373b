"""The plane and 3-space: laws of motions, exact transformation of samples, interpolation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from intertwine.errors import InputError, RepresentationError
from intertwine.groups import O2, SO2, SO3, Cyclic, Dihedral, Icosahedral, Octahedral, Symmetric
from intertwine.spaces import AxisMove, Grid1d, Grid2d, Grid3d, Motion
from intertwine.testing import cocycle_residual, distance, induced_residual, mackey_residual, section_residual

PLANES = [Grid2d(Cyclic(n)) for n in (1, 2, 4, 8)] + [Grid2d(Dihedral(n)) for n in (1, 2, 4, 5)]
EXACT = [p for p in PLANES if p.exact] + [
    Grid2d(Cyclic(6), lattice="hexagonal"),
    Grid2d(Dihedral(6), lattice="hexagonal"),
]
SPACES = [Grid3d(Octahedral()), Grid3d(Octahedral(reflections=True)), Grid3d(Icosahedral())]


def motions(data, space):
    t = data.draw(st.lists(st.integers(-4, 4), min_size=space.dimension, max_size=space.dimension))
    return space.motion(t, data.draw(st.integers(0, space.stabilizer.order - 1)))


@given(st.sampled_from(PLANES + SPACES + EXACT), st.data())
@settings(max_examples=50)
def test_laws_on_functions(space, data):
    a, b, g = (motions(data, space) for _ in range(3))
    x = motions(data, space).translation
    rho = data.draw(st.sampled_from(space.stabilizer.irreps))
    field = space.field(rho)
    w = torch.randn(rho.dim, space.dimension, dtype=torch.float64)

    def f(point):
        return torch.sin(w @ point)

    h = data.draw(st.integers(0, space.stabilizer.order - 1))
    assert section_residual(space, x) == 0
    assert cocycle_residual(space, x, a, b) < 1e-10
    assert mackey_residual(field, field.lift(f), g, h) < 1e-10
    assert induced_residual(field, f, a, b, x) < 1e-10


@pytest.mark.parametrize("group", [SO2(), SO3()], ids=str)
def test_laws_with_a_lie_group(group):
    space = Grid2d(group) if group.standard.dim == 2 else Grid3d(group)
    field = space.field(group.irrep(2))
    rotations = group.sample(3, torch.Generator().manual_seed(0))
    a, b, g = (space.motion(torch.randn(space.dimension, dtype=torch.float64), r) for r in rotations)
    w = torch.randn(field.dim, space.dimension, dtype=torch.float64)
    x = torch.randn(space.dimension, dtype=torch.float64)
    assert cocycle_residual(space, x, a, b) < 1e-10
    assert mackey_residual(field, field.lift(lambda p: torch.sin(w @ p)), g, rotations[0]) < 1e-10
    assert induced_residual(field, lambda p: torch.sin(w @ p), a, b, x) < 1e-10
    assert not space.exact


@given(st.sampled_from(EXACT), st.data())
@settings(max_examples=40)
def test_samples_carry_the_induced_representation_exactly(space, data):
    size = data.draw(st.sampled_from([5, 7] if space.lattice == "hexagonal" else [4, 5, 6]))
    rho = data.draw(st.sampled_from([*space.stabilizer.irreps, space.stabilizer.regular]))
    field = space.field(rho)
    f = torch.randn(2, rho.dim, size, size, dtype=torch.float64)
    a, b = motions(data, space), motions(data, space)
    left = field.transform(field.transform(f, b), a)
    assert (left - field.transform(f, space.compose(a, b))).abs().max() < 1e-12
    assert (field.transform(field.transform(f, a), space.inverse(a)) - f).abs().max() < 1e-12


def test_samples_in_space():
    group = Octahedral(reflections=True)
    space = Grid3d(group)
    field = space.field(group.standard)
    f = torch.randn(3, 4, 4, 4, dtype=torch.float64)
    for a, b in [(1, 7), (13, 40), (25, 3)]:
        g1, g2 = space.motion([1, 0, 2], a), space.motion([0, 3, 1], b)
        left = field.transform(field.transform(f, g2), g1)
        assert (left - field.transform(f, space.compose(g1, g2))).abs().max() < 1e-12


def test_orientation_is_that_of_torch():
    group = Dihedral(4)
    field = Grid2d(group).field(group.trivial)
    f = torch.randn(1, 5, 5, dtype=torch.float64)
    assert torch.equal(field.transform(f, Motion(torch.zeros(2), 1)), torch.rot90(f, 1, (-2, -1)))
    assert torch.equal(field.transform(f, Motion(torch.zeros(2), 4)), f.flip(-1))
    assert torch.equal(field.transform(f, Motion(torch.tensor([1.0, 0.0]), 0)), f.roll(1, -1))
    assert torch.equal(field.transform(f, Motion(torch.tensor([0.0, 1.0]), 0)), f.roll(-1, -2))


GRIDS = [
    *(Grid1d(name) for name in ("C1", "D1", "D3")),
    *(Grid2d(name) for name in ("D1", "C4", "D4", "C8")),
    Grid3d("O"),
    Grid3d("Oh"),
]


@pytest.mark.parametrize("space", GRIDS, ids=str)
def test_samples_move_as_functions_do(space):
    """The slow twin of flips and exchanged axes: look every sample up where the inverse motion comes from."""
    group, sizes = space.stabilizer, (3, 4, 5)[: space.dimension]
    f = torch.randn(1, *sizes, dtype=torch.float64)
    values = dict(
        zip(map(tuple, space.coordinates(sizes).reshape(-1, space.dimension).tolist()), f.flatten(), strict=True)
    )
    for g in range(group.order):
        motion = space.from_stabilizer(g)
        move = space.axis_move(g)
        if move is None:
            assert space.name == "Grid2d(C8)"
            assert g % 2
            continue
        moved = space.field("trivial").transform(f, motion)
        assert torch.equal(moved, move(f))
        assert torch.equal(move.inverse(moved), f)
        back = space.act(space.inverse(motion), space.coordinates(moved.shape[1:])).reshape(-1, space.dimension)
        assert torch.equal(moved.flatten(), torch.stack([values[tuple(x)] for x in back.tolist()]))


def test_axis_moves():
    assert len(set(AxisMove.every(3))) == 48
    assert len({Grid3d("Oh").axis_move(g) for g in range(48)}) == 48
    assert not next(AxisMove.every(2)).swaps
    assert AxisMove.from_matrix(torch.tensor([[1.0, 1.0], [0.0, 1.0]])) is None
    assert AxisMove.from_matrix(torch.tensor([[1.0, 0.0], [1.0, 0.0]])) is None
    assert Grid2d("SO(2)").axis_move(SO2().from_angle(torch.pi / 2)) == Grid2d("C4").axis_move(1)
    assert Grid2d("C6", lattice="hexagonal").axis_move(1) is None


@pytest.mark.parametrize("padding", ["circular", "zeros", "mirror"])
def test_a_turn_and_a_shift_of_an_array_that_is_not_square(padding):
    field = Grid2d("C4").field("trivial")
    f = torch.randn(1, 4, 6, dtype=torch.float64)
    moved = field.transform(f, Motion(torch.tensor([1.0, 0.0]), 1), padding=padding)
    assert moved.shape == (1, 6, 4)
    assert torch.equal(moved[..., 1:], f.rot90(1, (-2, -1))[..., :-1])
    assert torch.equal(moved[..., 0], {"circular": f.rot90(1, (-2, -1))[..., -1], "zeros": 0 * moved[..., 0],
                                       "mirror": f.rot90(1, (-2, -1))[..., 1]}[padding])  # fmt: skip


def test_signals():
    line = Grid1d("D1")
    sign = line.field(line.action)  # such as a slope
    f = torch.randn(2, 1, 7, dtype=torch.float64)
    assert torch.equal(sign.transform(f, line.from_stabilizer(1)), -f.flip(-1))
    assert torch.equal(line.field("trivial").transform(f, line.motion([2], 0)), f.roll(2, -1))
    assert Grid1d("C4").axis_move(1) == Grid1d("C4").axis_move(0)
    assert Grid1d("O(2)").axis_move(O2().component_representatives[1]) == line.axis_move(1)
    assert Grid1d("SO(2)").axis_move(SO2().from_angle(0.3)) == line.axis_move(0)
    with pytest.raises(RepresentationError, match="1-dimensional space"):
        Grid1d(Symmetric(3))


def test_zeros_padding_loses_what_leaves():
    group = Cyclic(4)
    field = Grid2d(group).field(group.trivial)
    f = torch.ones(1, 4, 4, dtype=torch.float64)
    moved = field.transform(f, Motion(torch.tensor([1.0, 0.0]), 0), padding="zeros")
    assert moved[0, :, 0].sum() == 0
    assert moved.sum() == 12


def test_interpolated_rotation_of_a_smooth_field():
    space = Grid2d(SO2())
    field = space.field(SO2().irrep(1))
    x = space.coordinates((41, 41))
    bump = torch.exp(-((x - torch.tensor([3.0, 1.0])) ** 2).sum(-1) / 30)
    f = torch.stack([bump, 0.5 * bump])
    angle = 0.7
    rotation = SO2().from_angle(angle)
    moved = field.transform(f, space.motion([0, 0], rotation), padding="zeros")
    source = x @ rotation  # r⁻¹x
    turned = torch.exp(-((source - torch.tensor([3.0, 1.0])) ** 2).sum(-1) / 30)
    expected = torch.einsum("ij,jyx->iyx", rotation, torch.stack([turned, 0.5 * turned]))
    assert (moved - expected).abs().max() < 2e-3
    assert (moved - f).abs().max() > 0.1


def test_equality_knows_the_action():
    c2, d1 = Cyclic(2), Dihedral(1)
    assert c2 == d1
    assert Grid2d(c2) != Grid2d(d1)
    assert Grid2d(c2) == Grid2d(Cyclic(2))
    assert distance(Grid2d(d1).matrices(1), torch.tensor([[-1.0, 0], [0, 1]])) == 0


class TestErrors:
    def test_no_action(self):
        with pytest.raises(
            RepresentationError, match=r"Grid2d\(S3\): expected a group that acts on 2-dimensional space"
        ):
            Grid2d(Symmetric(3))
        assert Grid2d(Symmetric(3), action=Symmetric(3).irreps[2]).stabilizer.order == 6

    def test_wrong_dimension(self):
        with pytest.raises(RepresentationError, match="Pass action=rho"):
            Grid2d(Octahedral())

    def test_sizes_that_do_not_turn(self):
        group = Cyclic(6)
        field = Grid2d(group, lattice="hexagonal").field(group.trivial)
        with pytest.raises(InputError, match=r"sizes that the rotation maps to themselves.*got sizes \(5, 7\)"):
            field.transform(torch.zeros(1, 5, 7), Motion(torch.zeros(2), 1))

    def test_channels(self):
        field = Grid2d(Cyclic(4)).field(Cyclic(4).regular)
        with pytest.raises(InputError, match=r"4 channels, size, size\); got shape \(3, 5, 5\)"):
            field.transform(torch.zeros(3, 5, 5), Motion(torch.zeros(2), 1))

    def test_coordinates(self):
        with pytest.raises(InputError, match="2 coordinates"):
            Grid2d(Cyclic(4)).motion([1, 2, 3], 0)

    def test_samples_where_only_functions_work(self):
        with pytest.raises(InputError, match="Pass a function of points"):
            Grid2d(Cyclic(4)).field(Cyclic(4).trivial).lift(torch.zeros(1, 5, 5))

    def test_lattice_name(self):
        with pytest.raises(InputError, match="'square' or 'hexagonal'"):
            Grid2d(Cyclic(4), lattice="triangular")


class TestNames:
    def test_groups_and_representations_go_by_name(self):
        D4 = Dihedral(4)
        assert Grid2d("D4").field("3*trivial + 8*regular") == Grid2d(D4).field(3 * D4.trivial + 8 * D4.regular)
        assert Grid2d("SO(2)").field("irrep1 + trivial") == Grid2d(SO2()).field(SO2().irrep(1) + SO2().trivial)

    def test_names_that_are_none(self):
        with pytest.raises(InputError, match="expected a representation of D4"):
            Grid2d("D4").field("3*nothing")
        with pytest.raises(InputError, match="got 'D'"):
            Grid2d("D")
