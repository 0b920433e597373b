"""Augmentations against slow and obvious twins, and their behavior on one image and on a batch."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
import torch
from torch import Tensor

from intertwine.data import (
    Transform,
    compose,
    normalize,
    random_crop,
    random_flip,
    random_rotation90,
    random_translation,
    sample_generator,
)
from intertwine.errors import InputError

IMAGE = torch.arange(1.0, 33.0).reshape(2, 4, 4)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def key(image: Tensor) -> tuple[float, ...]:
    return tuple(image.flatten().tolist())


def shifted(image: Tensor, down: int, right: int, *, wrap: bool) -> Tensor:
    """Pixel by pixel."""
    out = torch.zeros_like(image)
    _, height, width = image.shape
    for i in range(height):
        for j in range(width):
            a, b = i - down, j - right
            if wrap:
                out[:, i, j] = image[:, a % height, b % width]
            elif 0 <= a < height and 0 <= b < width:
                out[:, i, j] = image[:, a, b]
    return out


def orbit(transform: str) -> set[tuple[float, ...]]:
    shifts = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    return {
        "flip": {key(IMAGE), key(IMAGE.flip(-1))},
        "rotation": {key(IMAGE.rot90(k, (1, 2))) for k in range(4)},
        "translation": {key(shifted(IMAGE, a, b, wrap=False)) for a, b in shifts},
        "wrapped": {key(shifted(IMAGE, a, b, wrap=True)) for a, b in shifts},
        "window": {key(IMAGE[:, a : a + 3, b : b + 2]) for a in (0, 1) for b in (0, 1, 2)},
    }[transform]


TRANSFORMS: dict[str, Transform] = {
    "flip": random_flip,
    "rotation": random_rotation90,
    "translation": partial(random_translation, shift=1),
    "wrapped": partial(random_translation, shift=1, wrap=True),
    "window": partial(random_crop, size=(3, 2)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_result_is_possible_and_every_possible_result_comes_equally_often(name: str) -> None:
    batch = TRANSFORMS[name](IMAGE.expand(3600, -1, -1, -1), generator())
    counts = Counter(map(key, batch))
    assert set(counts) == orbit(name)
    expected = 3600 / len(orbit(name))
    assert all(abs(count - expected) < 5 * expected**0.5 for count in counts.values())


@pytest.mark.parametrize("name", TRANSFORMS)
def test_one_image_and_a_batch_of_one_draw_the_same(name: str) -> None:
    for seed in range(5):
        one = TRANSFORMS[name](IMAGE, generator(seed))
        assert torch.equal(one, TRANSFORMS[name](IMAGE[None], generator(seed))[0])
        assert torch.equal(one, TRANSFORMS[name](IMAGE, generator(seed)))


def test_padding_and_cropping_is_the_translation() -> None:
    for seed in range(10):
        crop = random_crop(IMAGE, generator(seed), padding=2)
        assert torch.equal(crop, random_translation(IMAGE, generator(seed), shift=2))


def test_one_image_is_shifted_by_what_was_drawn() -> None:
    for seed in range(20):
        drawn = generator(seed)
        down, right = (2 - int(torch.randint(5, (1,), generator=drawn)) for _ in range(2))
        one = random_translation(IMAGE, generator(seed), shift=2)
        assert torch.equal(one, shifted(IMAGE, down, right, wrap=False))


def test_bytes_stay_bytes() -> None:
    image = IMAGE.to(torch.uint8)
    for transform in TRANSFORMS.values():
        assert transform(image, generator()).dtype == torch.uint8


def test_steps_draw_one_after_the_other_from_one_generator() -> None:
    first = generator(3)
    by_hand = random_flip(random_rotation90(IMAGE, first), first)
    assert torch.equal(compose(random_rotation90, random_flip)(IMAGE, generator(3)), by_hand)
    assert torch.equal(compose()(IMAGE, generator()), IMAGE)


def test_normalizing() -> None:
    out = normalize(IMAGE, (1.0, 17.0), (2.0, 4.0))
    assert torch.equal(out[0], (IMAGE[0] - 1) / 2)
    assert torch.equal(out[1], (IMAGE[1] - 17) / 4)


def test_generators_of_different_samples_differ() -> None:
    draws = {torch.rand((), generator=sample_generator(*where)).item() for where in [(0, 1), (0, 0, 1), (1, 0), (0, 0)]}
    assert len(draws) == 4


def test_wrong_input() -> None:
    with pytest.raises(InputError, match="expected an image"):
        random_flip(torch.zeros(4, 4), generator())
    with pytest.raises(InputError, match="expected square images; got 3 x 4"):
        random_rotation90(torch.zeros(1, 3, 4), generator())
    with pytest.raises(InputError, match="expected a window inside 4 x 4 with 1 zeros on each side; got 7 x 7"):
        random_crop(IMAGE, generator(), padding=1, size=7)
    with pytest.raises(InputError, match="expected shift of 0 or more; got -1"):
        random_translation(IMAGE, generator(), shift=-1)
    with pytest.raises(InputError, match="expected images of 1 channels"):
        normalize(IMAGE, (0.0,), (1.0,))
