"""The tests behind verdicts: two samples, paired differences, confused classes, learning curves."""

from __future__ import annotations

import pytest
import torch

from intertwine.discovery import area_under_curve, data_worth, difference, holm
from intertwine.discovery._confused import confused_pairs
from intertwine.discovery._paired import pooled_spread
from intertwine.errors import InputError


def draw(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_auc_counts_pairs() -> None:
    scores, coins = [0.1, 0.4, 0.4, 0.8], [0, 1, 0, 1]
    assert area_under_curve(scores, coins).value == (1 + 1 + 0.5 + 1) / 4


def test_p_values_of_coins_alone_are_rarely_small() -> None:
    small = 0
    for seed in range(25):
        g = draw(seed)
        scores, coins = torch.rand(60, generator=g), torch.randint(2, (60,), generator=g)
        small += area_under_curve(scores.tolist(), coins.tolist()).p_value <= 0.05
    assert small <= 5  # 1 is expected; more than 5 happens once in 300 times


def test_a_difference_between_samples_is_noticed() -> None:
    coins = torch.randint(2, (200,), generator=draw(0))
    scores = torch.randn(200, generator=draw(1)) + coins
    result = area_under_curve(scores.tolist(), coins.tolist())
    assert result.p_value < 0.001
    assert result.null[0] < 0.5 < result.null[1] < result.value


def test_what_resampling_alone_gives_is_no_difference() -> None:
    coins = torch.randint(2, (400,), generator=draw(0))
    artifact = area_under_curve((torch.randn(400, generator=draw(1)) + 0.5 * coins).tolist(), coins.tolist())
    same = area_under_curve(
        (torch.randn(400, generator=draw(2)) + 0.5 * coins).tolist(), coins.tolist(), floor=artifact
    )
    more = area_under_curve((torch.randn(400, generator=draw(2)) + 2 * coins).tolist(), coins.tolist(), floor=artifact)
    assert artifact.p_value < 0.001 < 0.05 < same.p_value
    assert more.p_value < 0.001
    assert more.floor == artifact.value


def test_the_standard_error_of_an_auc_is_its_spread() -> None:
    values = []
    for seed in range(60):
        g = draw(seed)
        coins = torch.arange(80) % 2
        result = area_under_curve((torch.randn(80, generator=g) + coins).tolist(), coins.tolist())
        values.append((result.value, result.error))
    spread = torch.tensor([value for value, _ in values]).std()
    assert sum(error for _, error in values) / len(values) == pytest.approx(float(spread), rel=0.25)


def test_one_kind_of_coin_says_nothing() -> None:
    assert area_under_curve([0.1, 0.2], [1, 1]).p_value == 1
    with pytest.raises(InputError, match="coins 0 and 1; got"):
        area_under_curve([0.1, 0.2], [1, 3])


def test_the_interval_of_a_difference_covers_the_truth() -> None:
    covered = 0
    for seed in range(60):
        g = draw(seed)
        first = [torch.rand(150, generator=g) < 0.9 for _ in range(3)]
        second = [torch.rand(150, generator=g) < 0.8 for _ in range(3)]
        low, high = difference(first, second).interval
        covered += low <= 0.1 <= high
    assert covered >= 56


def test_seeds_that_disagree_widen_the_interval() -> None:
    steady = [torch.arange(100) < 90] * 3
    shaky = [torch.arange(100) < n for n in (70, 90, 99)]
    zero = [torch.arange(100) < 80] * 3
    assert difference(shaky, zero).error > 3 * difference(steady, zero).error
    assert pooled_spread([(steady, zero), (shaky, zero)]).freedom == 4


def test_samples_that_are_held_out_again_are_no_more_samples() -> None:
    first, second = [torch.arange(100) < 90] * 4, [torch.arange(100) < 80] * 4
    once, twice = difference(first, second), difference(first * 2, second * 2)
    assert twice.samples_error == pytest.approx(once.samples_error, rel=0.01)


def test_agreement_on_a_few_samples_is_no_proof() -> None:
    few, many = [torch.ones(20)], [torch.ones(2000)]
    assert difference(few, few).p_above(-0.02) > 0.1
    assert difference(many * 3, many * 3).p_above(-0.02) < 0.001


@pytest.mark.parametrize("values", [[0.01, 0.04, 0.03], [0.5], [0.2, 0.2]])
def test_holm_never_lowers_a_p_value_and_keeps_their_order(values: list[float]) -> None:
    corrected = holm(values)
    assert all(c >= v for c, v in zip(corrected, values, strict=True))
    assert [corrected[k] for k in sorted(range(len(values)), key=values.__getitem__)] == sorted(corrected)


def curve(*hits: int) -> dict[float, dict[int, torch.Tensor]]:
    return {share: {0: torch.arange(100) < n} for share, n in zip((1 / 16, 1 / 4, 1.0), hits, strict=True)}


def test_worth_is_the_horizontal_distance() -> None:
    four_times = data_worth(curve(50, 70, 90), curve(70, 90, 95))
    assert four_times.factor == pytest.approx(4)
    assert four_times.interval[0] <= 4 <= four_times.interval[1]
    assert data_worth(curve(50, 70, 90), curve(50, 70, 90)).factor == pytest.approx(1)
    assert data_worth(curve(50, 70, 90), curve(40, 50, 70)).factor == pytest.approx(0.25)
    assert data_worth(curve(100, 100, 100), curve(90, 100, 100)) is None  # nothing to gain from data
    assert data_worth(curve(60, 90, 90), curve(60, 90, 90)).factor == pytest.approx(1)  # a plateau
    assert data_worth({1.0: {0: torch.ones(5)}}, {1.0: {0: torch.ones(5)}}) is None


def test_confused_classes_are_named_and_chance_is_not() -> None:
    labels = torch.arange(300) % 3
    swapped = labels.clone()
    swapped[(labels == 2) & (torch.arange(300) < 90)] = 1
    (pair,) = confused_pairs([(labels, swapped, labels)], ("0", "6", "9"))
    assert (pair.first, pair.second) == ("6", "9")
    assert pair.excess == pytest.approx(15)
    assert confused_pairs([(labels, swapped, swapped)], ("0", "6", "9")) == ()
    slip = labels.clone()
    slip[0] = 1
    assert confused_pairs([(labels, slip, labels)], ("0", "6", "9")) == ()


def test_one_sample_that_is_wrong_again_and_again_is_one_sample() -> None:
    """Three networks fail on the same three samples: nine errors, but not nine pieces of evidence."""
    labels = torch.arange(100) % 2
    slip = labels.clone()
    slip[:3] = 1 - slip[:3]
    assert confused_pairs([(labels, slip.expand(3, -1), labels.expand(3, -1))], ("6", "9")) == ()
    slip[:12] = 1 - labels[:12]
    assert len(confused_pairs([(labels, slip.expand(3, -1), labels.expand(3, -1))], ("6", "9"))) == 1


def test_chance_rarely_confuses_any_of_many_pairs() -> None:
    named = 0
    for seed in range(40):
        g = draw(seed)
        labels = torch.randint(10, (500,), generator=g)
        strict, free = (
            torch.where(torch.rand(500, generator=g) < 0.2, torch.randint(10, (500,), generator=g), labels)
            for _ in range(2)
        )
        named += bool(confused_pairs([(labels, strict, free)], tuple("0123456789")))
    assert named <= 6  # 2 are expected
