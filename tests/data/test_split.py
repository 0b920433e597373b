"""Splits and datasets as values: what indexing, subsets, resizing and sampling give."""

from __future__ import annotations

import pickle
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from intertwine.data import (
    AugmentedSplit,
    ImageData,
    Normalization,
    Split,
    TensorImages,
    compose,
    load,
    random_crop,
    random_flip,
    sample_generator,
)
from intertwine.errors import InputError, SizeLimitError


def small(n: int = 12, *, channels: int = 2) -> Split:
    images = torch.randint(256, (n, channels, 5, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    return Split(TensorImages(images, white=255.0), torch.arange(n) % 3, ("a", "b", "c"))


def test_an_item_is_the_stored_image_scaled_to_one() -> None:
    split = small()
    image, label = split[4]
    assert image.dtype == torch.float32
    assert torch.equal(image, split.source.read(torch.tensor([4]))[0].float() / 255)
    assert label.dtype == torch.int64
    assert int(label) == 1
    assert torch.equal(split[-1][0], split[11][0])
    with pytest.raises(IndexError, match="index 12 is outside a split of 12"):
        split[12]


def test_iterating_and_batches_and_tensors_agree() -> None:
    split = small().normalized(Normalization((0.2, 0.4), (0.5, 2.0)))
    images, labels = split.as_tensors()
    assert torch.equal(torch.stack([image for image, _ in split]), images)
    assert torch.equal(torch.stack([label for _, label in split]), labels)
    loaded = list(DataLoader(split, batch_size=5))
    assert torch.equal(torch.cat([batch for batch, _ in loaded]), images)
    assert torch.equal(torch.cat([batch for _, batch in loaded]), labels)
    assert torch.allclose(Normalization((0.2, 0.4), (0.5, 2.0)).invert(images), small().as_tensors()[0], atol=1e-6)


def test_selections_compose_and_keep_images_with_labels() -> None:
    split = small()
    twice = split.select([7, 3, 5, -1]).select(torch.tensor([2, 0, 3]))
    assert twice.labels.tolist() == [5 % 3, 7 % 3, 11 % 3]
    for k, original in enumerate((5, 7, 11)):
        assert torch.equal(twice[k][0], split[original][0])
    assert len(split.select([])) == 0
    assert split.select([]).as_tensors()[0].shape == (0, 2, 5, 4)
    with pytest.raises(InputError, match="expected indices below 12; got 3 to 12"):
        split.select([3, 12])


def test_a_subset_is_balanced_repeatable_and_nested() -> None:
    labels = torch.tensor([0] * 50 + [1] * 30 + [2] * 4)
    split = Split(TensorImages(torch.zeros(84, 1, 2, 2), white=1.0), labels, ("a", "b", "c"))
    assert split.subset(12, seed=5).labels.bincount().tolist() == [4, 4, 4]
    assert split.subset(24, seed=5).labels.bincount().tolist() == [10, 10, 4]
    chosen = split.subset(24, seed=5).positions
    assert chosen is not None
    assert torch.equal(chosen, split.subset(24, seed=5).positions)
    assert not torch.equal(chosen, split.subset(24, seed=6).positions)
    fewer = split.subset(10, seed=5).positions
    assert fewer is not None
    assert set(fewer.tolist()) < set(chosen.tolist())
    assert split.subset(84).labels.equal(labels)
    for n in (0, 85):
        with pytest.raises(InputError, match="expected a number of samples from 1 to 84"):
            split.subset(n)


def test_resizing_is_anti_aliased_and_not_done_twice() -> None:
    stripes = torch.zeros(1, 1, 8, 8)
    stripes[..., ::2] = 1.0
    split = Split(TensorImages(stripes, white=1.0), torch.zeros(1, dtype=torch.int64))
    small = split.resized((8, 4))
    assert small.shape == (1, 8, 4)
    # Shrinking by picking pixels would give all ones or all zeros.
    assert torch.allclose(small[0][0][..., 1:-1], torch.full((1, 8, 2), 0.5), atol=0.1)
    assert torch.equal(split.resized(3).resized(8)[0][0], split[0][0])
    assert torch.equal(small.in_memory()[0][0], small[0][0])
    assert small.in_memory().source.in_memory
    with pytest.raises(InputError, match="expected a positive height and width; got 0"):
        split.resized(0)


def test_normalization_comes_from_the_training_images() -> None:
    data = ImageData("small", small(12), small(6))
    images = small(12).as_tensors()[0].double().transpose(0, 1).flatten(1)
    assert data.normalization.mean == pytest.approx(images.mean(1).tolist(), abs=1e-6)
    assert data.normalization.std == pytest.approx(images.std(1, correction=0).tolist(), abs=1e-6)
    assert data.normalized().test.normalization == data.normalization
    assert data.normalized().normalization == data.normalization, "measured on the images as they are"
    normalized = data.normalized().train.as_tensors()[0].transpose(0, 1).flatten(1)
    assert torch.allclose(normalized.mean(1), torch.zeros(2), atol=1e-5)
    assert torch.allclose(normalized.std(1, correction=0), torch.ones(2), atol=1e-5)


def test_a_constant_channel_is_normalized_to_zero() -> None:
    images = torch.full((3, 1, 2, 2), 0.25)
    split = Split(TensorImages(images, white=1.0), torch.zeros(3, dtype=torch.int64))
    data = ImageData("flat", split, split.select([]))
    assert data.normalization == Normalization((0.25,), (1.0,))
    assert data.normalized().train[0][0].abs().max() == 0
    with pytest.raises(InputError, match="expected at least one image"):
        _ = ImageData("empty", split.select([]), split).normalization


def test_wrong_values_are_refused() -> None:
    source = TensorImages(torch.zeros(3, 1, 2, 2), white=1.0)
    with pytest.raises(InputError, match=r"int64 labels \(3,\)"):
        Split(source, torch.zeros(2, dtype=torch.int64))
    with pytest.raises(InputError, match="int64 labels"):
        Split(source, torch.zeros(3))
    with pytest.raises(InputError, match="expected a normalization of 2 channels"):
        small().normalized(Normalization((0.0,), (1.0,)))
    with pytest.raises(InputError, match="positive standard deviation"):
        Normalization((0.0,), (0.0,))


def test_what_does_not_fit_in_memory_is_refused_before_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERTWINE_MEMORY_LIMIT", "1G")
    with pytest.raises(SizeLimitError, match="737280 images of 1 x 64 x 64"):
        load("dsprites").train.as_tensors()


AUGMENT = compose(partial(random_crop, padding=1), random_flip)


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    """What a loader does: one generator a sample, from the seed, the epoch and the index."""

    def __init__(self, split: AugmentedSplit, epoch: int) -> None:
        self.split, self.epoch = split, epoch

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.split.getitem_seeded(index, sample_generator(7, self.epoch, index))


def test_augmentation_depends_on_the_sample_only_not_on_order_or_workers() -> None:
    data = load("digits").subset(24)
    split = data.train.normalized(data.normalization).with_transform(AUGMENT)
    alone = torch.stack([Augmented(split, 2)[k][0] for k in range(24)])
    backwards = torch.stack([Augmented(split, 2)[k][0] for k in reversed(range(24))]).flip(0)
    workers = torch.cat([images for images, _ in DataLoader(Augmented(split, 2), batch_size=5, num_workers=2)])
    assert torch.equal(alone, backwards)
    assert torch.equal(alone, workers)
    assert not torch.equal(alone, torch.stack([Augmented(split, 3)[k][0] for k in range(24)])), "epochs differ"
    assert not torch.equal(alone, split.split.as_tensors()[0]), "the transform does something"
    assert torch.equal(split[3][0], data.train.normalized(data.normalization)[3][0]), "indexing does not augment"


def test_the_transform_comes_before_the_normalization() -> None:
    data = load("digits")
    zero = data.normalized().train.with_transform(lambda image, generator: torch.zeros_like(image))
    image, _ = zero.getitem_seeded(0, sample_generator(0))
    assert torch.allclose(image, torch.full_like(image, -data.normalization.mean[0] / data.normalization.std[0]))


def test_a_split_survives_pickling() -> None:
    split = load("digits").train.subset(5).with_transform(AUGMENT)
    again = pickle.loads(pickle.dumps(split))
    assert torch.equal(again.getitem_seeded(3, sample_generator(1))[0], split.getitem_seeded(3, sample_generator(1))[0])


def test_the_training_loader_reads_augmented_samples() -> None:
    from intertwine.train import deterministic_loader

    split = load("digits").train.subset(40).with_transform(AUGMENT)
    epochs = [
        torch.cat([images for images, _ in deterministic_loader(split, 16, seed=3).batches(epoch)])
        for epoch in (0, 0, 1)
    ]
    assert torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[0].sum((1, 2, 3)).sort().values, epochs[2].sum((1, 2, 3)).sort().values)
