"""The one window of all layers, against what torch does."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, pad, unfold

from intertwine.errors import InputError
from intertwine.nn import Conv2d, Window
from intertwine.relaxed import LowRankLocalConv2d, ResidualConv, SoftConv2d
from intertwine.spaces import Grid2d
from tests.compiling import compiled

OPTIONS = [
    {"kernel_size": k, "stride": s, "padding": p, "dilation": d}
    for k, s, p, d in itertools.product((1, 2, 3), (1, 2, 3), (0, 1, 2), (1, 2))
]
CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
UNEVEN = Window((3, 2), (2, 2), ((2, 1), (0, 3)), (1, 2))


def fits(window: Window, sizes: tuple[int, ...]) -> bool:
    return all(window.travel(axis, n) >= 0 for axis, n in enumerate(sizes))


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_sizes_are_those_of_torch(dimension: int) -> None:
    for options, n in itertools.product(OPTIONS, (4, 7, 8)):
        window, x = Window.of(**options, dimension=dimension), torch.zeros(1, 1, *range(n, n + dimension))
        sizes = tuple(x.shape[2:])
        if fits(window, sizes):
            assert CONVOLUTIONS[dimension](1, 1, **options)(x).shape[2:] == window.output_sizes(sizes)
        painted = window.input_sizes(sizes)
        if min(painted) > 0:
            assert TRANSPOSED[dimension](1, 1, **options)(x).shape[2:] == painted
        assert window.output_sizes(painted) == sizes
        smaller = tuple(m - 1 for m in painted)
        assert window.output_sizes(smaller) == tuple(m - 1 for m in sizes)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("size", range(1, 9))
def test_same_padding_takes_a_place_for_each_stride(size: int) -> None:
    for options in OPTIONS:
        bare = Window.of(**{**options, "padding": 0}, dimension=1)
        ((low, high),) = bare.same((size,)).padding
        assert high - low in (0, 1)
        assert bare.same((size,)).output_sizes((size,)) == (-(-size // bare.stride[0]),)
        if bare.stride == (1,):
            assert bare.same() == bare.same((size,)), "the sizes do not matter"
            conv, x = nn.Conv1d(1, 1, bare.kernel_size, padding="same", dilation=bare.dilation), torch.randn(1, 1, size)
            assert torch.allclose(bare.same().convolve(x, conv.weight, conv.bias), conv(x), atol=1e-6)


def test_the_interior_is_where_no_window_meets_padding() -> None:
    windows = [Window.of(**options) for options in OPTIONS] + [UNEVEN]
    margins = set()
    for window, sizes in itertools.product(windows, ((8, 7), (11, 11))):
        if not fits(window, sizes):
            continue
        inside = window.interior(sizes)
        assert inside is not None
        step, margin = inside
        margins.add(margin)
        seen = window.cut(window.padded(torch.ones(1, 1, *sizes))).flatten(4).amin(4)[0, 0]  # 0 where it meets padding
        rows, columns = seen.shape
        # Windows may skip the padding between their samples, so the margin is exact for those without gaps.
        assert (seen[margin : rows - margin, margin : columns - margin] == 1).all()
        if margin and max(window.dilation) == 1:
            wider = seen[margin - 1 : rows - margin + 1, margin - 1 : columns - margin + 1]
            assert (wider == 0).any()
        assert step == window.stride[0]
    assert len(margins) > 2
    assert Window.of(3, stride=(1, 2)).interior((8, 8)) is None


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_convolution_with_every_padding(mode: str) -> None:
    x = torch.randn(2, 4, 9, 8, dtype=torch.float64)
    conv = nn.Conv2d(4, 6, 3, stride=2, padding=(2, 1), dilation=2, groups=2, padding_mode=mode).double()
    window = Window.of(3, stride=2, padding=(2, 1), dilation=2, padding_mode=mode)
    assert torch.allclose(window.convolve(x, conv.weight, conv.bias, groups=2), conv(x), rtol=0, atol=1e-13)
    inside = window.unpadded.convolve(window.padded(x), conv.weight, conv.bias, groups=2)
    assert torch.allclose(inside, conv(x), rtol=0, atol=1e-13)
    small = x[..., :1, :]  # less than the padding along the height
    if mode in ("reflect", "circular"):
        with pytest.raises(InputError, match=f"at least {2 + (mode == 'reflect')} along the height for padding_mode"):
            Window.of(1, padding=(2, 1), padding_mode=mode).require_room("test", small.shape[2:])


def test_another_padding_on_each_side() -> None:
    x, filters = torch.randn(2, 3, 8, 7, dtype=torch.float64), torch.randn(4, 3, 3, 2, dtype=torch.float64)
    y = UNEVEN.convolve(x, filters)
    assert y.shape[2:] == UNEVEN.output_sizes((8, 7))
    padded = pad(x, (0, 3, 2, 1))
    assert torch.allclose(y, conv2d(padded, filters, None, 2, 0, (1, 2)), rtol=0, atol=1e-13)
    cut = UNEVEN.cut(UNEVEN.padded(x)).permute(0, 1, 4, 5, 2, 3).reshape(2, 18, -1)
    assert torch.equal(cut, unfold(padded, (3, 2), (1, 2), 0, 2))
    samples = torch.stack(
        UNEVEN.samples(UNEVEN.padded(x), UNEVEN.output_sizes(x.shape[2:])), 2
    )  # batch, channel, sample of the window, places
    assert torch.equal(samples.flatten(1, 2).flatten(2), cut)


def test_a_window_is_a_key() -> None:
    """Tables are kept by window; what is derived takes no part."""
    one, two = Window.of(3, padding=1), Window.of((3, 3), stride=(1, 1), padding=(1, 1))
    assert one == two
    assert hash(one) == hash(two)
    assert one != Window.of(3, padding=1, padding_mode="circular")
    assert eval(repr(one)) == one


def test_what_is_no_window() -> None:
    for wrong in ({"stride": (1,)}, {"kernel_size": (0, 3)}, {"padding": ((0, 0), (1, -1))}, {"dilation": (1, 1, 1)}):
        with pytest.raises(InputError, match="for 1, 2 or 3 axes"):
            Window(**{"kernel_size": (3, 3), "stride": (1, 1), "padding": ((0, 0),) * 2, "dilation": (1, 1), **wrong})
    with pytest.raises(InputError, match="1, 2 or 3 dimensions; got 4"):
        Window.of(3, dimension=4)
    with pytest.raises(InputError, match=r"MyLayer: expected stride of at least 1, or 2 of them \(height, width\)"):
        Window.of(3, stride=0, caller="MyLayer")
    with pytest.raises(InputError, match="an input of at least 3 along the width"):
        Window.of(5, padding=1).require_room("test", (3, 2))


def test_padding_that_repeats_more_than_there_is() -> None:
    """Torch says ``Padding value causes wrapping around more than once``, deep inside the call."""
    scalar = Grid2d("C4").field("trivial")
    layer = Conv2d(scalar, scalar, 3, padding=4, padding_mode="circular")
    with pytest.raises(InputError, match=r"Conv2d: expected an input of at least 4 .* for padding_mode 'circular'"):
        layer(torch.zeros(1, 1, 3, 3))
    assert layer(torch.zeros(1, 1, 4, 4)).shape == (1, 1, 10, 10)


@pytest.mark.parametrize(
    "layer",
    [
        Conv2d(Grid2d("C4").field("2*regular"), Grid2d("C4").field("regular"), 3, padding=1, padding_mode="reflect"),
        LowRankLocalConv2d(8, 2, 3, rank=2, input_size=7, padding="same", stride=2),
        ResidualConv(nn.Conv2d(8, 4, 3, padding="same"), input_size=7),
        SoftConv2d(8, 3, kernel_size=3, hidden=4),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_compiled_before_the_first_call(layer: nn.Module) -> None:
    """Nothing about a window is worked out late, where a compiler would stumble over it."""
    x = torch.randn(2, 8, 7, 7)
    assert torch.allclose(compiled(layer)(x), layer(x), atol=1e-5)
