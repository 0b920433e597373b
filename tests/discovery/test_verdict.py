"""A case for every verdict, on made-up accuracies, and cases that must not be decided."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from intertwine.discovery import AUC, Evidence, Verdict, judge
from intertwine.discovery._evidence import spreads
from intertwine.discovery._verdict import is_contested

SHARES = (1 / 16, 1 / 4, 1.0)


def evidence(samples: int = 600, seeds: int = 3, *, name: str = "c4", seed: int = 0, **networks) -> Evidence:
    """Networks that are right with these probabilities at a sixteenth, a quarter and all of the data."""
    generator = torch.Generator().manual_seed(seed)
    # Networks tend to fail on the same samples, so all compare the same random numbers, in part.
    common = {s: torch.rand(samples // 4, generator=generator) for s in range(seeds)}

    def right(p: float, s: int) -> torch.Tensor:
        own = torch.rand(samples // 4, generator=generator)
        mixed = torch.where(torch.rand(samples // 4, generator=generator) < 0.8, common[s], own)
        return mixed < p

    curves = {
        network: {share: {s: right(p, s) for s in range(seeds)} for share, p in zip(SHARES, ps, strict=True)}
        for network, ps in networks.items()
    }
    guessing = {s: torch.rand(samples // 4, generator=generator) < 0.1 for s in range(seeds)}
    return Evidence(name, "quarter turns", True, curves, guessing, samples, AUC(0.5, (0.45, 0.55), 0.6))


FREE = (0.6, 0.8, 0.9)
BETTER = (0.8, 0.9, 0.93)
WORSE = (0.4, 0.6, 0.7)


@pytest.mark.parametrize(
    ("networks", "word", "strictness"),
    [
        ({"invariant": BETTER, "local": (0.7, 0.85, 0.9), "relaxed": FREE, "free": FREE}, "impose", "invariant"),
        ({"invariant": WORSE, "local": BETTER, "relaxed": FREE, "free": FREE}, "impose", "local"),
        ({"invariant": WORSE, "local": WORSE, "relaxed": BETTER, "free": FREE}, "relax", "relaxed"),
        ({"invariant": WORSE, "local": WORSE, "relaxed": WORSE, "free": FREE}, "leave", "free"),
        ({"invariant": WORSE, "free": FREE}, "leave", "free"),
        ({"invariant": BETTER, "free": FREE}, "impose", "invariant"),
    ],
)
def test_every_verdict(networks, word: str, strictness: str) -> None:
    (verdict,) = judge([evidence(2000, **networks)])
    assert (verdict.word, verdict.strictness) == (word, strictness)
    assert verdict.p_value <= 0.05
    assert "would change" in " ".join(verdict.reasons)
    assert "one standard error of the best" in verdict.reasons[-1]


def test_a_tie_goes_to_the_strictest_if_there_are_enough_samples() -> None:
    same = dict.fromkeys(("invariant", "local", "relaxed", "free"), (0.9, 0.95, 0.97))
    words = [judge([evidence(4000, seed=s, **same)])[0] for s in range(8)]
    assert sum(v.strictness == "invariant" for v in words) >= 5
    assert all(v.word in ("impose", "can't tell") for v in words)


def test_the_same_tie_on_few_samples_cannot_be_decided_and_says_how_many_would_do() -> None:
    same = dict.fromkeys(("invariant", "local", "relaxed", "free"), (0.6, 0.8, 0.9))
    verdicts = [judge([evidence(60, seed=s, **same)])[0] for s in range(10)]
    undecided = [each for each in verdicts if each.word == "can't tell"]
    assert len(undecided) >= 6
    verdict = undecided[0]
    assert verdict.strictness is None
    assert verdict.images_needed > 60
    assert f"{verdict.images_needed:,} samples would decide" in " ".join(verdict.reasons)


def test_labels_that_nobody_learns_decide_nothing() -> None:
    chance = dict.fromkeys(("invariant", "local", "relaxed", "free"), (0.1, 0.1, 0.1))
    (verdict,) = judge([evidence(1000, **chance)])
    assert verdict.word == "can't tell"
    assert "No network learned" in verdict.reasons[0]


def test_without_labels_only_the_first_question_is_answered() -> None:
    (verdict,) = judge([Evidence("c4", "quarter turns", True, auc=AUC(0.9, (0.45, 0.55), 0.001))])
    assert verdict.word == "can't tell"
    assert "look different" in verdict.reasons[0]
    assert "Without labels" in verdict.reasons[1]


def test_a_loss_with_all_data_forbids_what_helps_with_little() -> None:
    crossing = {"invariant": (0.8, 0.85, 0.85), "local": BETTER, "relaxed": FREE, "free": (0.5, 0.8, 0.97)}
    (verdict,) = judge([evidence(3000, **crossing)])
    assert verdict.strictness != "invariant"


PARTLY = {
    "invariant": (0.83, 0.92, 0.94),
    "local": (0.7, 0.89, 0.955),
    "relaxed": (0.77, 0.95, 0.976),
    "free": (0.55, 0.79, 0.9),
}
"""Labels that break the symmetry in part: constraints help with few samples, and cost something with many."""


def test_relaxing_wins_where_strictness_helps_at_first_and_hurts_in_the_end() -> None:
    verdicts = [judge([evidence(2000, seed=s, **PARTLY)])[0] for s in range(6)]
    assert all(each.word == "relax" for each in verdicts)
    assert "worse than the relaxed one with all data" in verdicts[0].reasons[0]


def test_an_imposition_that_falls_behind_with_all_data_is_contested() -> None:
    """So it gets more seeds, however sure it is over the learning curve."""
    imposed = Verdict("impose", "invariant", 1e-6, ("because",))
    assert is_contested(evidence(2000, **PARTLY), imposed)
    ahead = {"invariant": BETTER, "local": FREE, "relaxed": FREE, "free": FREE}
    assert not is_contested(evidence(2000, **ahead), imposed)
    assert not is_contested(evidence(2000, **PARTLY), replace(imposed, word="relax", strictness="relaxed"))


def test_a_free_network_that_varies_does_not_hide_that_relaxing_beats_invariance() -> None:
    """The spread of two networks is their own: here the free one differs by 10 points from seed to seed."""
    imposed = evidence(1300, **PARTLY)
    unsteady = {share: dict(by_seed) for share, by_seed in imposed.curves["free"].items()}
    for by_seed in unsteady.values():
        by_seed[1] = by_seed[1] & (torch.arange(len(by_seed[1])) % 10 != 0)
        by_seed[2] = by_seed[2] | (torch.arange(len(by_seed[2])) % 2 == 0)
    imposed = replace(imposed, curves={**imposed.curves, "free": unsteady})
    spread = spreads([imposed], full=True)
    assert spread["invariant", "free"].variance > 3 * spread["invariant", "relaxed"].variance
    (verdict,) = judge([replace(imposed, spread=spreads([imposed], full=False), full_spread=spread)])
    assert verdict.word == "relax"


def test_a_loss_that_is_too_small_to_matter_is_no_reason_to_be_undecided() -> None:
    """The relaxed network is a little better, which cannot be shown; that the invariant one is good can be."""
    near = {"invariant": (0.87, 0.96, 0.98), "local": (0.79, 0.93, 0.97), "relaxed": (0.885, 0.97, 0.983), "free": FREE}
    verdicts = [judge([evidence(1400, seed=s, **near)])[0] for s in range(8)]
    assert all(each.word != "can't tell" for each in verdicts)
    assert sum(each.strictness == "invariant" for each in verdicts) >= 4


def test_a_refuted_invariance_is_left_although_local_layers_remain_open() -> None:
    """Few samples: the head that sees the orientation may or may not cost something, but invariance surely does."""
    open_ = {"invariant": (0.3, 0.5, 0.5), "local": (0.6, 0.8, 0.9), "relaxed": WORSE, "free": FREE}
    (verdict,) = judge([evidence(140, **open_)])
    assert verdict.word == "leave"


def test_more_candidates_need_stronger_proof() -> None:
    tie = dict.fromkeys(("invariant", "free"), FREE)
    imposed = [k for k in range(12) if judge([evidence(500, seed=k, **tie)])[0].word == "impose"]
    several = {
        k
        for k in imposed
        if judge([evidence(500, seed=k + 100 * j, name=f"c{j}", **tie) for j in range(8)])[0].word == "impose"
    }
    assert len(several) < len(imposed)


def test_false_impositions_are_rare() -> None:
    """A network that loses 8 points everywhere, with enough data to see it and with too little."""
    lossy = {"invariant": (0.52, 0.72, 0.82), "free": FREE}
    for samples in (100, 400, 1600):
        words = [judge([evidence(samples, seed=s, **lossy)])[0].word for s in range(25)]
        assert words.count("impose") <= 2
