"""The one resampler: against grid_sample and plain loops, at borders, in any dimension, and its derivatives."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from torch.nn.functional import grid_sample

from intertwine.errors import InputError
from intertwine.spaces import resample

BORDERS = ("circular", "zeros", "mirror")
KINDS = ("linear", "cubic", "quintic")


def by_grid_sample(f: torch.Tensor, index: torch.Tensor, border: str, kind: str = "bilinear") -> torch.Tensor:
    sizes = torch.tensor(f.shape[2:], dtype=index.dtype)
    places = (2 * index / (sizes - 1) - 1).flip(-1)
    return grid_sample(
        f, places, mode=kind, padding_mode={"mirror": "reflection"}.get(border, border), align_corners=True
    )


def by_loops(f: torch.Tensor, index: torch.Tensor, border: str, weight, reach: range) -> torch.Tensor:
    """One number at a time, from the definition."""
    out = torch.zeros(index.shape[:-1], dtype=f.dtype)
    for m in product(*map(range, out.shape)):
        place = index[m].tolist()
        for offsets in product(reach, repeat=len(place)):
            at = [math.floor(p) + o for p, o in zip(place, offsets, strict=True)]
            share = math.prod(weight(p - a) for p, a in zip(place, at, strict=True))
            if border == "zeros" and any(not 0 <= a < n for a, n in zip(at, f.shape, strict=True)):
                continue
            if border == "mirror":
                at = [abs((a + n - 1) % (2 * n - 2) - (n - 1)) for a, n in zip(at, f.shape, strict=True)]
            out[m] += share * f[tuple(a % n for a, n in zip(at, f.shape, strict=True))]
    return out


def linear(t: float) -> float:
    return 1 - abs(t)


def keys(t: float) -> float:
    t = abs(t)
    return 1.5 * t**3 - 2.5 * t**2 + 1 if t <= 1 else -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize(("kind", "weight", "reach"), [("linear", linear, range(2)), ("cubic", keys, range(-1, 3))])
def test_against_the_definition(d, border, kind, weight, reach):
    generator = torch.Generator().manual_seed(d)
    f = torch.randn(3, 4, 5, dtype=torch.float64, generator=generator)[(0,) * (3 - d)]
    index = 12 * torch.rand(*[3] * d, d, dtype=torch.float64, generator=generator) - 4
    values = resample(f, index, border=border, interpolation=kind)
    assert (values - by_loops(f, index, border, weight, reach)).abs().max() < 1e-12
    batch = torch.stack([f, 2 * f])[:, None]
    own = resample(batch, torch.stack([index, index + 0.25]), border=border, interpolation=kind)
    assert (own[0, 0] - values).abs().max() < 1e-12
    assert (own[1, 0] - 2 * resample(f, index + 0.25, border=border, interpolation=kind)).abs().max() < 1e-12


@pytest.mark.parametrize("border", ["zeros", "mirror"])
@pytest.mark.parametrize("sizes", [(7, 7), (5, 8), (4, 5, 6)])
@pytest.mark.parametrize("gradient", [False, True])
def test_against_grid_sample(border, sizes, gradient):
    """Without gradients torch's own kernel may be used, with gradients it is not; both must agree with it."""
    torch.manual_seed(0)
    f = torch.randn(3, 2, *sizes, dtype=torch.float64, requires_grad=gradient)
    index = 14 * torch.rand(3, *sizes, len(sizes), dtype=torch.float64) - 4
    with torch.no_grad():
        expected = by_grid_sample(f, index, border)
    assert (resample(f, index, border=border, interpolation="linear") - expected).abs().max() < 1e-12


def test_an_axis_with_one_sample():
    f = torch.ones(1, 1, 1, 3, dtype=torch.float64)
    index = torch.tensor([[[0.5, 1.0], [0.0, 2.5]]], dtype=torch.float64)
    assert resample(f, index, border="zeros", interpolation="linear").flatten().tolist() == pytest.approx([0.5, 0.5])
    assert resample(f, index, border="mirror", interpolation="linear").flatten().tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("kind", "degree"), [("linear", 1), ("cubic", 2), ("quintic", 5)])
def test_polynomials_are_met_exactly(kind, degree):
    x = torch.arange(12, dtype=torch.float64)
    at = torch.tensor([[3.3], [5.75], [8.0]], dtype=torch.float64)
    values = resample((x - 4) ** degree, at, border="zeros", interpolation=kind)
    assert (values - (at[:, 0] - 4) ** degree).abs().max() < 1e-10
    assert (
        resample((x - 4) ** (degree + 1), at, interpolation=kind) - (at[:, 0] - 4) ** (degree + 1)
    ).abs().max() > 1e-3


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_forward_and_backward(border, kind):
    torch.manual_seed(0)
    f = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    index = (4 * torch.rand(2, 1, 2, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda f, index: resample(f, index, border=border, interpolation=kind), (f, index), check_forward_ad=True
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(9,), (7, 8), (5, 6, 5)])
def test_forward_mode_by_rows_and_one_neighbor_at_a_time(monkeypatch, kind, sizes):
    """Small fields take rows of neighbors at once; the plain loop over neighbors gives the same values and tangents."""
    f = torch.randn(2, 3, *sizes, dtype=torch.float64)
    index, tangent = torch.rand(2, *sizes, len(sizes), dtype=torch.float64) * 5

    def both():
        return torch.func.jvp(lambda i: resample(f, i, border="mirror", interpolation=kind), (index,), (tangent,))

    by_rows = both()
    monkeypatch.setattr("intertwine.spaces._resample._SMALL", 0)
    for fast, slow in zip(by_rows, both(), strict=True):
        assert slow.abs().max() > 0.1
        assert (fast - slow).abs().max() < 1e-12 * slow.abs().max()


def test_a_tangent_without_gradients_is_seen():
    """Under no_grad the fast path must not drop a forward-mode tangent."""
    f, index = torch.randn(5, 5, dtype=torch.float64), 4 * torch.rand(3, 3, 2, dtype=torch.float64)
    with torch.no_grad():
        _, tangent = torch.func.jvp(
            lambda p: resample(f, p, border="zeros", interpolation="linear"), (index,), (torch.ones_like(index),)
        )
    assert tangent.abs().max() > 0.1


def test_wrong_places():
    with pytest.raises(InputError, match="both with d axes"):
        resample(torch.rand(4, 4), torch.rand(3, 2))
    with pytest.raises(InputError, match="both with d axes"):
        resample(torch.rand(2, 4, 4), torch.rand(3, 5, 5, 2))
    with pytest.raises(InputError, match="floating point"):
        resample(torch.zeros(4, dtype=torch.int64), torch.rand(3, 1))
