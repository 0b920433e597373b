"""Profiles that keep degrees apart on the lattice: less aliasing, and turns by 45° at or below the peers' error."""

from __future__ import annotations

from math import pi

import pytest
import torch
from torch.nn.functional import conv1d, conv2d

from intertwine.groups import SO2, SO3, Cyclic, spherical_harmonics
from intertwine.kernels import solve
from intertwine.kernels._radial import profile, profile_polynomial
from intertwine.nn import Conv2d
from intertwine.spaces import Grid2d, Grid3d

# Relative error of escnn 1.0.11 under a turn by 45°, for inputs smoothed over 1, 2 and 3 samples, 65 x 65, by kernel
# size; one seed, measured by the authors of this package with escnn's own interpolation.
ESCNN = {
    "C8": {3: (0.048, 0.012, 0.0057), 5: (0.050, 0.0094, 0.0031), 7: (0.031, 0.010, 0.0045)},
    "SO(2)": {3: (0.060, 0.016, 0.0087), 5: (0.049, 0.0098, 0.0032), 7: (0.033, 0.0046, 0.0014)},
}


def radius(n):
    axis = (torch.arange(n, dtype=torch.float64) - (n - 1) / 2) / (n / 2)
    return (axis[:, None] ** 2 + axis**2).sqrt()


def smooth(channels, n, sigma, noise):
    f = torch.randn(2, channels, n, n, dtype=torch.float64, generator=noise)
    reach = 4 * sigma
    bell = torch.exp(-(torch.arange(-reach, reach + 1, dtype=torch.float64) ** 2) / (2 * sigma**2))
    for axis in (2, 3):
        lines = f.movedim(axis, -1)
        f = conv1d(lines.reshape(-1, 1, n), bell.view(1, 1, -1), padding=reach).view(lines.shape).movedim(-1, axis)
    return f * torch.exp(-((radius(n) / 0.7) ** 8))


def turn_error(field, filters, turn, sigma, noise):
    x, g, pad = smooth(field.dim, 65, sigma, noise), field.space.motion([0, 0], turn), filters.shape[-1] // 2
    left = conv2d(field.transform(x, g, padding="zeros"), filters, padding=pad)
    right = field.transform(conv2d(x, filters, padding=pad), g, padding="zeros")
    inside = radius(65) < 0.8
    return float((left - right)[..., inside].norm() / right[..., inside].norm())


@pytest.mark.parametrize("name", ["C8", "SO(2)"])
@pytest.mark.parametrize("k", [3, 5, 7])
def test_turns_by_45_degrees_at_or_below_escnn(name, k):
    group, so2 = Cyclic(8), SO2()
    field = (
        Grid2d(group).field(group.regular)
        if name == "C8"
        else Grid2d(so2).field(so2.irrep(0) + so2.irrep(1) + so2.irrep(2))
    )
    turn = 1 if name == "C8" else so2.from_angle(pi / 4)
    for sigma, bound in zip((1, 2, 3), ESCNN[name][k], strict=True):
        errors = []
        for seed in range(4):
            noise = torch.Generator().manual_seed(seed)
            torch.manual_seed(seed)
            filters, _ = Conv2d(field, field, k).double().expand()
            errors.append(turn_error(field, filters.detach(), turn, sigma, noise))
        # Inputs smoothed over one sample are hardly resolved: the interpolation alone gives 0.036 there and back, and
        # seeds of 3 x 3 filters differ by 15 %.
        slack = 1.15 if (sigma, k) == (1, 3) else 1.0
        assert sum(errors) / 4 <= slack * bound, (sigma, errors)


def mixing(taps, values, harmonics, degree):
    """The largest response to |x|^a Y_J' with J' ≠ J and a ≤ J + 2, relative to the response to |x|^J Y_J."""
    r = taps.norm(dim=-1)
    own = values[:, None] * harmonics(degree, taps)
    size = (own * r[:, None] ** degree * harmonics(degree, taps)).sum(0).mean()
    worst = 0.0
    for order in range(degree + 3):
        for other in range(order % 2, order + 1, 2):
            if other != degree:
                moments = own.T @ (r[:, None] ** order * harmonics(other, taps))
                worst = max(worst, float(moments.abs().max() / size / 2.0**order))
    return worst


def test_aliasing_in_space_is_lower_than_that_of_gaussians():
    def harmonics(j, x):
        return spherical_harmonics(j, x)[:, j * j : (j + 1) ** 2]

    taps = Grid3d(SO3()).coordinates((5, 5, 5)).reshape(-1, 3)
    r = taps.norm(dim=-1)
    for degree, at, sigma in ((2, 1.0, 0.6), (2, 2.0, 0.4)):
        shaped = profile(r, at, sigma, profile_polynomial(taps, at, sigma, degree, harmonics))
        plain = profile(r, at, sigma, None)
        assert mixing(taps, shaped, harmonics, degree) < 0.5 * mixing(taps, plain, harmonics, degree)


def test_the_center_is_one_tap():
    group = SO2()
    field = Grid2d(group).field(group.trivial)
    center = solve(field, field, kernel_size=5).filters()[0, 0, 0]
    assert center[2, 2] == 1
    assert center.abs().sum() - 1 < 1e-20


def test_profiles_are_functions_of_the_radius():
    """The kernels remain kernels on the whole plane, not only on the taps: they obey the constraint everywhere."""
    group = SO2()
    plane = Grid2d(group)
    basis = solve(plane.field(group.irrep(1)), plane.field(group.irrep(2)), kernel_size=7)
    x = torch.randn(20, 2, dtype=torch.float64)
    h = group.from_angle(0.7)
    left = basis.evaluate(x @ h.T)
    right = group.irrep(2)(h) @ basis.evaluate(x) @ group.irrep(1)(h).T
    assert (left - right).abs().max() < 1e-12
