"""Products of two inputs: all equivariant ones, next to e3nn's and to a table of products of basis vectors."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import EmptyKernelSpaceError, InputError, TypeMismatchError
from intertwine.nn import Bilinear, DepthwiseBilinear, FullBilinear, Layer
from intertwine.spaces import Cloud3d, FieldType, Grid3d, Point

SPACE = Point("SO(3)")


def field(counts: dict[int, int]) -> FieldType:
    return SPACE.field(" + ".join(f"{count}*irrep{degree}" for degree, count in counts.items()))


@pytest.mark.parametrize(
    ("left", "right", "out"),
    [
        ({0: 2, 1: 3}, {0: 1, 1: 1}, {0: 2, 1: 2}),
        ({1: 2, 2: 1}, {0: 1, 1: 2, 2: 1}, {0: 1, 1: 3, 2: 2, 3: 1}),
        ({3: 1}, {2: 2}, {1: 1, 5: 4}),
    ],
)
def test_as_many_weights_as_e3nn(left: dict[int, int], right: dict[int, int], out: dict[int, int]) -> None:
    from e3nn import o3

    irreps = [o3.Irreps([(count, (degree, 1)) for degree, count in counts.items()]) for counts in (left, right, out)]
    expected = o3.FullyConnectedTensorProduct(*irreps).weight_numel
    assert Bilinear(field(left), field(right), field(out)).weight_count == expected


@pytest.mark.parametrize(
    "layer", [*Bilinear.examples(), *DepthwiseBilinear.examples(), *FullBilinear.examples()], ids=str
)
def test_linear_in_each_input_and_in_the_weights(layer: Layer) -> None:
    """The slow twin: a table of the products of all basis vectors."""
    layer, noise = layer.double(), torch.Generator().manual_seed(0)
    d1, d2 = layer.in_type.dim, layer.right_type.dim
    i, j = torch.cartesian_prod(torch.arange(d1), torch.arange(d2)).T
    given = [torch.randn(1, layer.weight_count, dtype=torch.float64, generator=noise)] if layer.weights is None else []
    table = layer(
        torch.eye(d1, dtype=torch.float64)[i],
        torch.eye(d2, dtype=torch.float64)[j],
        *(weight.expand(d1 * d2, -1) for weight in given),
    ).view(d1, d2, -1)
    x, y = (torch.randn(7, d, dtype=torch.float64, generator=noise) for d in (d1, d2))
    weights = [weight.expand(7, -1) for weight in given]
    expected = torch.einsum("zi,zj,ijk->zk", x, y, table)
    torch.testing.assert_close(layer(x, y, *weights), expected, rtol=0, atol=1e-12)
    doubled = [2 * weight for weight in weights]
    if doubled:
        torch.testing.assert_close(layer(x, y, *doubled), 2 * expected, rtol=0, atol=1e-12)


def test_the_only_product_of_two_vectors_that_is_a_vector_is_the_cross_product() -> None:
    vectors = SPACE.field("irrep1")
    layer = Bilinear(vectors, vectors, vectors).double()
    x, y = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    order = [2, 0, 1]  # from (y, z, x) to (x, y, z)
    cross = torch.linalg.cross(x[:, order], y[:, order])
    out = layer(x, y)[:, order].detach()
    factor = float((out * cross).sum() / cross.square().sum())
    torch.testing.assert_close(out, factor * cross, rtol=0, atol=1e-12)


def test_outputs_start_at_unit_size() -> None:
    torch.manual_seed(0)
    fields = field({0: 8, 1: 8, 2: 8})
    for layer in (Bilinear(fields, fields, fields), DepthwiseBilinear(fields, fields, fields)):
        out = layer(torch.randn(500, fields.dim), torch.randn(500, fields.dim))
        assert 0.5 < float(out.detach().square().mean()) < 2


def test_wrong_input_is_explained() -> None:
    vectors, scalar = SPACE.field("irrep1"), SPACE.field("irrep0")
    with pytest.raises(EmptyKernelSpaceError, match=r"contain irrep\(3\)"):
        Bilinear(vectors, vectors, SPACE.field("irrep0 + irrep3"))
    with pytest.raises(EmptyKernelSpaceError):
        DepthwiseBilinear(scalar, scalar, vectors)
    with pytest.raises(TypeMismatchError, match="at one point or on one cloud"):
        Bilinear(vectors, Cloud3d("SO(3)").field("irrep1"), vectors)
    with pytest.raises(TypeMismatchError, match="at one point or on one cloud"):
        Bilinear(*[Grid3d("SO(3)").field("irrep1")] * 3)
    learned, given = (Bilinear(vectors, vectors, scalar, weights=weights) for weights in ("learned", "given"))
    x = torch.zeros(2, 3)
    for layer, inputs, message in (
        (learned, (x, torch.zeros(3, 3)), r"y of shape \(2, 3\)"),
        (learned, (x, x.double()), "type torch.float32"),
        (learned, (x, x, torch.zeros(2, 1)), "as the layer has its own"),
        (given, (x, x), "expected weights"),
        (given, (x, x, torch.zeros(2, 2)), r"weights of shape \(2, 1\)"),
    ):
        with pytest.raises(InputError, match=message):
            layer(*inputs)


def test_the_full_product_loses_nothing() -> None:
    """It is x ⊗ y in another basis: as many channels, and the same length."""
    from e3nn import o3

    left, right = field({0: 2, 1: 3}), field({1: 2, 2: 1})
    full = FullBilinear(left, right).double()
    theirs = o3.FullTensorProduct("2x0e + 3x1e", "2x1e + 1x2e")
    assert full.out_type.dim == left.dim * right.dim == theirs.irreps_out.dim
    for mul, ir in theirs.irreps_out.regroup():
        assert full.out_type.rho.count(SPACE.stabilizer.irrep(ir.l)) == mul
    x, y = torch.randn(1, left.dim, dtype=torch.float64), torch.randn(1, right.dim, dtype=torch.float64)
    torch.testing.assert_close(full(x, y).square().sum(), x.square().sum() * y.square().sum())
    with pytest.raises(EmptyKernelSpaceError, match="products of"):
        FullBilinear(field({1: 1}), field({1: 1}), kinds=field({3: 1}))
