"""Discover: the same question about two sets of digits."""

from __future__ import annotations

from pathlib import Path

from ..data import load
from ..discovery import Discovery, discover
from ._digits import Labeled, in_any_pose, with_six_and_nine

SAMPLES = 500
SEEDS = 2
EFFORT = 0.5


def discoveries(folder: Path, *, quick: bool) -> dict[str, Discovery]:
    """What quarter turns do to digits in any pose, and to digits in any pose except 6 and 9.

    Digits of 8 x 8 pixels, a part of them and two seeds: it trains four networks on three amounts of data for each.
    """
    data: Labeled = load("digits").train.as_tensors()
    sets = {
        "digits in any pose": in_any_pose(data[0], seed=0),
        "digits in any pose, 6 and 9 upright": with_six_and_nine(data, seed=0),
    }
    return {
        name: discover(
            images,
            ["c4"],
            labels=data[1],
            name=name,
            seeds=SEEDS,
            effort=EFFORT,
            max_samples=100 if quick else SAMPLES,
            folder=folder / f"discover-{number}",
        )
        for number, (name, images) in enumerate(sets.items())
    }
