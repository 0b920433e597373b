"""The ways that cost rules choose between agree: outputs, gradients and the keys of the state."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv1d, conv2d, conv3d
from torch.utils._python_dispatch import TorchDispatchMode

from intertwine import _cost_rules, nn, relaxed
from intertwine.groups import SO2, SO3, Cyclic, Dihedral, direct_sum
from intertwine.nn import Layer, Window, band_limited_regular, cost_rules
from intertwine.nn.basis._mix import mix, mixing
from intertwine.relaxed.soft._soft_variants import cheapest
from intertwine.spaces import Grid2d, Grid3d, Sphere
from tests.compiling import compiled

C4, C8, D4, so3 = Cyclic(4), Cyclic(8), Dihedral(4), SO3()
PLANE4, PLANE8, PLANE = Grid2d(C4), Grid2d(C8), Grid2d(D4)


class Watched(TorchDispatchMode):
    """Show every tensor that this operation gets."""

    def __init__(self, name: str, note: Callable[[Tensor], None]) -> None:
        super().__init__()
        self.name, self.note = name, note

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func.name() == self.name:
            self.note(args[0])
        return func(*args, **(kwargs or {}))


def conv(plane: Grid2d, copies: int, kernel_size: int) -> Layer:
    group = plane.stabilizer
    return nn.Conv2d(plane.field(copies * group.regular), plane.field(2 * group.regular), kernel_size)


def linear() -> Layer:
    field = PLANE.field(32 * D4.regular)
    return nn.Linear(field, field)


def product() -> Layer:
    space, rho = Grid3d(so3), 16 * so3.irrep(0) + 16 * so3.irrep(1)
    return nn.TensorProduct(space.field(rho), space.field(rho))


def is_flat(layer: Layer, x: Tensor) -> bool:
    return layer.expansion.blocks[0]._flat


def multiplies_first(layer: Layer, x: Tensor) -> bool:
    return layer.expansion.blocks[0]._product_first


def several_columns(layer: Layer, x: Tensor) -> bool:
    return layer.expansion.blocks[0]._at_once > 1


def is_product(layer: Layer, x: Tensor) -> bool:
    used: list[Tensor] = []
    with Watched("aten::convolution", used.append):
        layer(x)
    return not used


def in_irreducible_basis(layer: Layer, x: Tensor) -> bool:
    point = layer.expand.point if isinstance(layer, nn.ConvNeXtBlock) else layer.point
    return point is not None and point.pays(x)


def by_path(layer: Layer, x: Tensor) -> bool:
    return bool(layer.paths.paths)


def not_einsum(layer: Layer, x: Tensor) -> bool:
    return mixing(x) is not mix


def by_rank(layer: Layer, x: Tensor) -> bool:
    return cheapest(layer._sizes(x[:, :, None], 1, True, True)) == "rank"


def factored(layer: Layer, x: Tensor) -> bool:
    return cheapest(layer._sizes(x.unflatten(1, (-1, 8)), 8, False, True)) == "factored"


def by_fft(layer: Layer, x: Tensor) -> bool:
    return _cost_rules.fft_pays(x.shape[-1])


def in_channels_last(layer: Layer, x: Tensor) -> bool:
    layouts = []

    def note(used: torch.Tensor) -> None:
        layouts.append(used.is_contiguous(memory_format=torch.channels_last))

    with Watched("aten::max_pool2d_with_indices", note):
        layer(x)
    return layouts == [True]


def builds(layer: Layer, x: Tensor) -> bool:
    return layer.cheaper_path(len(x)) == "build"


CASES: dict[str, tuple[Callable[[], Layer], tuple[int, ...], Callable[[Layer, Tensor], bool]]] = {
    "gathered filter": (lambda: conv(PLANE4, 3, 3), (2, 12, 5, 5), is_flat),
    "regular filter": (lambda: conv(PLANE8, 3, 3), (1, 24, 5, 5), multiplies_first),
    "wide regular filter": (lambda: conv(PLANE8, 200, 3), (1, 1600, 3, 3), several_columns),
    "filter over the whole map": (lambda: conv(PLANE4, 3, 4), (5, 12, 4, 4), is_product),
    "Linear": (linear, (512, 256), in_irreducible_basis),
    "Conv2d 1 x 1": (lambda: conv_1x1(), (8, 256, 8, 8), in_irreducible_basis),
    "ConvNeXtBlock": (lambda: block(), (4, 128, 16, 16), in_irreducible_basis),
    "TensorProduct": (product, (3, 64), by_path),
    "TensorProduct in space": (product, (1, 64, 3, 3, 3), not_einsum),
    "TensorSquare": (lambda: nn.TensorSquare(PLANE.field(2 * D4.irrep(1))), (2, 4, 5, 5), not_einsum),
    "FourierNonlinearity": (lambda: nn.FourierNonlinearity(PLANE.field(band_limited_regular(D4))), (3, 8), not_einsum),
    "ToIrreps": (lambda: nn.ToIrreps(PLANE.field(2 * D4.regular)), (2, 16, 5, 5), not_einsum),
    "FromIrreps": (lambda: nn.FromIrreps(PLANE.field(2 * D4.regular)), (3, 16), not_einsum),
    "SoftConv2d": (lambda: relaxed.SoftConv2d(2, 3, 3, learn=True), (1, 2, 6, 6), by_rank),
    "SoftGroupConv2d": (lambda: soft_group(), (1, 512, 3, 3), factored),
    "SphereConv": (lambda: sphere_conv(), (2, 3, 51, 101), by_fft),
    "MaxPool2d": (lambda: max_pool(), (3, 8, 9, 9), in_channels_last),
    "LowRankLocalConv2d": (lambda: low_rank(), (32, 2, 6, 6), builds),
}


def conv_1x1() -> Layer:
    field = PLANE.field(32 * D4.regular)
    return nn.Conv2d(field, field, 1)


def block() -> Layer:
    return nn.ConvNeXtBlock(PLANE.field(16 * D4.regular), 3, layer_scale=0.5)


def sphere_conv() -> Layer:
    sphere, h = Sphere(), SO2()
    return nn.SphereConv(
        sphere.field(h.trivial + h.irrep(1)), sphere.field(h.irrep(2) + h.trivial), sphere.grid(band_limit=50)
    )


def max_pool() -> Layer:
    return nn.MaxPool2d(PLANE4.field(2 * C4.regular), 3, stride=2, padding=1)


def soft_group() -> Layer:
    return relaxed.SoftGroupConv2d(64, 64, 3, samples=8, hidden=2)


def low_rank() -> Layer:
    return relaxed.LowRankLocalConv2d(2, 3, 3, rank=4, input_size=6, init="random")


def results(layer: Layer, x: Tensor) -> list[Tensor]:
    """The output, and the gradients of the input and of all weights."""
    x = x.clone().requires_grad_()
    y = layer(x)
    gradients = torch.autograd.grad(
        (y * torch.linspace(-1, 1, y.numel()).view(y.shape).to(y)).sum(), [x, *layer.parameters()]
    )
    return [y.detach(), *gradients]


@pytest.mark.parametrize("name", CASES)
def test_both_ways_agree(name: str) -> None:
    make, shape, takes_the_fast_way = CASES[name]
    torch.manual_seed(0)
    fast = make().double()
    x = torch.randn(shape, dtype=torch.float64)
    assert takes_the_fast_way(fast, x)
    with cost_rules(enabled=False):
        plain = make().double()
        assert not takes_the_fast_way(plain, x)
        assert plain.state_dict().keys() == fast.state_dict().keys()
        plain.load_state_dict(fast.state_dict())
        expected = results(plain, x)
        switched = results(fast, x)  # built with the rules on, called with them off
    for ours, theirs, also in zip(results(fast, x), expected, switched, strict=True):
        scale = float(theirs.abs().max())
        assert float((ours - theirs).abs().max()) <= 1e-10 * scale
        assert float((also - theirs).abs().max()) <= 1e-10 * scale


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_a_filter_over_the_whole_map_is_the_convolution(dimension: int) -> None:
    """In every dimension, for no images too, and only if there is one position, no padding and no gaps."""
    torch.manual_seed(0)
    sizes, one = (3, 4, 2)[:dimension], (1,) * dimension
    filters, bias = torch.randn(5, 4, *sizes).double(), torch.randn(5).double()
    convolve = (conv1d, conv2d, conv3d)[dimension - 1]
    for images in (0, 2):
        x = torch.randn(images, 4, *sizes).double()
        ours = Window.of(sizes, dimension=dimension).apply(x, filters, bias)
        assert ours.shape == (images, 5, *one)
        torch.testing.assert_close(ours, convolve(x, filters, bias), rtol=0, atol=1e-12)
    larger = torch.randn(2, 4, *(2 * size for size in sizes)).double()
    for changed in ({}, {"padding": 1}, {"dilation": 2}, {"stride": 2}):
        ours = Window.of(sizes, dimension=dimension, **changed).apply(larger, filters, bias)
        torch.testing.assert_close(ours, convolve(larger, filters, bias, **changed), rtol=0, atol=1e-12)
    padded = Window.of(sizes, dimension=dimension, padding=1).apply(x, filters, bias)
    torch.testing.assert_close(padded, convolve(x, filters, bias, padding=1), rtol=0, atol=1e-12)
    grouped = Window.of(sizes, dimension=dimension).apply(x, filters[:4, :2], groups=2)
    torch.testing.assert_close(grouped, convolve(x, filters[:4, :2], groups=2), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("kernel_size", "stride"), [(3, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_maxima_in_another_layout_are_torchs(kernel_size: int, stride: int, layout: torch.memory_format) -> None:
    """To the last bit, with many equal values too: the gradient goes to the same one. The layout is kept."""
    torch.manual_seed(0)
    margin = (kernel_size - 1) // 2
    layer = nn.MaxPool2d(PLANE4.field(2 * C4.regular), kernel_size, stride=stride, padding=margin)
    x = torch.randint(-2, 3, (5, 8, 9, 9)).float().contiguous(memory_format=layout)
    x[0, 0, 4, 4] = float("nan")
    ours, theirs = results(layer, x), results(layer.to_plain(), x)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    assert ours[0].is_contiguous(memory_format=layout)
    stacked = torch.randn(2, 3, 8, 9, 9)
    torch.testing.assert_close(torch.func.vmap(layer)(stacked), torch.stack([layer(part) for part in stacked]))
    _, moved = torch.func.jvp(layer, (stacked[0],), (stacked[1],))
    assert moved.isfinite().all()


def test_the_switch_is_restored_and_can_be_set() -> None:
    with cost_rules(enabled=False):
        assert not _cost_rules.cost_rules_enabled()
        with cost_rules(enabled=True):
            assert _cost_rules.cost_rules_enabled()
        assert not _cost_rules.cost_rules_enabled()
    with pytest.raises(ZeroDivisionError), cost_rules(enabled=False):
        raise ZeroDivisionError
    assert _cost_rules.cost_rules_enabled()
    before = cost_rules(enabled=False)
    assert not _cost_rules.cost_rules_enabled(), "takes effect without a with statement"
    before.__exit__(None, None, None)
    assert _cost_rules.cost_rules_enabled()


def test_a_compiled_layer_obeys_the_switch() -> None:
    layer = linear().double()
    x = torch.randn(4, 256, dtype=torch.float64)
    expected = layer(x)
    with cost_rules(enabled=False):
        assert torch.allclose(compiled(layer, "aot_eager")(x), expected, atol=1e-10)


def test_the_size_that_decides_what_weights_mean_is_no_cost_rule() -> None:
    """Beyond ``DENSE_TABLE`` weights are coefficients of harmonics: a switch must not move it."""
    rho = direct_sum([so3.irrep(1), so3.irrep(2)])
    field = Grid3d(so3).field(rho)
    expansion = nn.FilterExpansion(field, field, (5, 5, 5))
    with cost_rules(enabled=False):
        plain = nn.FilterExpansion(field, field, (5, 5, 5))
    ways = [block.way for block in expansion.blocks]
    assert "harmonic" in ways
    assert ways == [block.way for block in plain.blocks]


@pytest.mark.parametrize("number", range(len(list(nn.PointConv.examples()))))
def test_a_cloud_in_blocks_agrees_with_one_block(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer = list(nn.PointConv.examples())[number].double()
    dimension = layer.in_type.space.dimension
    positions = torch.rand(12, dimension, dtype=torch.float64)
    edges = torch.randint(12, (2, 50))
    x = torch.randn(12, layer.in_type.dim, dtype=torch.float64)
    more = {}
    if layer.edge_features:
        more["edge_features"] = torch.randn(50, layer.edge_features, dtype=torch.float64)
    if layer.periodic:
        more["box"] = 4 * torch.eye(dimension, dtype=torch.float64)
    with cost_rules(enabled=False):
        expected = layer(x, positions, edges, **more).detach()
        assert _cost_rules.edges_at_once(50, x.shape[1]) == 50
    monkeypatch.setattr(_cost_rules, "SMALLEST_BLOCK", 7)
    monkeypatch.setattr(_cost_rules, "BLOCK", 7)
    assert _cost_rules.edges_at_once(50, x.shape[1]) == 7
    with_gradients = layer(x, positions, edges, **more)
    blocks = []
    count = layer.frames.register_forward_hook(lambda _, args, out: blocks.append(len(args[0])))
    with torch.no_grad():
        in_blocks = layer(x, positions, edges, **more)
    count.remove()
    assert blocks == [7] * 7 + [1]
    scale = float(expected.abs().max())
    for values in (with_gradients.detach(), in_blocks):
        assert float((values - expected).abs().max()) <= 1e-12 * scale
