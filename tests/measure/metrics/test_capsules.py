"""Capsule measures: fast against slow, chance levels, and what they show on latents that learned nothing."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError
from intertwine.measure.metrics import capsule_correlation, capsule_equivariance_error, capsule_null
from intertwine.measure.metrics._capsules import capsule_equivariance_error_by_pairs, observed_roll
from intertwine.topographic import sample_topographic, shifting_topology, stationary_topology


def noise(sequences: int, size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(sequences, size, size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("shape", [(3, 5, 2, 5), (3, 6, 2, 5), (2, 4, 3, 7)])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("unit", ["capsule", "frame"])
def test_the_fast_form(shape, unit, centered):
    t = torch.randn(shape, dtype=torch.float64)
    fast = capsule_equivariance_error(t, unit=unit, centered=centered)
    slow = capsule_equivariance_error_by_pairs(t, unit=unit, centered=centered)
    torch.testing.assert_close(fast.values, slow.values, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("size", "chance"), [(15, 6936), (18, 13275)])
def test_chance(size, chance):
    assert capsule_equivariance_error(noise(24, size)).mean == pytest.approx(chance, rel=0.005)


def test_chance_with_frames_of_norm_one():
    assert capsule_equivariance_error(noise(24, 18), unit="frame").mean == pytest.approx(3108, rel=0.01)


def test_rolling_capsules_have_no_error():
    first = torch.randn(4, 1, 3, 7, dtype=torch.float64)
    rolling = torch.cat([first.roll(k, 3) for k in range(7)], 1)
    assert capsule_equivariance_error(rolling).mean < 1e-9
    assert capsule_equivariance_error(rolling.flip(1)).mean > 10, "the other direction is not the same"


def factors(sequences: int, time: int, seed: int = 0) -> torch.Tensor:
    start = torch.randint(time, (sequences, 1), generator=torch.Generator().manual_seed(seed))
    return (start + torch.arange(time)) % time


class TestCorrelation:
    def test_perfect_capsules(self):
        factor = factors(60, 9)
        profile = torch.randn(60, 1, 4, 9, dtype=torch.float64)
        t = torch.cat(
            [torch.stack([profile[n, 0].roll(int(v), -1) for v in row])[None] for n, row in enumerate(factor)]
        )
        for variant in ("published", "circular", "pairs"):
            assert capsule_correlation(t, factor, variant=variant) == pytest.approx(1.0)
        assert capsule_correlation(t.flip(1), factor, variant="pairs") < -0.5, "capsules that roll backward"

    def test_noise_is_at_chance(self):
        factor = factors(600, 15)
        correlation = capsule_correlation(noise(600, 15), factor)
        assert 0.05 < correlation < 0.3, "one frame in fifteen is compared with itself, and ties take the smallest vote"
        assert abs(capsule_correlation(noise(600, 15), factor, variant="circular")) < 0.3
        alone = capsule_correlation(noise(600, 15), factor, variant="disjoint", shared=lambda a, b: a == b)
        assert abs(alone) < 0.12, "without that frame nothing is left"
        assert abs(capsule_correlation(noise(60, 15), factor[:60], variant="pairs")) < 0.1

    def test_the_published_pattern_needs_no_learning(self):
        """Latents from the prior: 1, nearly 1, middling, chance."""
        factor = factors(400, 15)

        def null(topology) -> float:
            def sample(generator: torch.Generator) -> torch.Tensor:
                return sample_topographic(
                    topology, sequences=400, time=15, capsules=15, length=15, shift=30.0, eps=1e-6, generator=generator
                )

            return capsule_null(lambda t: capsule_correlation(t, factor), sample=sample, draws=1)[0]

        assert null(shifting_topology(15)) == pytest.approx(1.0)
        assert null(shifting_topology(10)) > 0.97
        assert 0.55 < null(shifting_topology(5)) < 0.85
        assert null(stationary_topology(1, 3)) < 0.3
        assert null(stationary_topology(5, 5)) < 0.3

    def test_errors_of_the_prior(self):
        def error(topology) -> float:
            t = sample_topographic(
                topology,
                sequences=60,
                time=15,
                capsules=15,
                length=15,
                shift=30.0,
                eps=1e-6,
                generator=torch.Generator().manual_seed(0),
            )
            return capsule_equivariance_error(t).mean

        assert error(shifting_topology(15)) == pytest.approx(218, rel=0.05)
        assert error(shifting_topology(10)) == pytest.approx(932, rel=0.05)
        assert error(stationary_topology(5, 5)) == pytest.approx(787, rel=0.05)

    def test_bad_input(self):
        with pytest.raises(InputError, match=r"a factor \(sequences, time\); got \(2, 5, 1, 5\) and \(2, 4\)"):
            capsule_correlation(torch.zeros(2, 5, 1, 5), torch.zeros(2, 4))
        with pytest.raises(InputError, match="shared="):
            capsule_correlation(torch.rand(2, 5, 1, 5), torch.zeros(2, 5), variant="disjoint")
        with pytest.raises(InputError, match="latents"):
            capsule_equivariance_error(torch.zeros(2, 5, 5))
        with pytest.raises(InputError, match="NaN"):
            capsule_equivariance_error(torch.full((1, 2, 1, 2), torch.nan))


def test_observed_roll_on_each_capsule():
    x = torch.rand(3, 11)
    assert observed_roll(torch.stack([x[k].roll(k + 1) for k in range(3)]), x).tolist() == [1, 2, 3]
