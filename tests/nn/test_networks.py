"""Whole networks from layers: residual blocks, branches, masks, modules of the user's, sequences in sequences."""

from __future__ import annotations

import pytest
import torch

from intertwine import nn as tnn
from intertwine.errors import InputError, TypeMismatchError
from intertwine.groups import SO2, Cyclic, Dihedral
from intertwine.spaces import FieldType, Grid2d
from intertwine.testing import assert_conforms, assert_equivariant

D4 = Dihedral(4)
PLANE = Grid2d(D4)
X, Y = PLANE.field(2 * D4.regular), PLANE.field(4 * D4.regular)


def block(x: FieldType, y: FieldType, stride: int = 1) -> tnn.Layer:
    body = tnn.Sequential(
        tnn.Conv2d(x, y, 3, stride=stride, padding=1, bias=False),
        tnn.BatchNorm(y),
        tnn.ReLU(y),
        tnn.Conv2d(y, y, 3, padding=1, bias=False),
        tnn.BatchNorm(y),
    )
    same = x == y and stride == 1
    shortcut = None if same else tnn.Sequential(tnn.Conv2d(x, y, 1, stride=stride, bias=False), tnn.BatchNorm(y))
    return tnn.Sequential(tnn.Residual(body, shortcut), tnn.ReLU(y))


def resnet() -> tnn.Sequential:
    rgb, scores = PLANE.field(3 * D4.trivial), PLANE.field(10 * D4.trivial)
    stem = tnn.Sequential(tnn.Conv2d(rgb, X, 7, stride=2, padding=3, bias=False), tnn.BatchNorm(X), tnn.ReLU(X))
    pool = tnn.MaxPool2d(X, 3, stride=2, padding=1)
    return tnn.Sequential(stem, pool, block(X, X), block(X, Y, 2), tnn.GlobalPool(Y), tnn.Linear(Y, scores))


def test_a_resnet_is_one_typed_network():
    net = resnet()
    assert (net.in_type.rho.name, net.out_type.rho.name) == ("3 trivial", "10 trivial")
    assert net.claim == tnn.Exact()
    assert (net.needs_space, net.keeps_space) == (True, False)
    assert net.output_sizes((33, 33)) == ()
    assert net(torch.randn(2, 3, 33, 33)).shape == (2, 10)
    for training in (False, True):
        assert assert_equivariant(net, training=training) < 1e-10
    with pytest.raises(InputError, match="expected 31 or 33 along the height"):
        net(torch.randn(2, 3, 32, 32))


def test_a_resnet_conforms_and_trains():
    checks = ["claim", "breaks", "state", "copies", "plain", "compile", "export"]
    assert assert_conforms(resnet(), checks=checks) == tuple(checks)
    net, x = resnet(), torch.randn(4, 3, 33, 33)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(net(x), torch.arange(4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert assert_equivariant(net) < 1e-10


def test_branches_that_do_not_meet_are_refused():
    strided = tnn.Conv2d(X, X, 3, stride=2, padding=1)
    with pytest.raises(TypeMismatchError, match="got the identity"):
        tnn.Residual(tnn.Conv2d(X, Y, 3, padding=1))
    with pytest.raises(TypeMismatchError, match=r"from Field\(4 regular"):
        tnn.Residual(tnn.Conv2d(X, X, 3, padding=1), tnn.ReLU(Y))
    with pytest.raises(TypeMismatchError, match="GlobalPool, which does not"):
        tnn.Residual(tnn.GlobalPool(X))
    with pytest.raises(TypeMismatchError, match="branch 1 from"):
        tnn.Concat(tnn.ReLU(X), tnn.ReLU(Y))
    other = Grid2d(Cyclic(4)).field(Cyclic(4).regular)
    with pytest.raises(TypeMismatchError, match="branch 1 from"):
        tnn.Concat(tnn.Identity(other), tnn.ReLU(Y))
    with pytest.raises(InputError, match="got nothing"):
        tnn.Concat()
    with pytest.raises(InputError, match="Plain"):
        tnn.Concat(torch.nn.ReLU())
    for layer in (tnn.Residual(strided), tnn.Concat(strided, tnn.Identity(X))):
        with pytest.raises(InputError, match="outputs of the same sizes"):
            layer.output_sizes((9, 9))
        with pytest.raises(InputError, match="outputs of the same sizes"):
            layer(torch.zeros(1, 16, 9, 9))
    # A body that ends in one sample would be broadcast.
    with pytest.raises(InputError, match="outputs of the same sizes"):
        tnn.Residual(tnn.Conv2d(X, X, 9))(torch.zeros(1, 16, 9, 9))


def test_a_sequence_knows_where_space_ends():
    vectors = tnn.Sequential(tnn.GlobalPool(X), tnn.Linear(X, Y))
    with pytest.raises(TypeMismatchError, match="values without spatial axes"):
        tnn.Sequential(vectors, tnn.Conv2d(Y, Y, 3))
    with pytest.raises(TypeMismatchError, match="values without spatial axes"):
        tnn.Sequential(
            tnn.Residual(tnn.Sequential(tnn.ReLU(X), tnn.GlobalPool(X)), tnn.GlobalPool(X)), tnn.BatchNorm(X)
        )
    values = tnn.Residual(tnn.Sequential(tnn.Linear(X, X), tnn.ReLU(X)))
    assert not values.needs_space
    net = tnn.Sequential(vectors, tnn.ReLU(Y), tnn.Linear(Y, X), values)
    assert net(torch.randn(2, 16, 5, 5)).shape == (2, 16)
    assert assert_equivariant(net) < 1e-10


def test_claims_follow_from_parts():
    C8 = Cyclic(8)
    field = Grid2d(C8).field(C8.regular)
    conv = tnn.Conv2d(field, field, 5, padding=2)
    bound = conv.claim.bound
    assert tnn.Residual(conv).claim.bound == bound
    assert tnn.Concat(conv, tnn.Residual(conv)).claim.bound == 2 * bound
    assert tnn.Residual(tnn.Conv2d(X, X, 3, padding=1)).claim == tnn.Exact()
    relaxed = tnn.Plain(torch.nn.Identity(), X, X, tnn.Relaxed({"D4": 0.25}))
    assert tnn.Residual(tnn.Sequential(relaxed, tnn.ReLU(X))).claim == tnn.Relaxed({"D4": 0.25})


def test_steps_and_interiors_of_composed_layers():
    conv = tnn.Conv2d(X, X, 3, padding=1)
    net = tnn.Sequential(conv, tnn.ReLU(X), tnn.AvgPool2d(X, 2), conv)
    assert net.interior((8, 8)) == (2, 2)
    assert net.shift_step((8, 8)) is None
    assert tnn.Residual(tnn.Sequential(conv, conv)).interior((8, 8)) == (1, 2)
    assert tnn.Residual(tnn.AvgPool2d(X, 1)).shift_step((8, 8)) == 1
    strided = tnn.Concat(tnn.AvgPool2d(X, 2), tnn.MaxPool2d(X, 2))
    assert (strided.shift_step((8, 8)), strided.interior((8, 8))) == (2, (2, 0))
    periodic = tnn.Conv2d(X, X, 3, padding=1, padding_mode="circular")
    assert tnn.Sequential(conv, periodic).interior((8, 8)) is None
    assert tnn.Residual(periodic).shift_step((8, 8)) == 1


def test_interiors_are_true():
    torch.manual_seed(0)
    conv = tnn.Conv2d(X, X, 3, padding=1)
    for body in (conv, tnn.Sequential(conv, tnn.ReLU(X), conv)):
        net = tnn.Sequential(tnn.Residual(body), tnn.MaxPool2d(X, 3, stride=2, padding=1), conv).double()
        step, margin = net.interior((17, 17))
        scene = torch.randn(1, 16, 17 + step, 17 + step, dtype=torch.float64)
        here, there = net(scene[..., step:, step:]), net(scene[..., :-step, :-step])  # there = here, one sample on
        error = (there[..., 1:, 1:] - here[..., :-1, :-1]).abs()
        inner = slice(margin, error.shape[-1] - margin)
        assert error[..., inner, inner].max() < 1e-12 < 1e-6 < error.max()


def test_a_mask_is_a_ball():
    mask = tnn.Mask(PLANE.field(D4.trivial), 17, margin=3, sigma=1.5)
    m = mask(torch.ones(1, 1, 17, 17))[0, 0]
    assert torch.equal(m, torch.rot90(m))
    assert torch.equal(m, m.T)
    assert m[8, 8] == 1 == m[8, 3] > m[8, 2] > m[8, 1] > m[8, 0] > 0 == m[1, 1]
    with pytest.raises(InputError, match=r"sizes \(17, 17\)"):
        mask(torch.ones(1, 1, 15, 15))
    with pytest.raises(InputError, match="margin"):
        tnn.Mask(X, 9, margin=-1)
    with pytest.raises(InputError, match="one size, or 2"):
        tnn.Mask(X, (9, 9, 9))
    assert tnn.Sequential(mask, tnn.ReLU(mask.out_type)).fixed_sizes == (17, 17)


def test_a_mask_makes_turns_of_the_array_harmless():
    """Corners leave the array under a turn by 45°: without the mask the scores of a network would change."""
    so2 = SO2()
    plane = Grid2d(so2)
    scalar = plane.field(so2.trivial)
    net = tnn.Sequential(tnn.Mask(scalar, 33), tnn.GlobalPool(scalar)).double()
    axis = torch.linspace(0, 3, 33, dtype=torch.float64)
    f = (1 + torch.sin(axis)[:, None] * torch.cos(axis))[None, None]
    g = plane.motion([0, 0], so2.exp(torch.tensor([torch.pi / 4], dtype=torch.float64)))
    turned = scalar.transform(f, g, padding="zeros")
    with_mask = float((net(turned) - net(f)).abs() / net(f).abs())
    without = float((turned.mean() - f.mean()).abs() / f.mean().abs())
    assert with_mask < 1e-3 < 0.05 < without


class Shift(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.roll(1, 1)


def test_plain_modules_are_held_to_their_claims():
    softmax = tnn.Plain(torch.nn.Softmax(dim=1), X, X, tnn.Exact(), shift_step=1)
    assert_equivariant(softmax)
    assert_equivariant(tnn.Sequential(tnn.Conv2d(X, X, 3), softmax, tnn.GroupPool(X)))
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(tnn.Plain(Shift(), X, X, tnn.Exact()))
    with pytest.raises(AssertionError, match="does not commute"):
        assert_equivariant(tnn.Sequential(tnn.ReLU(X), tnn.Plain(torch.nn.Conv2d(16, 16, 3), X, X, tnn.Exact())))


def test_plain_modules_state_their_shapes():
    pool = tnn.Plain(torch.nn.MaxPool2d(2), X, X, tnn.Exact())
    assert pool.output_sizes((8, 8)) == (4, 4)
    with pytest.raises(InputError, match="sizes that Conv2d takes"):
        tnn.Plain(torch.nn.Conv2d(16, 16, 5), X, X, tnn.Exact()).output_sizes((3, 3))
    head = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16 * 9, 32))
    flat = tnn.Plain(head, X, Y, tnn.Approximate("free weights", bound=10.0), keeps_space=False, size=3)
    assert flat.output_sizes((3, 3)) == ()
    assert flat(torch.zeros(2, 16, 3, 3)).shape == (2, 32)
    with pytest.raises(InputError, match=r"sizes \(3, 3\)"):
        flat.output_sizes((4, 4))
    with pytest.raises(InputError, match=r"the 32 channels of .* and 2 spatial axes; got shape \(2, 16, 3, 3\)"):
        tnn.Plain(torch.nn.Identity(), X, Y, tnn.Exact())(torch.zeros(2, 16, 3, 3))


def test_running_a_plain_module_without_data_leaves_it_alone():
    norm = torch.nn.BatchNorm2d(16).train()
    tnn.Plain(norm, X, X, tnn.Exact()).output_sizes((8, 8))
    assert int(norm.num_batches_tracked) == 0
    assert torch.equal(norm.running_mean, torch.zeros(16))
