"""The depthwise convolution and the block built on it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn.functional import conv2d, gelu

from intertwine import _cost_rules
from intertwine.errors import InputError, TypeMismatchError
from intertwine.groups import SO2, Cyclic, Dihedral
from intertwine.nn import Approximate, Conv2d, ConvNeXtBlock, DepthwiseConv2d, Exact, to_plain
from intertwine.spaces import Grid2d
from intertwine.testing import assert_equivariant

C4, D4, C8, D1 = Cyclic(4), Dihedral(4), Cyclic(8), Dihedral(1)


@pytest.mark.parametrize("group", [D1, C4, D4, C8], ids=lambda group: group.name)
@pytest.mark.parametrize("k", [3, 5])
def test_depthwise_filters_are_the_diagonal_of_dense_ones(group, k: int) -> None:
    """Every dense filter between regular fields, cut to its diagonal, is one of ours; and we have no others."""
    field = Grid2d(group).field(group.regular)
    depthwise, dense = DepthwiseConv2d(field, k, bias=False).double(), Conv2d(field, field, k, bias=False).double()
    weight = dense.weights[0]
    n = weight.numel()
    cut = []
    with torch.no_grad():
        for one in torch.eye(n, dtype=torch.float64):
            weight.copy_(one.view_as(weight))
            cut.append(dense.expand()[0].diagonal(dim1=0, dim2=1).permute(2, 0, 1).flatten())
        ours = []
        free = depthwise.weights[0]
        for one in torch.eye(free.numel(), dtype=torch.float64):
            free.copy_(one.view_as(free))
            ours.append(depthwise.expand()[0].flatten())
    rank = torch.linalg.matrix_rank(torch.stack(cut), rtol=1e-9)
    assert rank == len(ours) == torch.linalg.matrix_rank(torch.stack(ours), rtol=1e-9)
    assert torch.linalg.matrix_rank(torch.stack([*cut, *ours]), rtol=1e-9) == rank


def test_depthwise_is_a_dense_convolution_with_a_masked_filter() -> None:
    field = Grid2d(D4).field(D4.regular + D4.trivial + D4.quotient(D4.subgroup([4])))
    layer = DepthwiseConv2d(field, 3, padding=1).double()
    with torch.no_grad():
        layer.bias.normal_()  # type: ignore[union-attr]
    filters, bias = layer.expand()
    assert filters.shape == (field.dim, 1, 3, 3)
    dense = torch.diag_embed(filters[:, 0].permute(1, 2, 0)).permute(2, 3, 0, 1)
    x = torch.randn(2, field.dim, 5, 5, dtype=torch.float64)
    assert (layer(x) - conv2d(x, dense, bias, padding=1)).abs().max() < 1e-12
    assert assert_equivariant(layer) < 1e-12


def test_depthwise_claims() -> None:
    assert DepthwiseConv2d(Grid2d(D4).field(D4.regular), 3).claim == Exact()
    layer = DepthwiseConv2d(Grid2d(C8).field(C8.regular), 7, padding=3)
    assert isinstance(layer.claim, Approximate)
    assert_equivariant(layer)
    turned = DepthwiseConv2d(Grid2d(C8).field(C8.regular), 7, padding=3)
    with torch.no_grad():
        filters = turned.expand()[0]
    spoiled = copy.deepcopy(turned)
    spoiled.expand = lambda: (filters.double().flip(0), None)  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(spoiled)


def test_depthwise_is_conv2d_with_one_group_a_channel() -> None:
    field = Grid2d(C4).field(3 * C4.regular)
    one, other = DepthwiseConv2d(field, 3, padding="same"), Conv2d(field, field, 3, padding="same", groups=12)
    other.load_state_dict(one.state_dict())
    x = torch.randn(2, 12, 5, 5)
    assert torch.equal(one(x), other(x))
    assert one.groups == one.to_plain().groups == 12  # type: ignore[attr-defined]


def test_unit_noise_keeps_its_size() -> None:
    field = Grid2d(D4).field(40 * D4.regular)
    y = DepthwiseConv2d(field, 7, padding=3, padding_mode="circular")(torch.randn(4, 320, 16, 16))
    assert 0.9 < float(y.detach().std()) < 1.1


def test_types_whose_channels_are_not_permuted_are_refused() -> None:
    so2 = SO2()
    for field in (Grid2d(D4).field(D4.regular + D4.irrep(1)), Grid2d(so2).field(so2.irrep(1))):
        with pytest.raises(TypeMismatchError, match=r"DepthwiseConv2d: .*permutes the channels.*Use Conv2d"):
            DepthwiseConv2d(field, 3)
        with pytest.raises(TypeMismatchError, match=r"ConvNeXtBlock: .*permutes the channels"):
            ConvNeXtBlock(field)
    with pytest.raises(TypeMismatchError, match="split into groups"):
        Conv2d(Grid2d(D4).field(D4.irrep(1)), Grid2d(D4).field(D4.irrep(1)), 3, groups=2)
    field = Grid2d(D4).field(D4.regular)
    with pytest.raises(InputError, match="expansion"):
        ConvNeXtBlock(field, expansion=0)
    with pytest.raises(InputError, match=r"ConvNeXtBlock: .*odd kernel"):
        ConvNeXtBlock(field, 4)


def by_hand(block: ConvNeXtBlock, x: torch.Tensor) -> torch.Tensor:
    """The block from the expanded matrices of its parts, step by step."""
    y = block.norm(block.depthwise(x))
    for linear in (block.expand, block.contract):
        matrix, bias = linear.expand()
        y = torch.einsum("ij,bjhw->bihw", matrix[..., 0, 0], y) + bias[:, None, None]
        y = gelu(y) if linear is block.expand else y
    return x + y if block.scale is None else x + block.fields(block.scale)[:, None, None] * y


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_block_by_hand(eager: bool, mixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if eager:
        for name, value in (("TURN", 0), ("MOVE", 0), ("START", -1)):
            monkeypatch.setattr(_cost_rules, name, value)
    rho = D4.regular + 2 * D4.trivial + D4.quotient(D4.subgroup([4])) + D4.regular if mixed else 2 * D4.regular
    block = ConvNeXtBlock(Grid2d(D4).field(rho), kernel_size=3, expansion=2, layer_scale=0.7).double()
    assert (block.expand.point is not None) == eager
    with torch.no_grad():
        for p in block.parameters():
            p.add_(0.3 * torch.randn_like(p))
    x = torch.randn(2, rho.dim, 5, 5, dtype=torch.float64, requires_grad=True)
    expected = by_hand(block, x)
    g = torch.randn_like(expected)
    inputs = [x, *block.parameters()]
    gradients = torch.autograd.grad(expected, inputs, g)
    for mode in (True, False):
        y = block.train(mode)(x)
        assert (y - expected).abs().max() < 1e-12 * expected.abs().max()
        for a, b in zip(gradients, torch.autograd.grad(y, inputs, g), strict=True):
            assert (a - b).abs().max() < 1e-11 * a.abs().max()
    assert assert_equivariant(block) < 1e-12
    assert torch.autograd.gradgradcheck(lambda x: block(x).sin(), x.detach()[:1].requires_grad_(), fast_mode=True)
    plain = to_plain(block)
    with torch.no_grad():
        assert (plain(x) - expected).abs().max() < 1e-12 * expected.abs().max()


def test_the_block_begins_as_the_identity() -> None:
    x = torch.randn(2, 16, 9, 9)
    block = ConvNeXtBlock(Grid2d(D4).field(2 * D4.regular))
    assert 0 < (block(x) - x).abs().max() < 1e-4
    assert ConvNeXtBlock(block.in_type, layer_scale=None).scale is None
    assert next(name for name, _ in block.named_parameters()) == "scale"
