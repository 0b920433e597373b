"""Candidates: what they do to samples, and which samples they fit."""

from __future__ import annotations

import pickle

import pytest
import torch

from intertwine.discovery import parse_candidate, usual_candidates
from intertwine.errors import InputError
from intertwine.measure import Symmetry, Transformation

IMAGES = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", [*usual_candidates((3, 8, 8)), "transpose", "negative"])
def test_every_element_moves_and_comes_back(name: str) -> None:
    candidate = parse_candidate(name, (3, 8, 8))
    assert pickle.loads(pickle.dumps(candidate)).digest(IMAGES) == candidate.digest(IMAGES)
    for number in range(1, len(candidate.elements) + 1):
        which = torch.full((6,), number)
        assert not torch.allclose(candidate.moved(IMAGES, which), IMAGES)
        if candidate.is_exact:
            assert torch.allclose(candidate.there_and_back(IMAGES, which), IMAGES, atol=1e-5)


def test_the_identity_is_number_zero_and_samples_move_on_their_own() -> None:
    turns = parse_candidate("c4", (3, 8, 8))
    moved = turns.moved(IMAGES, torch.tensor([0, 1, 2, 3, 0, 1]))
    assert torch.equal(moved[[0, 4]], IMAGES[[0, 4]])
    assert torch.equal(moved[2], IMAGES[2].rot90(2, (-2, -1)))
    assert not torch.equal(moved[1], IMAGES[1])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hflip", IMAGES.flip(-1)),
        ("vflip", IMAGES.flip(-2)),
        ("transpose", IMAGES.transpose(-1, -2)),
        ("c2", IMAGES.flip(-1, -2)),
        ("negative", 1 - IMAGES),
    ],
)
def test_the_only_element_does_what_the_name_says(name: str, expected: torch.Tensor) -> None:
    (element,) = parse_candidate(name, (3, 8, 8)).elements
    assert torch.equal(element.forward(IMAGES), expected)


def test_resampling_loses_something_and_is_known_to() -> None:
    zoom = parse_candidate("scale", (3, 8, 8))
    assert not zoom.is_exact
    assert not torch.allclose(zoom.there_and_back(IMAGES, torch.ones(6, dtype=torch.int64)), IMAGES, atol=1e-3)


@pytest.mark.parametrize("name", ["rotation", "scale", "C8"])
def test_samples_that_move_on_do_not_come_back(name: str) -> None:
    candidate = parse_candidate(name, (3, 8, 8))
    x = IMAGES[:1].expand(2000, -1, -1, -1)
    generator = torch.Generator().manual_seed(0)
    which = torch.randint(1, len(candidate.elements) + 1, (2000,), generator=generator)
    on = candidate.moved_on(candidate.moved(x, which), which, generator)
    back = candidate.there_and_back(x, which)
    assert float((on - back).flatten(1).abs().amax(1).min()) > 1e-3
    assert len(on.flatten(1).unique(dim=0)) > len(candidate.elements)


def test_turns_by_any_angle_are_spread_over_the_circle() -> None:
    """And they all resample, so that no turn can be told from others by its sharpness."""
    rotation = parse_candidate("rotation", (1, 8, 8))
    assert len(rotation.elements) == 24
    assert not any(each.exact for each in rotation.elements)
    assert rotation.is_group
    assert not parse_candidate("scale", (1, 8, 8)).is_group


def test_combinations_have_names() -> None:
    assert parse_candidate("hflip + c4", (1, 8, 8)).name == "d4"
    assert parse_candidate("c4+shifts", (1, 8, 8)).name == "c4 + shifts"
    assert parse_candidate("shifts + brightness", (1, 8, 8)).grid is None
    with pytest.raises(InputError, match="a combination among"):
        parse_candidate("transpose + c2", (1, 8, 8))


def test_only_groups_that_map_the_pixel_grid_to_itself_have_exact_layers() -> None:
    exact = {name for name in usual_candidates((3, 8, 8)) if parse_candidate(name, (3, 8, 8)).grid is not None}
    assert exact == {"hflip", "vflip", "c2", "c4", "d4"}
    assert parse_candidate("C8", (3, 8, 8)).grid is None


def test_hue_keeps_gray_and_colors_are_all_permutations() -> None:
    gray = torch.rand(2, 1, 4, 4).expand(2, 3, 4, 4)
    hue = parse_candidate("hue", (3, 4, 4))
    assert torch.allclose(hue.moved(gray, torch.tensor([1, 3])), gray, atol=1e-5)
    assert len(parse_candidate("colors", (3, 4, 4)).elements) == 5


def test_two_functions_of_one_name_have_different_digests() -> None:
    one, other = (
        parse_candidate(Transformation("mine", function), (3, 8, 8))
        for function in (lambda x: x.flip(-1), lambda x: x.flip(-2))
    )
    assert one.digest(IMAGES) != other.digest(IMAGES)


def test_users_bring_their_own() -> None:
    roll = Transformation("roll", lambda x: x.roll(1, -1), lambda x: x.roll(-1, -1), exact=True)
    candidate = parse_candidate(roll, (2, 9))
    assert [each.name for each in candidate.elements] == ["roll", "inverse of roll"]
    assert parse_candidate("Grid1d(D1)", (2, 9)).elements[0].exact
    assert parse_candidate(Symmetry("d4", name="mine"), (1, 8, 8)).name == "mine"


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("hue", (1, 8, 8), "images with 3 channels"),
        ("c4", (1, 8, 6), "square images"),
        ("hflip", (2, 9), "samples with 3 axes"),
        ("hflop", (1, 8, 8), "Did you mean hflip"),
    ],
)
def test_a_candidate_that_does_not_fit_says_why(name: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_candidate(name, shape)
