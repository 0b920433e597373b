"""Layers on sets and graphs: against dense kernels, against symmetric groups of small sets, and with masks."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from intertwine.errors import InputError, TypeMismatchError
from intertwine.nn import ReLU, Sequential, TupleLinear
from intertwine.spaces import FieldType, Grid2d, Tuples


def channels(order: int, count: int = 2) -> FieldType:
    return Tuples(order).field(f"{count}*trivial")


def entries(layer: TupleLinear, n: int) -> torch.Tensor:
    """The slow twin: a kernel with one entry per tuple of k + l elements, decided by which of them are equal."""
    k, l = layer.in_type.space.order, layer.out_type.space.order
    kernel = torch.zeros(layer.out_type.dim, layer.in_type.dim, *[n] * (k + l), dtype=torch.float64)
    for pattern, weight in zip(layer.patterns, layer.weight, strict=True):
        blocks = pattern.inputs + pattern.outputs
        for index in product(range(n), repeat=k + l):
            # A pattern says which indices must be equal; others may or may not be.
            if all(index[a] == index[b] for a in range(k + l) for b in range(a) if blocks[a] == blocks[b]):
                kernel[(slice(None), slice(None), *index)] += weight.detach() / n**pattern.averaged
    return kernel


@pytest.mark.parametrize(("k", "l"), [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)])
def test_against_the_dense_kernel(k: int, l: int) -> None:
    torch.manual_seed(0)
    n, layer = 3, TupleLinear(channels(k), channels(l, 3), bias=False).double()
    x = torch.randn(2, 2, *[n] * k, dtype=torch.float64)
    kernel = entries(layer, n)
    expected = torch.tensordot(x, kernel, dims=([1, *range(2, 2 + k)], [1, *range(2, 2 + k)]))
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("k", "l", "n"), [(1, 1, 4), (1, 2, 4), (2, 2, 4), (2, 1, 3), (3, 1, 4)])
def test_the_patterns_span_all_equivariant_maps(k: int, l: int, n: int) -> None:
    """Commuting maps of permutation matrices, one per orbit of the symmetric group on pairs of tuples, are as many."""
    orbits = {min_tuple(index) for index in product(range(n), repeat=k + l)}
    layer = TupleLinear(channels(k, 1), channels(l, 1), bias=False).double()
    if n < k + l:  # small sets cannot tell all patterns apart
        assert len(layer.patterns) >= len(orbits)
        return
    assert len(layer.patterns) == len(orbits)
    rows = []
    for number in range(len(layer.patterns)):
        with torch.no_grad():
            layer.weight.zero_()
            layer.weight[number] = 1
        rows.append(entries(layer, n).flatten())
    assert int(torch.linalg.matrix_rank(torch.stack(rows))) == len(layer.patterns)


def min_tuple(index: tuple[int, ...]) -> tuple[int, ...]:
    """The orbit of a tuple: which of its elements are equal."""
    return tuple(index.index(i) for i in index)


@pytest.mark.parametrize(("k", "l"), [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)])
def test_a_mask_is_the_same_as_a_smaller_set(k: int, l: int) -> None:
    torch.manual_seed(0)
    masked = TupleLinear(channels(k), channels(l), masked=True).double()
    plain = TupleLinear(channels(k), channels(l)).double()
    with torch.no_grad():
        masked.bias.normal_()
    plain.load_state_dict(masked.state_dict())
    x = torch.randn(2, 2, *[6] * k, dtype=torch.float64)
    mask = torch.tensor([[True] * 4 + [False] * 2, [False, True, False, True, True, False]])
    out = masked(x, mask)
    for row, chosen in enumerate((torch.arange(4), torch.tensor([1, 3, 4]))):
        small, large = x[row : row + 1], out[row : row + 1]
        for axis in range(k):
            small = small.index_select(2 + axis, chosen)
        for axis in range(l):
            large = large.index_select(2 + axis, chosen)
        torch.testing.assert_close(large, plain(small), rtol=0, atol=1e-12)
    if l:
        assert out[1][:, 0].abs().max() == 0, "elements that do not exist stay zero"


def test_a_mask_that_excludes_everything_leaves_the_bias() -> None:
    layer = TupleLinear(channels(1), channels(0), masked=True)
    with torch.no_grad():
        layer.bias.fill_(3)
    out = layer(torch.randn(1, 2, 4), torch.zeros(1, 4, dtype=torch.bool))
    assert torch.equal(out, torch.full((1, 2), 3.0))
    layer = TupleLinear(channels(2), channels(1), masked=True)
    assert not layer(torch.randn(1, 2, 4, 4), torch.zeros(1, 4, dtype=torch.bool)).any()


def test_sets_far_beyond_enumeration() -> None:
    """10,000 elements have more permutations than anybody can list; two of them are tried."""
    torch.manual_seed(0)
    layer = Sequential(
        TupleLinear(channels(1), channels(1, 4)), ReLU(channels(1, 4)), TupleLinear(channels(1, 4), channels(0))
    )
    layer = layer.double()
    x = torch.randn(1, 2, 10_000, dtype=torch.float64)
    for _ in range(2):
        assert (layer(x[..., torch.randperm(10_000)]) - layer(x)).abs().max() < 1e-12
    assert (layer(x + torch.arange(10_000) / 1e4) - layer(x)).abs().max() > 1e-3


def test_work_grows_as_the_size_of_the_tensors() -> None:
    """Multiplications and additions, counted by torch: linear in n for sets, quadratic for graphs."""
    from torch.utils.flop_counter import FlopCounterMode

    for order, factor in ((1, 2), (2, 4)):
        layer = TupleLinear(channels(order, 8), channels(order, 8))
        counts = []
        for n in (32, 64):
            with FlopCounterMode(display=False) as counter:
                layer(torch.randn(1, 8, *[n] * order))
            counts.append(counter.get_total_flops())
        assert counts[1] <= 1.05 * factor * counts[0]


@pytest.mark.parametrize(
    ("make", "inputs", "message"),
    [
        (lambda: TupleLinear(channels(2), channels(1)), (torch.zeros(1, 2, 3, 4),), "axes of one size"),
        (lambda: TupleLinear(channels(1), channels(1)), (torch.zeros(1, 3, 4),), "shape"),
        (
            lambda: TupleLinear(channels(1), channels(1)),
            (torch.zeros(1, 2, 4), torch.ones(1, 4, dtype=torch.bool)),
            "no mask",
        ),
        (lambda: TupleLinear(channels(1), channels(1), masked=True), (torch.zeros(1, 2, 4),), "a mask"),
        (
            lambda: TupleLinear(channels(1), channels(1), masked=True),
            (torch.zeros(1, 2, 4), torch.ones(1, 4)),
            "of booleans",
        ),
        (lambda: TupleLinear(channels(0), channels(1)), (), "tells the number of elements"),
        (lambda: Tuples(4), (), "order of 0 to 3"),
    ],
)
def test_bad_input_is_explained(make, inputs: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()(*inputs)


def test_other_types_are_explained() -> None:
    plane = Grid2d("C4").field("regular")
    with pytest.raises(TypeMismatchError, match="field types on tuples"):
        TupleLinear(plane, plane)
    with pytest.raises(InputError, match="several orbits"):
        Tuples(2).section((0, 1))
