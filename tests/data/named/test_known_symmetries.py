"""Datasets whose symmetries are known, because they are made that way."""

from __future__ import annotations

import pytest
import torch

from intertwine.data import load

NAMES = (
    "digits-turned", "digits-rotated", "digits-mirrored", "digits-shuffled", "digits-few", "tic-tac-toe",
    "tic-tac-toe-corner", "bars-by-color", "bars-by-direction", "digits6-180", "digits-but-six",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_determines_everything(name: str) -> None:
    one, same, other = (load(name, seed=seed).train.as_tensors() for seed in (1, 1, 2))
    assert torch.equal(one[0], same[0])
    assert torch.equal(one[1], same[1])
    assert not (torch.equal(one[0], other[0]) and torch.equal(one[1], other[1]))


def test_digits_are_moved_as_they_say() -> None:
    plain = load("digits").train.as_tensors()[0]
    mirrored = load("digits-mirrored").train.as_tensors()[0]
    kept = (mirrored == plain).flatten(1).all(1)
    flipped = (mirrored == plain.flip(-1)).flatten(1).all(1)
    assert bool((kept | flipped).all())
    assert 0.45 < kept.double().mean() < 0.56
    turned = load("digits-turned").train.as_tensors()[0]
    matches = torch.stack([(turned == plain.rot90(k, (-2, -1))).flatten(1).all(1) for k in range(4)])
    assert bool(matches.any(0).all())
    assert matches.double().mean(1).min() > 0.2


def test_only_sixes_keep_upright_or_upside_down() -> None:
    plain, names = load("digits").train.as_tensors()
    plain, names = plain[names != 9], names[names != 9]
    x, labels = load("digits-but-six").train.as_tensors()

    def moved(which: torch.Tensor, turns: tuple[int, ...]) -> torch.Tensor:
        turned = [plain[which].rot90(k, (-2, -1)) for k in turns]
        every = torch.stack([*turned, *(each.flip(-1) for each in turned)])
        return (x[which] == every).flatten(2).all(2).any(0)

    six = names == 6
    assert torch.equal(labels[~six], names[~six])
    assert bool(moved(~six, (0, 1, 2, 3)).all())
    assert not bool(moved(~six, (0, 2)).all())
    assert bool(moved(labels == 6, (0,)).all())
    assert bool(moved(labels == 9, (2,)).all())
    assert 40 < int((labels == 9).sum()) < 104


def test_boards_are_labeled_by_outcome_or_by_corner() -> None:
    data = load("tic-tac-toe")
    x, won = (torch.cat([split.as_tensors()[k] for split in (data.train, data.test)]) for k in (0, 1))
    assert len(x) == 958
    assert int(won.sum()) == 626  # as often as X wins in the list of all final boards
    lines = torch.cat([x[:, 0].sum(1), x[:, 0].sum(2), torch.stack([x[:, 0].diagonal(0, 1, 2).sum(1)], 1)], 1)
    other = x[:, 0].flip(2).diagonal(0, 1, 2).sum(1)
    assert torch.equal((lines == 3).any(1) | (other == 3), won.bool())
    x, corner = load("tic-tac-toe-corner").train.as_tensors()
    assert torch.equal(corner, (x[:, 0, 0, 0] + 2 * x[:, 1, 0, 0]).long())


def test_spins_align_below_the_critical_temperature_and_have_no_preferred_direction() -> None:
    x, labels = load("ising").train.as_tensors()
    magnetization = (2 * x - 1).mean((1, 2, 3))
    sizes = [float(magnetization[labels == k].abs().mean()) for k in range(3)]
    assert sizes[0] > sizes[1] > sizes[2]
    assert abs(float(magnetization.mean())) < 0.1


def test_bars_differ_in_color_or_direction() -> None:
    x, color = load("bars-by-color").train.as_tensors()
    assert (x.mean((2, 3)).argmax(1) == color).double().mean() > 0.95
    x, vertical = load("bars-by-direction").train.as_tensors()
    along = x.mean(1)
    guess = along.mean(1).std(1) > along.mean(2).std(1)
    assert (guess.long() == vertical).double().mean() > 0.9
