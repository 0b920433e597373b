"""Finer and coarser sampling: every combination commutes exactly or is refused."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import interpolate

from intertwine.errors import InputError, TypeMismatchError
from intertwine.groups import Cyclic, Dihedral, Octahedral
from intertwine.nn import BlurPool2d, BlurPool3d, Layer, Upsample
from intertwine.spaces import Grid2d, Grid3d
from intertwine.testing import assert_equivariant

C4, D4, O = Cyclic(4), Dihedral(4), Octahedral()
PLANE, SPACE = Grid2d(D4).field(D4.irrep(1) + D4.irrep(0, -1)), Grid3d(O).field(O.irreps[3])


class TestUpsample:
    @pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
    @pytest.mark.parametrize("factor", [1, 2, 3, 4])
    def test_the_plane(self, mode, factor):
        for corners in (False, True) if mode != "nearest" else (False,):
            layer = Upsample(PLANE, factor, mode=mode, align_corners=corners)
            for size in (3, 4, 7):
                assert assert_equivariant(layer, size=size) < 1e-11
            assert layer(torch.randn(1, 3, 3, 5)).shape == (1, 3, 3 * factor, 5 * factor)

    @pytest.mark.parametrize("mode", ["nearest", "trilinear"])
    def test_space(self, mode):
        for size, factor in ((3, 2), (4, 2), (3, 3)):
            assert assert_equivariant(Upsample(SPACE, factor, mode=mode), size=size) < 1e-11

    def test_the_numbers_are_those_of_torch(self):
        x = torch.randn(2, 3, 4, 5)
        assert torch.equal(Upsample(PLANE)(x), interpolate(x, scale_factor=2, mode="bilinear"))
        assert torch.equal(Upsample(PLANE, 3, mode="nearest")(x), interpolate(x, scale_factor=3))

    def test_a_fraction_breaks_it(self):
        class Fraction(Layer):
            @classmethod
            def examples(cls):
                return iter(())

            def forward(self, x):
                return interpolate(x, scale_factor=1.5, mode="nearest")

            def shift_step(self, sizes):
                return None

            def to_plain(self):
                raise NotImplementedError

        with pytest.raises(AssertionError, match="does not commute"):
            assert_equivariant(Fraction(PLANE, PLANE, Upsample(PLANE).claim), size=4)

    @pytest.mark.parametrize("factor", [1.5, 0, True, (2, 2)])
    def test_whole_factors_only(self, factor):
        with pytest.raises(InputError, match="scale_factor"):
            Upsample(PLANE, factor)

    def test_modes(self):
        for field, mode in ((PLANE, "trilinear"), (SPACE, "bilinear"), (PLANE, "area"), (SPACE, "bicubic")):
            with pytest.raises(InputError, match="expected mode"):
                Upsample(field, 2, mode=mode)
        with pytest.raises(InputError, match="with align_corners"):
            Upsample(PLANE, 2, mode="nearest", align_corners=True)

    def test_the_hexagonal_lattice(self):
        C6 = Cyclic(6)
        with pytest.raises(TypeMismatchError, match="square or the cubic"):
            Upsample(Grid2d(C6, lattice="hexagonal").field(C6.trivial))


class TestBlurPool:
    @pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
    def test_sizes_are_exact_or_refused(self, mode):
        windows = [(3, 2, None), (4, 2, None), (5, 2, 2)]
        if mode == "zeros":
            windows += [(2, 2, None), (4, 2, 0), (3, 3, 1), (4, 1, 1)]
        for k, stride, padding in windows:
            layer = BlurPool2d(PLANE, k, stride=stride, padding=padding, padding_mode=mode)
            margin = (k - 1) // 2 if padding is None else padding
            for size in range(6, 9):
                if (size + 2 * margin - k) % stride:
                    with pytest.raises(InputError, match="would not commute with D4"):
                        layer(torch.randn(1, PLANE.dim, size, size))
                else:
                    assert assert_equivariant(layer, size=size) < 1e-12
                    with torch.no_grad():
                        x = torch.randn(2, PLANE.dim, size, size)
                        assert torch.allclose(layer(x), layer.to_plain()(x), atol=1e-6)

    def test_space(self):
        for k, size in ((4, 4), (4, 6), (3, 5)):
            assert assert_equivariant(BlurPool3d(SPACE, k), size=size) < 1e-12
        with pytest.raises(InputError, match="along the depth"):
            BlurPool3d(SPACE, 4)(torch.randn(1, 3, 5, 5, 5))

    def test_what_is_refused_is_really_broken(self):
        with pytest.raises(AssertionError, match="does not commute"):
            assert_equivariant(BlurPool2d(PLANE, 4, allow_asymmetric=True), size=9)

    def test_binomial_weights(self):
        layer = BlurPool2d(PLANE, 4, padding=0).double()
        x = torch.zeros(1, 3, 4, 4, dtype=torch.float64)
        row = torch.tensor([1.0, 3.0, 3.0, 1.0], dtype=torch.float64) / 8
        for i in range(4):
            for j in range(4):
                x.zero_()
                x[..., i, j] = 1.0
                assert torch.allclose(layer(x)[0, :, 0, 0], (row[i] * row[j]).expand(3))

    def test_a_constant_stays_inside(self):
        x = torch.ones(1, 3, 8, 8)
        assert torch.allclose(BlurPool2d(PLANE, 4, padding_mode="reflect")(x), torch.ones(1, 3, 4, 4))

    def test_shifts_change_less_than_with_every_second_sample(self):
        wave = torch.cos(torch.arange(16) * (0.9 * torch.pi)).expand(1, 3, 16, 16)
        layer = BlurPool2d(PLANE, 4, padding_mode="circular")
        moved = torch.roll(wave, 1, 3)
        blurred = (layer(moved) - layer(wave)).norm()
        assert blurred < 0.2 * (moved[..., ::2] - wave[..., ::2]).norm()

    @pytest.mark.parametrize("options", [{"kernel_size": 1}, {"stride": 0}, {"padding": -1}, {"kernel_size": 2.0}])
    def test_numbers(self, options):
        with pytest.raises(InputError, match=f"expected {next(iter(options))} (of at least|to be a whole number)"):
            BlurPool2d(PLANE, **options)

    def test_too_small_for_the_margin(self):
        with pytest.raises(InputError, match="padding_mode 'reflect'"):
            BlurPool2d(PLANE, 9, stride=1, padding_mode="reflect")(torch.randn(1, 3, 4, 4))
        with pytest.raises(InputError, match="expected padding_mode"):
            BlurPool2d(PLANE, padding_mode="mirror")

    def test_the_hexagonal_lattice(self):
        C6 = Cyclic(6)
        with pytest.raises(InputError, match="square lattice"):
            BlurPool2d(Grid2d(C6, lattice="hexagonal").field(C6.trivial))
