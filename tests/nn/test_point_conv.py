"""Convolutions on scattered points: against dense kernels, under whole groups, and where geometry degenerates."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError, TypeMismatchError
from intertwine.nn import Concat, PointConv, Residual, Sequential, radius_graph
from intertwine.nn.clouds._frames import rotation_from_axis
from intertwine.nn.clouds._radius_graph import edge_vectors
from intertwine.spaces import Cloud, Cloud2d, Cloud3d, Grid3d

EXAMPLES = {str(number): layer for number, layer in enumerate(PointConv.examples()) if len(layer.companions) == 2}
RADIUS = 1.5


def cloud(layer: PointConv, points: int = 10, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features, positions and edges; two points coincide, and two lie above one another."""
    noise = torch.Generator().manual_seed(seed)
    space = layer.in_type.space
    x = torch.randn(points, layer.in_type.dim, dtype=torch.float64, generator=noise)
    positions = 1.5 * torch.rand(points, space.dimension, dtype=torch.float64, generator=noise)
    positions[1] = positions[2] = positions[0]
    positions[2, -1] += 0.4
    return x, positions, radius_graph(positions, RADIUS)


@pytest.fixture(params=EXAMPLES)
def layer(request: pytest.FixtureRequest) -> PointConv:
    torch.manual_seed(0)
    layer = EXAMPLES[request.param].double()
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return layer


def axis_element(space: Cloud, direction: torch.Tensor) -> torch.Tensor:
    """A rotation that takes the axis, the last one in space and the first in the plane, to a direction."""
    if space.dimension == 3:
        return rotation_from_axis(direction[None])[0]
    return torch.stack([direction, torch.stack([-direction[1], direction[0]])], 1)


def kernel(layer: PointConv, vector: torch.Tensor) -> torch.Tensor:
    """κ(r) as a dense matrix: the answer for a point with one neighbor, for each unit feature."""
    positions = torch.stack([torch.zeros_like(vector), vector])
    columns = []
    for unit in torch.eye(layer.in_type.dim, dtype=torch.float64):
        x = torch.stack([torch.zeros_like(unit), unit])
        out = layer(x, positions, torch.tensor([[1], [0]]))
        columns.append(out[0] - layer(0 * x, positions, torch.tensor([[1], [0]]))[0])
    return torch.stack(columns, 1)


def test_sums_the_kernel_over_the_edges(layer: PointConv) -> None:
    """The slow twin: a dense kernel per edge, made from the kernel along one axis by the matrices of the group."""
    x, positions, edges = cloud(layer, 6)
    space, rho1, rho2 = layer.in_type.space, layer.in_type.rho, layer.out_type.rho
    axis = torch.eye(space.dimension, dtype=torch.float64)[-1 if space.dimension == 3 else 0]
    expected = layer(x, positions, edges[:, :0])
    for source, target in edges.T.tolist():
        vector = positions[source] - positions[target]
        distance = vector.norm()
        if distance == 0:
            matrix = kernel(layer, vector)
        else:
            h = axis_element(space, vector / distance)
            matrix = rho2(h) @ kernel(layer, distance * axis) @ rho1(space.stabilizer.inverse(h))
        expected[target] += matrix @ x[source]
    torch.testing.assert_close(layer(x, positions, edges), expected, rtol=0, atol=1e-10)


def test_the_kernel_along_the_axis_commutes_with_the_turns_about_it() -> None:
    layer = EXAMPLES["1"].double()
    axis = torch.tensor([0.0, 0.0, 0.7], dtype=torch.float64)
    matrix = kernel(layer, axis)
    turn = torch.tensor([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]], dtype=torch.float64)
    mirror = torch.diag(torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64))
    for h in (turn, mirror, turn @ mirror):
        torch.testing.assert_close(layer.out_type.rho(h) @ matrix, matrix @ layer.in_type.rho(h), rtol=0, atol=1e-12)
    upside_down = torch.diag(torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64))
    assert (layer.out_type.rho(upside_down) @ matrix - matrix @ layer.in_type.rho(upside_down)).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("space", "degrees", "count"),
    [
        (Cloud3d("SO(3)"), "irrep0 + irrep1 + irrep2", 19),
        (Cloud3d("O(3)"), "irrep0 + irrep1 + irrep2", 14),
        (Cloud3d("O(3)"), "irrep(0,1) + irrep(0,-1)", 2),
        (Cloud2d("SO(2)"), "irrep0 + irrep1", 9),
        (Cloud2d("O(2)"), "irrep0 + irrep1", 5),
    ],
)
def test_all_kernels_are_there(space: Cloud, degrees: str, count: int) -> None:
    """As many weights as there are maps that commute with the stabilizer of the axis.

    Between degrees l1 and l2 these are 2 min(l1, l2) + 1 under SO(3); O(3) keeps min(l1, l2) + 1 of them between
    natural irreducibles.
    """
    field = space.field(degrees)
    layer = PointConv(field, field, radius=1.0)
    assert sum(weight.numel() for weight in layer.weights) == count


def test_commutes_with_random_motions_and_permutations(layer: PointConv) -> None:
    x, positions, edges = cloud(layer)
    space, noise = layer.in_type.space, torch.Generator().manual_seed(1)
    out = layer(x, positions, edges)
    scale = out.abs().max()
    for rotation in space.sample(20, noise):
        shift = 10 * torch.randn(space.dimension, dtype=torch.float64, generator=noise)
        motion = space.motion(shift, rotation)
        moved = layer(layer.in_type.transform(x, motion), space.act(motion, positions), edges)
        assert (moved - layer.out_type.transform(out, motion)).abs().max() < 1e-11 * scale
    order = torch.randperm(len(x), generator=noise)
    permuted = layer(x[order], positions[order], torch.argsort(order)[edges])
    assert (permuted - out[order]).abs().max() < 1e-12 * scale


def test_a_motion_of_the_points_alone_is_noticed(layer: PointConv) -> None:
    x, positions, edges = cloud(layer)
    space = layer.in_type.space
    (rotation,) = space.sample(1, torch.Generator().manual_seed(1))
    moved = layer(x, space.act(space.from_stabilizer(rotation), positions), edges)
    assert (moved - layer(x, positions, edges)).abs().max() > 1e-3


def test_forces_are_right_to_second_order(layer: PointConv) -> None:
    x, positions, _ = cloud(layer, 4)
    positions = positions + 0.05 * torch.arange(4, dtype=torch.float64)[:, None]
    edges = radius_graph(positions, RADIUS)
    noise = torch.Generator().manual_seed(2)
    probe = torch.randn(4, layer.out_type.dim, dtype=torch.float64, generator=noise)
    inputs = (x.requires_grad_(), positions.requires_grad_())

    def energy(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return (layer(x, positions, edges).square() * probe).sum()

    assert torch.autograd.gradcheck(energy, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(energy, inputs, fast_mode=True)


@pytest.mark.parametrize("length", [0.0, 1e-300, 1e-12, 1e-5, 1e-2])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("sign", [1, -1])
def test_derivatives_are_finite_on_the_axes_and_where_points_meet(
    layer: PointConv, length: float, axis: int, sign: int
) -> None:
    positions = torch.zeros(2, layer.in_type.space.dimension, dtype=torch.float64)
    positions[1, axis] = sign * length
    positions.requires_grad_()
    x = torch.ones(2, layer.in_type.dim, dtype=torch.float64)
    out = layer(x, positions, torch.tensor([[0, 1], [1, 0]]))
    (force,) = torch.autograd.grad(out.square().sum(), positions, create_graph=True)
    (second,) = torch.autograd.grad(force.square().sum(), positions, allow_unused=True)
    assert out.isfinite().all()
    assert force.isfinite().all()
    assert second is None or second.isfinite().all()


def test_continuous_where_points_meet(layer: PointConv) -> None:
    x = torch.randn(2, layer.in_type.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    edges = torch.tensor([[1], [0]])
    together = torch.zeros(2, layer.in_type.space.dimension, dtype=torch.float64)
    apart = together.clone()
    apart[1] = 1e-6
    there, here = layer(x, apart, edges), layer(x, together, edges)
    assert (there - here).abs().max() < 1e-7 * (1 + here.abs().max())


def test_vanishes_smoothly_at_the_radius(layer: PointConv) -> None:
    x = torch.randn(2, layer.in_type.dim, dtype=torch.float64)
    edges = torch.tensor([[1], [0]])
    positions = torch.zeros(2, layer.in_type.space.dimension, dtype=torch.float64)
    alone = layer(x, positions, edges[:, :0])
    for distance, tolerance in ((RADIUS - 1e-4, 1e-6), (RADIUS, 0.0), (2 * RADIUS, 0.0)):
        positions[1, 0] = distance
        assert (layer(x, positions, edges) - alone).abs().max() <= tolerance


def test_without_edges_and_with_isolated_points(layer: PointConv) -> None:
    x, positions, edges = cloud(layer)
    nothing = layer(x, positions, edges[:, :0])
    bias = layer(0 * x, positions, edges[:, :0])
    assert torch.equal(nothing, bias)
    some = edges[:, (edges != 3).all(0)]
    assert torch.equal(layer(x, positions, some)[3], nothing[3])
    assert layer(x[:0], positions[:0], edges[:, :0]).shape == (0, layer.out_type.dim)


def periodic_layer() -> PointConv:
    torch.manual_seed(0)
    space = Cloud3d("SO(3)")
    return PointConv(space.field("2*irrep0 + irrep1"), space.field("irrep2 + irrep1"), radius=RADIUS, periodic=True)


def crystal(skew: float = 0.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features, positions all over a box, and the box."""
    noise = torch.Generator().manual_seed(0)
    box = 4 * torch.eye(3, dtype=torch.float64)
    box[1, 0] = skew
    x = torch.randn(6, 5, dtype=torch.float64, generator=noise)
    return x, torch.rand(6, 3, dtype=torch.float64, generator=noise) @ box, box


def test_a_box_joins_points_across_its_faces() -> None:
    layer = periodic_layer().double()
    x, positions, box = crystal()
    out = layer(x, positions, radius_graph(positions, RADIUS, box=box), box)
    steps = 4 * torch.cartesian_prod(*[torch.arange(-1, 2)] * 3).to(torch.float64)
    images = (positions + steps[:, None]).flatten(0, 1)  # the points and all their images, in a box too wide to matter
    middle = len(steps) // 2 * 6
    edges = radius_graph(images, RADIUS)
    expected = layer(x.repeat(len(steps), 1), images, edges, box=[99.0] * 3)[middle : middle + 6]
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    shifted = layer(x, positions + 1.7, radius_graph(positions + 1.7, RADIUS, box=box), box)
    torch.testing.assert_close(shifted, out, rtol=1e-12, atol=1e-12)


def test_a_box_turns_with_the_points() -> None:
    layer = periodic_layer().double()
    x, positions, box = crystal(skew=0.4)
    edges = radius_graph(positions, RADIUS, box=box)
    assert (edge_vectors(positions, edges, box) - edge_vectors(positions, edges, None)).abs().max() > 1  # some wrap
    space = layer.in_type.space
    (turn,) = space.sample(1, torch.Generator().manual_seed(1))
    g = space.from_stabilizer(turn)
    moved = space.act(g, positions)
    out = layer(layer.in_type.transform(x, g), moved, edges, space.act(g, box))
    expected = layer.out_type.transform(layer(x, positions, edges, box), g)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-10)
    fixed_box = layer(layer.in_type.transform(x, g), moved, edges, box)
    assert (fixed_box - expected).abs().max() > 1e-3


def test_containers_pass_a_box_on_by_position_and_by_name() -> None:
    torch.manual_seed(0)
    x, positions, box = crystal()
    edges = radius_graph(positions, RADIUS, box=box)
    space = Cloud3d("SO(3)")
    field = space.field("2*irrep0 + irrep1")
    convs = [PointConv(field, field, radius=RADIUS, periodic=True) for _ in range(3)]
    both = Concat(convs[1], convs[2])
    net = Sequential(Residual(convs[0]), both).double()
    middle = x + convs[0](x, positions, edges, box)
    expected = torch.cat([conv(middle, positions, edges, box) for conv in convs[1:]], 1)
    assert torch.equal(net(x, positions, edges, box), expected)
    assert torch.equal(net(x, positions, edges, box=box), expected)
    torch.testing.assert_close(net.to_plain()(x, positions, edges, box), expected)
    with pytest.raises(InputError, match="arguments x, positions, edges, box; got 3"):
        net(x, positions, edges)


def test_kernels_depend_on_features_of_edges() -> None:
    torch.manual_seed(0)
    field = Cloud3d("O(3)").field("2*irrep0 + irrep1")
    layer = PointConv(field, field, radius=RADIUS, edge_features=2)
    x, positions = torch.randn(4, 5), torch.rand(4, 3)
    edges = radius_graph(positions, RADIUS)
    features = torch.randn(edges.shape[1], 2)
    out = layer(x, positions, edges, features)
    features[0] += 1  # only the target of this edge notices
    changed = (layer(x, positions, edges, edge_features=features) - out).abs().amax(1) > 1e-6
    assert changed.tolist() == [point == int(edges[1, 0]) for point in range(4)]
    with pytest.raises(InputError, match="one row per edge"):
        layer(x, positions, edges, features[:-1])
    with pytest.raises(InputError, match="x, positions, edges, edge_features; got 3"):
        layer(x, positions, edges)


def test_rank_adds_radial_functions() -> None:
    space = Cloud3d("SO(3)")
    field = space.field("2*irrep0 + irrep1")
    one, three = (PointConv(field, field, radius=1.0, rank=rank) for rank in (1, 3))
    assert [len(weight) for weight in three.weights] == [3 * len(weight) for weight in one.weights]


def test_outputs_start_at_unit_size() -> None:
    """Features of unit variance in a random gas with about 20 neighbors give outputs of about unit variance."""
    torch.manual_seed(0)
    space = Cloud3d("SO(3)")
    field = space.field("16*irrep0 + 16*irrep1 + 16*irrep2")
    positions = 5 * torch.rand(300, 3)
    edges = radius_graph(positions, 1.25)
    neighbors = edges.shape[1] / 300
    squares = []
    for _ in range(5):
        layer = PointConv(field, field, radius=1.25, neighbors=neighbors)
        squares.append(float(layer(torch.randn(300, field.dim), positions, edges).square().mean().detach()))
    assert 0.5 < sum(squares) / 5 < 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": torch.zeros(3, 7)}, "shape"),
        ({"positions": torch.zeros(2, 3)}, r"positions \(3, 3\)"),
        ({"positions": torch.zeros(3, 2)}, r"positions \(3, 3\)"),
        ({"positions": torch.zeros(3, 3, dtype=torch.float64)}, "of torch.float32"),
        ({"positions": torch.full((3, 3), float("nan"))}, "finite positions"),
        ({"edges": torch.tensor([[0], [3]])}, "points 0 to 2; got numbers from 0 to 3"),
        ({"edges": torch.tensor([[-1], [0]])}, "numbers from -1 to 0"),
        ({"edges": torch.zeros(3, 2, dtype=torch.int64)}, r"edges \(2, edges\)"),
        ({"edges": torch.zeros(2, 2)}, "torch.int64"),
        ({"box": [9.0, 9.0, 9.0]}, "positions, edges; got box as well"),
    ],
)
def test_bad_input_is_explained(changes: dict, message: str) -> None:
    space = Cloud3d("SO(3)")
    layer = PointConv(space.field("2*irrep0"), space.field("irrep1"), radius=RADIUS)
    arguments = {"x": torch.zeros(3, 2), "positions": torch.zeros(3, 3), "edges": torch.tensor([[0], [1]]), **changes}
    with pytest.raises(InputError, match=message):
        layer(**arguments)


def test_a_box_that_is_too_small_is_explained() -> None:
    x, positions, _ = crystal()
    edges = torch.tensor([[0], [1]])
    with pytest.raises(InputError, match="twice as wide"):
        periodic_layer().double()(x, positions, edges, box=[2.0, 9.0, 9.0])


def test_wrong_types_are_explained() -> None:
    space = Cloud3d("SO(3)")
    vector = space.field("irrep1")
    with pytest.raises(TypeMismatchError, match="on one cloud"):
        PointConv(vector, Cloud3d("O(3)").field("irrep1"), radius=1.0)
    with pytest.raises(InputError, match="sum of irreducibles"):
        PointConv(space.field(vector.rho @ vector.rho), vector, radius=1.0)
    grid = Grid3d("SO(3)").field("irrep1")
    with pytest.raises(InputError, match="on a cloud"):
        PointConv(grid, grid, radius=1.0)
    with pytest.raises(InputError, match="radius above 0"):
        PointConv(vector, vector, radius=0.0)
