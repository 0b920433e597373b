"""Harmonics and Wigner matrices are computed in the dtype and on the device of their input."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from intertwine.errors import InputError
from intertwine.groups import SO3, circular_harmonics, spherical_harmonics, wigner_d, wigner_ds

RANDOM = torch.Generator().manual_seed(0)
VECTORS = torch.randn(200, 3, dtype=torch.float64, generator=RANDOM)
TURNS = SO3().sample(50, RANDOM)
FUNCTIONS = {
    "spherical": (spherical_harmonics, VECTORS),
    "solid": (lambda l, x: spherical_harmonics(l, x, normalize=False), VECTORS / 2),
    "circular": (circular_harmonics, VECTORS[:, :2]),
    "matrices": (wigner_d, TURNS),
    "all matrices": (lambda l, x: torch.cat([d.flatten(1) for d in wigner_ds(l, x)], 1), TURNS),
}


class NoFloat64(TorchDispatchMode):
    """Stands for a device that has no float64."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        made = out if isinstance(out, tuple | list) else [out]
        assert not any(isinstance(t, torch.Tensor) and t.dtype == torch.float64 for t in made), func
        return out


@pytest.fixture(params=FUNCTIONS.values(), ids=FUNCTIONS.keys())
def case(request):
    return request.param


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 10])
def test_float32_is_as_good_as_float32_can_be(case, degree):
    function, x = case
    there, exact = function(degree, x.float()), function(degree, x.float().double())
    assert (there.dtype, exact.dtype) == (torch.float32, torch.float64)
    assert (there - exact).abs().max() < 1e-5 * exact.abs().max()
    assert (there - exact).abs().mean() < 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_stays_low(dtype):
    assert spherical_harmonics(3, VECTORS.to(dtype)).dtype == dtype


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_no_float64_is_made(case, degree):
    function, x = case
    function(degree, x.float())  # the tables are made on the CPU, and kept
    with NoFloat64():
        function(degree, x.float())
    with pytest.raises(AssertionError), NoFloat64():
        function(degree, x)


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_autocast_does_not_round(case, degree):
    function, x = case
    with torch.autocast("cpu", torch.bfloat16):
        cast = function(degree, x.float())
    assert torch.equal(cast, function(degree, x.float()))


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_on_another_device(case, degree):
    function, x = case
    there = function(degree, x.float().to("meta"))
    assert there.device.type == "meta"
    assert there.shape == function(degree, x.float()).shape


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_gradients(case, degree):
    function, x = case
    assert torch.autograd.gradcheck(lambda x: function(degree, x), x[:4].clone().requires_grad_())


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_origin_is_no_exception(degree, dtype):
    x = torch.zeros(2, 3, dtype=dtype, requires_grad=True)
    values = spherical_harmonics(degree, x)
    assert values[:, 1:].abs().max() == 0
    values.sum().backward()
    assert torch.isfinite(x.grad).all()


def test_whole_numbers_become_floats():
    assert spherical_harmonics(2, torch.tensor([0, 0, 2])).dtype == torch.get_default_dtype()
    assert circular_harmonics(2, torch.tensor([0, 2])).dtype == torch.get_default_dtype()
    assert wigner_d(2, torch.eye(3, dtype=torch.int64)).dtype == torch.get_default_dtype()


def test_complex_numbers_are_refused():
    with pytest.raises(InputError, match=r"real vectors; got torch[.]complex64"):
        spherical_harmonics(2, torch.zeros(3, dtype=torch.complex64))


def test_representations_stay_in_float64():
    assert SO3().irrep(2)(TURNS.float()).dtype == torch.float64
