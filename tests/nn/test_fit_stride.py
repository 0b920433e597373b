"""FitStride and SameSize: strided layers on every size."""

from __future__ import annotations

import pytest
import torch

from intertwine import nn
from intertwine.errors import InputError, TypeMismatchError
from intertwine.spaces import Grid1d, Grid2d

LINE = Grid1d("D1").field("trivial")
WINDOWS = [(1, 2, 0), (2, 2, 0), (3, 2, 1), (7, 2, 3), (3, 3, 0), (3, 3, 1), (4, 4, 0), (5, 4, 2), (2, 5, 0), (3, 6, 1)]


def means(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([(x[..., i] + x[..., i + 1]) / 2 for i in range(x.shape[-1] - 1)], -1)


def test_even_sizes_become_means_of_neighbors_and_odd_ones_stay() -> None:
    fit = nn.FitStride(LINE, 3, stride=2, padding=1)
    even, odd = torch.randn(2, 1, 8), torch.randn(2, 1, 9)
    torch.testing.assert_close(fit(even), means(even))
    assert fit(odd) is odd


def test_larger_strides_also_need_zeros() -> None:
    fit = nn.FitStride(LINE, 4, stride=4)
    x = torch.randn(1, 1, 8)
    zero = torch.zeros(1, 1, 1)
    assert fit(x) is x
    torch.testing.assert_close(fit(x[..., :5]), means(x[..., :5]))
    torch.testing.assert_close(fit(x[..., :6]), torch.cat([zero, x[..., :6], zero], -1))
    torch.testing.assert_close(fit(x[..., :7]), means(torch.cat([zero, x[..., :7], zero], -1)))


@pytest.mark.parametrize(("kernel", "stride", "padding"), WINDOWS)
def test_the_window_fits_every_size(kernel: int, stride: int, padding: int) -> None:
    fit = nn.FitStride(LINE, kernel, stride=stride, padding=padding)
    pool = nn.Conv1d(LINE, LINE, kernel, stride=stride, padding=padding)
    for n in range(kernel + stride, kernel + 5 * stride + 2):
        x = torch.randn(1, 1, n, dtype=torch.float64)
        y = fit(x)
        assert (y.shape[-1],) == fit.output_sizes((n,))
        assert n - 1 <= y.shape[-1] <= n + stride
        pool.double()(y)  # raises an error on sizes that do not fit
        torch.testing.assert_close(fit(x.flip(-1)), y.flip(-1), rtol=0, atol=1e-15)
        torch.testing.assert_close(fit.compute(x), y, rtol=0, atol=1e-15)


def test_the_plain_version_decides_by_size() -> None:
    field = Grid2d("D4").field("regular")
    for window in ({"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 4, "stride": 4}):
        fit = nn.FitStride(field, **window)
        plain = fit.to_plain()
        for sizes in ((8, 8), (9, 9), (10, 11)):
            x = torch.randn(2, 8, *sizes)
            torch.testing.assert_close(plain(x), fit(x))


def test_only_axes_that_the_group_reverses_change() -> None:
    x = torch.randn(1, 2, 8, 8)
    assert nn.FitStride(Grid2d("D1").field("regular"), 3, stride=2, padding=1)(x).shape[2:] == (8, 7)
    assert nn.FitStride(Grid2d("C2").field("regular"), 3, stride=2, padding=1)(x).shape[2:] == (7, 7)
    assert nn.FitStride(Grid2d("C1").field("2*regular"), 3, stride=2, padding=1)(x) is x


def test_what_cannot_be_fitted_is_explained() -> None:
    with pytest.raises(
        InputError, match=r"FitStride: expected an input of at least 2 along the width; got sizes \(1,\)"
    ):
        nn.FitStride(LINE, 2, stride=2)(torch.zeros(1, 1, 1))
    with pytest.raises(InputError, match="square lattice"):
        nn.FitStride(Grid2d("C6", lattice="hexagonal").field("regular"), 3, stride=2, padding=1)


def test_same_size_interpolates_about_the_center() -> None:
    layer = nn.SameSize(nn.Sequential(nn.FitStride(LINE, 2, stride=2), nn.AvgPool1d(LINE, 2)))
    for n in (6, 7):
        x = torch.randn(1, 1, n, dtype=torch.float64)
        coarse = layer.body(x)
        expected = torch.nn.functional.interpolate(coarse, size=n, mode="linear")
        assert torch.equal(layer(x), expected)
        torch.testing.assert_close(layer(x.flip(-1)), layer(x).flip(-1), rtol=0, atol=1e-14)
        torch.testing.assert_close(layer.to_plain()(x), expected)
    ramp = torch.arange(8.0).view(1, 1, 8)
    torch.testing.assert_close(layer(ramp)[..., 1:-1], ramp[..., 1:-1])  # inside, linear fields keep their values


def test_same_size_needs_a_body_with_spatial_axes() -> None:
    field = Grid2d("C4").field("regular")
    assert nn.SameSize(nn.Linear(field, Grid2d("C4").field("trivial"))).out_type.dim == 1
    with pytest.raises(TypeMismatchError, match="GlobalPool, which returns values without spatial axes"):
        nn.SameSize(nn.GlobalPool(field))
    with pytest.raises(TypeMismatchError, match="Gated, which takes more than one input"):
        nn.SameSize(nn.Gated(Grid2d("C4").field("irrep1"), gates="given"))
    with pytest.raises(InputError, match="square lattice"):
        nn.SameSize(nn.ReLU(Grid2d("C6", lattice="hexagonal").field("regular")))
