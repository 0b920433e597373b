"""Networks on the hexagonal lattice: zero padding on a hexagon, pooling over hexagons, square images."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from intertwine.errors import InputError
from intertwine.nn import AvgPool2d, BatchNorm, Conv2d, Exact, MaxPool2d, ReLU, Sequential
from intertwine.spaces import FieldType, Grid2d, from_hexagonal, to_hexagonal
from intertwine.testing import assert_equivariant

PLANE = Grid2d("D6", lattice="hexagonal")
REGULAR, SCALARS = PLANE.field("regular"), PLANE.field("2*trivial")


def steps(n: int) -> dict[tuple[int, int], int]:
    """The number of lattice steps from the center to each sample (row, column), by walking."""
    center = (n - 1) // 2
    distance = {(center, center): 0}
    frontier = [(center, center)]
    neighbors = [
        (0, 1),
        (0, -1),
        (1, 0),
        (-1, 0),
        (1, 1),
        (-1, -1),
    ]  # rows go down: (1, 1) is a neighbor, (1, -1) is not
    while frontier:
        row, column = frontier.pop(0)
        for down, right in neighbors:
            there = (row + down, column + right)
            if 0 <= there[0] < n and 0 <= there[1] < n and there not in distance:
                distance[there] = distance[row, column] + 1
                frontier.append(there)
    return distance


def in_hexagon(n: int) -> Tensor:
    mask = torch.zeros(n, n, dtype=torch.bool)
    for place, distance in steps(n).items():
        mask[place] = distance <= (n - 1) // 2
    return mask


def test_neighbors_are_one_step_away() -> None:
    """The six neighbors of the walk are the six nearest points of the lattice."""
    points = PLANE.coordinates((3, 3)) @ PLANE.lattice_basis.T
    near = points.norm(dim=-1) < 1.01
    assert int(near.sum()) == 7
    assert torch.equal(near, in_hexagon(3))


@pytest.mark.parametrize(("stride", "n"), [(1, 9), (2, 9), (2, 13)])
def test_convolution_by_its_definition(stride: int, n: int) -> None:
    torch.manual_seed(0)
    layer = Conv2d(SCALARS, REGULAR, 3, padding=1, stride=stride).double()
    x = torch.randn(1, 2, n, n, dtype=torch.float64)
    y = layer(x)[0]
    filters, bias = layer.expand()
    mask, after = in_hexagon(n), in_hexagon(y.shape[-1])
    for row, column in product(range(y.shape[1]), repeat=2):
        total = bias.clone() * after[row, column]
        for a, b in product(range(3), repeat=2):
            r, c = stride * row + a - 1, stride * column + b - 1
            if after[row, column] and 0 <= r < n and 0 <= c < n and mask[r, c]:
                total = total + filters[:, :, a, b] @ x[0, :, r, c]
        torch.testing.assert_close(y[:, row, column], total, rtol=0, atol=1e-12)


@pytest.mark.parametrize("pool", [AvgPool2d, MaxPool2d])
def test_pooling_by_its_definition(pool: type[AvgPool2d] | type[MaxPool2d]) -> None:
    x = torch.randn(1, 2, 9, 9, dtype=torch.float64)
    y = pool(SCALARS, 3, stride=2, padding=1)(x)[0]
    mask, after = in_hexagon(9), in_hexagon(5)
    assert y.shape == (2, 5, 5)
    for row, column in product(range(5), repeat=2):
        around = [(2 * row + a, 2 * column + b) for a, b in product((-1, 0, 1), repeat=2) if a * b != -1]
        values = [x[0, :, r, c] for r, c in around if 0 <= r < 9 and 0 <= c < 9 and mask[r, c]]
        expected = torch.zeros(2, dtype=torch.float64)
        if after[row, column]:
            stack = torch.stack(values)
            expected = stack.amax(0) if pool is MaxPool2d else stack.sum(0) / 7
        torch.testing.assert_close(y[:, row, column], expected, rtol=0, atol=1e-12)


def network(field: FieldType) -> Sequential:
    return Sequential(
        Conv2d(field, REGULAR, 5, padding=2),
        BatchNorm(REGULAR),
        ReLU(REGULAR),
        MaxPool2d(REGULAR, 3, stride=2, padding=1),
        Conv2d(REGULAR, REGULAR, 3, padding=1, stride=2),
        AvgPool2d(REGULAR, 3, stride=1, padding=1),
    )


def test_a_network_commutes_with_all_rotations_and_reflections() -> None:
    torch.manual_seed(0)
    net = network(SCALARS)
    assert isinstance(net.claim, Exact)
    assert assert_equivariant(net, size=17) < 1e-12
    assert assert_equivariant(net, size=17, training=True) < 1e-12


def test_corners_do_not_matter() -> None:
    layer = Conv2d(SCALARS, REGULAR, 3, padding=1)
    x = torch.randn(2, 2, 9, 9)
    changed = torch.where(in_hexagon(9), x, 100.0)
    torch.testing.assert_close(layer(changed), layer(x), rtol=0, atol=0)
    assert not bool(layer(x)[..., ~in_hexagon(9)].any())


def test_translations_commute_inside() -> None:
    torch.manual_seed(0)
    layer = Conv2d(SCALARS, REGULAR, 3, padding=1).double()
    x = torch.randn(1, 2, 13, 13, dtype=torch.float64)
    shifted, inner = layer(x.roll((1, 2), (2, 3))), in_hexagon(13) & False
    for (row, column), distance in steps(13).items():
        inner[row, column] = distance <= 3
    difference = (shifted - layer(x).roll((1, 2), (2, 3))).detach()
    assert float(difference[..., inner].abs().max()) < 1e-12


@pytest.mark.parametrize(("n", "fits"), [(8, "7 or 9"), (10, "9 or 11")])
def test_even_sizes_are_refused(n: int, fits: str) -> None:
    with pytest.raises(InputError, match=f"a size of {fits}; got {n}, on which the layer would not commute with D6"):
        Conv2d(SCALARS, REGULAR, 3, padding=1)(torch.zeros(1, 2, n, n))


def test_strides_need_a_sample_at_the_center_of_the_output() -> None:
    x = torch.zeros(1, 2, 11, 11)
    for layer in (Conv2d(SCALARS, REGULAR, 3, padding=1, stride=2), AvgPool2d(SCALARS, 3, stride=2, padding=1)):
        with pytest.raises(InputError, match="a size of 9 or 13; got 11"):
            layer(x)
    # It would not commute there: the same windows without the check.
    loose = Conv2d(SCALARS, SCALARS, 3, padding=1, stride=2, allow_asymmetric=True).double()
    x = torch.randn(1, 2, 11, 11, dtype=torch.float64) * in_hexagon(11)
    g = PLANE.from_stabilizer(1)
    left, right = loose(SCALARS.transform(x, g)), SCALARS.transform(loose(x), g, padding="zeros")
    assert float((left - right).detach().norm() / right.detach().norm()) > 0.1


def test_other_paddings_are_refused() -> None:
    with pytest.raises(InputError, match="'zeros' or 'circular' on the hexagonal lattice; got padding_mode='reflect'"):
        Conv2d(SCALARS, REGULAR, 3, padding=1, padding_mode="reflect")


class TestResampling:
    def test_a_plane_is_reproduced(self) -> None:
        """Linear functions are exact under both interpolations, away from the border."""
        line = torch.arange(21, dtype=torch.float64) - 10
        image = 0.5 + 0.3 * line + 0.2 * line[:, None]
        hexagonal = to_hexagonal(image, 17)
        points = PLANE.coordinates((17, 17)) @ PLANE.lattice_basis.T * (10 / 0.75**0.5 / 8)
        expected = 0.5 + 0.3 * points[..., 0] - 0.2 * points[..., 1]
        inner = points.norm(dim=-1) < 8
        assert float((hexagonal - expected)[inner].abs().max()) < 1e-12
        assert not bool(hexagonal[~in_hexagon(17)].any())
        back = from_hexagonal(hexagonal, 21)
        disk = line.square() + line[:, None].square() < 36
        assert float((back - image)[disk].abs().max()) < 1e-9

    def test_half_turns_commute(self) -> None:
        image = torch.rand(3, 12, 12, dtype=torch.float64)
        half = PLANE.from_stabilizer(3)  # D6 counts rotations by 60°
        turned = PLANE.field("3*trivial").transform(to_hexagonal(image), half)
        torch.testing.assert_close(to_hexagonal(image.rot90(2, (1, 2))), turned, rtol=0, atol=1e-12)

    def test_sizes_can_be_pooled(self) -> None:
        for side in (8, 28, 32, 96):
            n = to_hexagonal(torch.rand(1, side, side)).shape[-1]
            pool = AvgPool2d(PLANE.field("trivial"), 3, stride=2, padding=1)
            assert pool.output_sizes((n, n)) == ((n + 1) // 2,) * 2

    def test_errors(self) -> None:
        with pytest.raises(InputError, match="square images"):
            to_hexagonal(torch.zeros(4, 5))
        with pytest.raises(InputError, match="an odd size"):
            to_hexagonal(torch.zeros(4, 4), 8)
        with pytest.raises(InputError, match="an odd size"):
            from_hexagonal(torch.zeros(4, 4), 8)
