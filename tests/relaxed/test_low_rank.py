"""Low-rank layers: two paths that check each other, the ends of the family, and what bad input is told."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import conv2d

from intertwine._cost_rules import building_pays
from intertwine.errors import InputError
from intertwine.relaxed import (
    InputLowRankLocalConv2d,
    LocallyConnected2d,
    LowRankLocalConv2d,
    SpatialBias2d,
    combining_maps,
    flops_against_rank,
    to_locally_connected,
    wide_conv_width,
)
from tests.compiling import compiled

MODES = ("softmax", "norm", "none")
SHARINGS = ("factorized", "full", "rows", "columns")


def made(*, perturbed: float = 0.7, seed: int = 0, **options) -> LowRankLocalConv2d:
    torch.manual_seed(seed)
    options = {"rank": 3, "input_size": (8, 7), **options}
    return LowRankLocalConv2d(2, 4, 3, **options).double().perturb_(perturbed)


def images(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def by_hand(layer: LowRankLocalConv2d, x: torch.Tensor) -> torch.Tensor:
    """The definition, place by place: no path of the layer is used."""
    window, w = layer.window, layer.combining_weights()
    (sh, sw), (dh, dw), (kh, kw) = window.stride, window.dilation, window.kernel_size
    padded = window.padded(x)
    out = x.new_zeros(x.shape[0], layer.out_type.dim, *layer.places.output_size)
    for i in range(layer.places.output_size[0]):
        for j in range(layer.places.output_size[1]):
            rows, columns = i * sh + dh * torch.arange(kh), j * sw + dw * torch.arange(kw)
            patch = padded[:, :, rows][..., columns]
            bank = sum(w[k, i, j] * layer.weight[k] for k in range(layer.rank))
            out[:, :, i, j] = torch.einsum("ncab,ocab->no", patch, bank)
            if layer.spatial is not None:
                out[:, :, i, j] += layer.spatial()[0, i, j]
    return out if layer.bias is None else out + layer.bias[:, None, None]


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("normalize", MODES)
def test_the_paths_agree_with_the_definition(normalize, sharing):
    layer = made(normalize=normalize, sharing=sharing, stride=(2, 1), padding=(1, 0), dilation=(1, 2))
    with torch.no_grad():
        layer.bias.normal_()
    x = images(3, 2, 8, 7)
    expected = by_hand(layer, x)
    for path in ("conv", "build"):
        layer.path = path
        assert (layer(x) - expected).abs().max() < 1e-12, path
        with torch.no_grad():  # evaluation has a loop of its own on the conv path
            assert (layer(x) - expected).abs().max() < 1e-12, path
    with torch.no_grad():
        assert (layer.to_locally_connected()(x) - expected).abs().max() < 1e-12
    assert (by_hand(layer.perturb_(0.1), x) - expected).abs().max() > 1e-3, "the comparison can fail"


def test_the_paths_have_the_same_gradients():
    x = images(3, 2, 8, 7)
    gradients = []
    for path in ("conv", "build"):
        layer = made(path=path)
        layer(x).square().sum().backward()
        gradients.append([p.grad for p in layer.parameters()])
    for first, second in zip(*gradients, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("path", ["conv", "build"])
def test_gradcheck(path):
    layer = made(path=path, input_size=(4, 5), rank=2, normalize="norm")
    names, values = zip(*layer.named_parameters(), strict=True)

    def run(x, *weights):
        return torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), x)

    assert torch.autograd.gradcheck(run, (images(2, 2, 4, 5).requires_grad_(), *values))


def test_the_path_is_chosen_by_cost(monkeypatch):
    torch.manual_seed(0)
    taken = []
    for name in ("combined_outputs", "combined_banks"):
        plain = getattr(LowRankLocalConv2d, name)
        monkeypatch.setattr(
            LowRankLocalConv2d, name, lambda self, x, w, n=name, f=plain: (taken.append(n), f(self, x, w))[1]
        )
    for channels, rank, batch in ((4, 4, 32), (4, 4, 31), (4, 3, 32), (3, 2, 32), (3, 1, 32)):
        LowRankLocalConv2d(channels, 2, 3, rank=rank, input_size=5)(torch.zeros(batch, channels, 5, 5))
    assert taken == ["combined_banks", "combined_outputs", "combined_outputs", "combined_banks", "combined_outputs"]
    just = {"positions": 100, "fan": 1000, "batch": 64}
    assert building_pays(7, width=100, **just)
    assert not building_pays(7, width=101, **just)


def test_rank_one_is_convolution_with_spatial_bias():
    layer = made(rank=1)
    plain = SpatialBias2d(4, input_size=(6, 5), bias=True).double()
    plain.load_state_dict({k: v for k, v in layer.state_dict().items() if "combining" not in k and k != "weight"})
    x = images(3, 2, 8, 7)
    assert torch.equal(layer.combining_weights(), torch.ones(1, 6, 5, dtype=torch.float64))
    assert (layer(x) - plain(conv2d(x, layer.weight[0]))).abs().max() < 1e-14


@pytest.mark.parametrize("normalize", MODES)
@pytest.mark.parametrize("sharing", SHARINGS)
def test_structured_initialization_is_a_convolution(normalize, sharing):
    layer = made(perturbed=0, normalize=normalize, sharing=sharing)
    scale = 1 / 3 if normalize == "softmax" else 3**-0.5
    w = layer.combining_weights()
    assert torch.allclose(w, torch.full_like(w, scale), atol=1e-7)  # 1/√3 was rounded to float32
    x = images(3, 2, 8, 7)
    mean = w[:, 0, 0, None, None, None, None] * layer.weight
    assert (layer(x) - conv2d(x, mean.sum(0))).abs().max() < 1e-12
    assert max(layer.relaxation().values()) < 1e-15


def test_training_can_leave_the_structured_start():
    """The banks differ, so the combining weights have a gradient although all of them are equal."""
    layer = made(perturbed=0)
    layer(images(3, 2, 8, 7)).square().sum().backward()
    assert layer.combining.rows.grad.abs().min() > 1e-6
    assert layer.combining.columns.grad.abs().min() > 1e-6


def test_random_initialization():
    torch.manual_seed(0)
    layer = LowRankLocalConv2d(1, 1, 3, rank=40, input_size=(26, 14), init="random", sharing="full")
    bound = (6 / (24 * 12)) ** 0.5
    assert layer.combining.full.abs().max() <= bound
    assert layer.combining.full.detach().std() == pytest.approx(bound / 3**0.5, rel=0.05)
    rows = LowRankLocalConv2d(1, 1, 3, rank=40, input_size=(26, 14), init="random").combining.rows
    assert (6 / 24) ** 0.5 * 0.9 < rows.abs().max() <= (6 / 24) ** 0.5
    banks = layer.weight.abs().max()
    assert (6 / 9) ** 0.5 * 0.9 < banks <= (6 / 9) ** 0.5, "the fan does not include the rank"


def test_weights_are_normalized_over_the_banks():
    assert (made(sharing="full").combining_weights().sum(0) - 1).abs().max() < 1e-14
    assert (made(normalize="norm").combining_weights().norm(dim=0) - 1).abs().max() < 1e-14
    nothing = made(normalize="norm")
    for values in nothing.combining.parameters():
        torch.nn.init.zeros_(values)
    nothing(images(1, 2, 8, 7)).sum().backward()
    assert torch.isfinite(nothing.combining.rows.grad).all()


def test_factorized_is_a_special_full():
    tied, free = made(), made(sharing="full")
    free.load_state_dict(
        {
            "weight": tied.weight,
            "bias": tied.bias,
            "combining.full": tied.combining(),
            "spatial.full": tied.spatial(),
        }
    )
    x = images(3, 2, 8, 7)
    assert (free(x) - tied(x)).abs().max() < 1e-14


def test_full_rank_is_any_locally_connected_layer():
    """One bank for each place, chosen by weights that are 1 there and 0 elsewhere."""
    torch.manual_seed(0)
    local = LocallyConnected2d(2, 4, 3, input_size=(5, 6), bias=False).double()
    layer = LowRankLocalConv2d(
        2, 4, 3, rank=12, input_size=(5, 6), normalize="none", sharing="full", bias=False, spatial_bias=False
    ).double()
    with torch.no_grad():
        layer.weight.copy_(local.weight.movedim(-1, 2))
        layer.combining.full.copy_(torch.eye(12).reshape(12, 3, 4))
    x = images(3, 2, 5, 6)
    assert (layer(x) - local(x)).abs().max() < 1e-13


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_the_banks_of_all_places_have_this_rank(rank):
    banks = made(rank=rank, sharing="full", normalize="none").to_locally_connected().weight.flatten(1)
    assert banks.shape == (30, 4 * 18)
    assert int(torch.linalg.matrix_rank(banks)) == rank


def test_banks_of_different_sizes():
    torch.manual_seed(0)
    layer = LowRankLocalConv2d(
        2, 4, [3, 1, 5], rank=3, input_size=8, padding="same", dilation=[2, 1, 1], bias=False, spatial_bias=False
    ).double()
    layer.perturb_(0.7)
    x = images(3, 2, 8, 8)
    w = layer.combining_weights()
    parts = zip(layer.banks(), (2, 1, 1), strict=True)
    outputs = [conv2d(x, bank, padding="same", dilation=d) for bank, d in parts]
    expected = sum(w[k] * y for k, y in enumerate(outputs))
    assert (layer(x) - expected).abs().max() < 1e-13
    with torch.no_grad():
        assert (layer(x) - expected).abs().max() < 1e-13
    with pytest.raises(InputError, match="banks of one kernel size"):
        layer.to_locally_connected()
    assert type(to_locally_connected(layer)) is LowRankLocalConv2d


def test_same_padding_with_strides():
    """⌈n / s⌉ places; the odd zero comes last."""
    layer = made(input_size=(8, 7), stride=2, padding="same")
    assert layer.places.output_size == (4, 4)
    assert layer.window.padding == ((0, 1), (1, 1))
    x = images(2, 2, 8, 7)
    assert (layer(x) - by_hand(layer, x)).abs().max() < 1e-13
    assert (layer.to_locally_connected()(x) - by_hand(layer, x)).abs().max() < 1e-13


@pytest.mark.parametrize("size", [5, 7, 17, 32])
@pytest.mark.parametrize("rank", [1, 4])
def test_the_combining_network(size, rank):
    torch.manual_seed(0)
    layer = InputLowRankLocalConv2d(6, 3, 3, rank=rank, input_size=size)
    places = size - 2
    rates = {5: (1, 2), 7: (1, 2), 17: (1, 2, 4, 8), 32: (1, 2, 4, 8)}[size]
    assert layer.network.rates == rates
    x = torch.randn(2, 6, size, size)
    w = layer.combining_weights(x)
    assert w.shape == (2, rank, places, places)
    assert (w.sum(1) - 1).abs().max() < 1e-5
    count = sum(p.numel() for p in layer.network.parameters())
    missing = 4 - len(rates)
    # A dilation that does not fit takes its filters, 10 K numbers, and its share of the first 1 x 1 map, 3 K², along.
    assert count == 42 * rank**2 + 51 * rank + 6 * rank - missing * (10 * rank + 3 * rank**2)


def test_the_combining_network_step_by_step():
    """The same numbers, with every step written out."""
    torch.manual_seed(0)
    layer = InputLowRankLocalConv2d(3, 4, 3, rank=2, input_size=9).double()
    for values in layer.network.parameters():
        torch.nn.init.normal_(values)
    g, x = layer.network, images(2, 3, 9, 9)
    z = torch.einsum("kc,nchw->nkhw", g.reduce.weight[:, :, 0, 0], x) + g.reduce.bias[:, None, None]
    branches = [z, z.mean((2, 3), keepdim=True)]
    for rate, filters in zip((1, 2, 4), g.dilated, strict=True):
        size = 9 - 2 * rate
        taps = [
            filters.weight[:, 0, a, b, None, None] * z[:, :, a * rate : a * rate + size, b * rate : b * rate + size]
            for a in range(3)
            for b in range(3)
        ]
        branches.append(sum(taps) + filters.bias[:, None, None])
    maps = torch.cat([resized(branch, 7) for branch in branches], 1)
    hidden = torch.einsum("kc,nchw->nkhw", g.squeeze.weight[:, :, 0, 0], maps) + g.squeeze.bias[:, None, None]
    hidden = torch.einsum("kc,nchw->nkhw", g.excite.weight[:, :, 0, 0], hidden.relu()) + g.excite.bias[:, None, None]
    logits = torch.einsum("kc,nchw->nkhw", g.combine.weight[:, :, 0, 0], hidden.sigmoid())
    w = (logits + g.combine.bias[:, None, None]).softmax(1)
    assert (layer.combining_weights(x) - w).abs().max() < 1e-12
    outputs = [conv2d(x, bank) for bank in layer.banks()]
    expected = sum(w[:, k, None] * y for k, y in enumerate(outputs))
    assert (layer(x) - expected).abs().max() < 1e-12
    with torch.no_grad():
        assert (layer(x) - expected).abs().max() < 1e-12


def resized(maps: torch.Tensor, size: int) -> torch.Tensor:
    """Bilinear with aligned corners, as a product with the matrix of linear interpolation on each side."""
    n = maps.shape[-1]
    at = torch.linspace(0, n - 1, size, dtype=torch.float64)
    matrix = (1 - (at[:, None] - torch.arange(n)).abs()).clamp_min(0)
    return torch.einsum("ih,nkhw,jw->nkij", matrix, maps, matrix)


def test_the_wide_rule():
    assert [wide_conv_width(3, 64, k) for k in (1, 2, 4)] == [64, 66, 72]
    assert [wide_conv_width(64, 64, k) for k in (2, 4)] == [96, 160]
    assert wide_conv_width(1, 64, 2) == 64
    assert wide_conv_width(64, 64, 4, last=True) == 256
    with pytest.raises(InputError, match="rank of 1 or more"):
        wide_conv_width(3, 64, 0)


def test_costs_against_rank():
    costs = flops_against_rank(64, 64, 3, input_size=28, ranks=range(1, 8))
    assert {cost.converted for cost in costs} == {2 * 26 * 26 * 64 * 9 * 64}
    assert [cost.wide / costs[0].wide for cost in costs] == list(range(1, 8))
    fourth = costs[3]
    assert fourth.low_rank == 2 * (4 * 26 * 26 * 64 * 9 * 64 + 4 * 26 * 26 * 64)
    g = 28 * 28 * 64 * 4 + 9 * 4 * sum((28 - 2 * r) ** 2 for r in (1, 2, 4, 8)) + 42 * 16 * 26 * 26
    assert fourth.input_low_rank == fourth.low_rank + 2 * g


def test_combining_maps():
    layer = made(sharing="full")
    assert torch.equal(combining_maps(layer), layer.combining_weights())
    asks = InputLowRankLocalConv2d(2, 4, 3, rank=2, input_size=8).double()
    assert combining_maps(asks, images(3, 2, 8, 8)).shape == (3, 2, 6, 6)
    with pytest.raises(InputError, match="images for a layer whose combining weights depend"):
        combining_maps(asks)
    with pytest.raises(InputError, match=r"\(batch, 2, 8, 8\)"):
        combining_maps(asks, images(3, 2, 9, 8))


def test_the_equivariant_point_keeps_the_mean_filter():
    for normalize in ("softmax", "none"):
        layer = made(normalize=normalize, sharing="full")
        before = layer.built_banks(layer.combining_weights()).mean(0)
        layer.to_equivariant_()
        after = layer.built_banks(layer.combining_weights())
        assert (after - before).abs().max() < 1e-13


def test_compiled_exported_and_in_half_precision():
    layer = made(rank=4).float().eval()
    x = images(16, 2, 8, 7).float()
    with torch.no_grad():
        expected = layer(x)
        program = torch.export.export(layer, (x,))
        torch.testing.assert_close(program.module()(x), expected)
        for path in ("conv", "build"):
            layer.path = path
            with torch.autocast("cpu", torch.bfloat16):
                assert (layer(x) - expected).abs().max() < 0.1 * expected.abs().max()
    for other in (layer, InputLowRankLocalConv2d(2, 4, 3, rank=2, input_size=(8, 7))):
        torch.testing.assert_close(compiled(other, "aot_eager")(x), other(x), rtol=1e-4, atol=1e-5)
        with torch.autocast("cpu", torch.bfloat16):
            other(x).sum().backward()


@pytest.mark.parametrize("layer", [LowRankLocalConv2d, InputLowRankLocalConv2d])
def test_bad_input(layer):
    def build(*arguments, **options):
        return layer(*(arguments or (2, 4, 3)), **{"rank": 2, "input_size": 8, **options})

    for rank, text in ((0, "of 1 or more"), (-1, "of 1 or more"), (2.0, "to be a whole number")):
        with pytest.raises(InputError, match=rf"{layer.__name__}: expected rank {text}; got {rank}"):
            build(rank=rank)
    with pytest.raises(InputError, match=r"rank of at most 36, the number of places \(6 x 6\); got 37"):
        build(rank=37)
    with pytest.raises(InputError, match="normalize to be 'softmax', 'norm' or 'none'; got 'sparsemax'"):
        build(normalize="sparsemax")
    with pytest.raises(InputError, match=r"an input of at least 3 along the height; got sizes \(2, 8\)"):
        build(input_size=(2, 8))
    with pytest.raises(InputError, match="padding='same' for banks of different"):
        build(2, 4, [3, 5])
    with pytest.raises(InputError, match="kernel_size to be one for all banks, or a list of 2"):
        build(2, 4, [3, 5, 7], padding="same")
    with pytest.raises(InputError, match=r"padding to be a whole number, a tuple \(int, int\) or 'same'"):
        build(padding="valid")
    for stride in (0, (1, 2, 3), 1.5):
        with pytest.raises(InputError, match=r"stride (of at least 1|to be a whole number)"):
            build(stride=stride)
    with pytest.raises(InputError, match="1 or more channels"):
        build(0, 4, 3)
    good = build()
    for shape in ((3, 2, 9, 8), (3, 1, 8, 8), (2, 8, 8)):
        with pytest.raises(InputError, match=r"\(batch, 2, 8, 8\); got .* build it for the size of its input"):
            good(torch.zeros(shape))


def test_bad_choices():
    with pytest.raises(InputError, match="sharing to be 'factorized'"):
        made(sharing="diagonal")
    with pytest.raises(InputError, match="init to be 'structured' or 'random'"):
        made(init="zeros")
    with pytest.raises(InputError, match="path to be 'auto', 'conv' or 'build'"):
        made(path="fast")
    with pytest.raises(InputError, match="path='conv' or 'auto'"):
        LowRankLocalConv2d(2, 4, [3, 5], rank=2, input_size=8, padding="same", path="build")
