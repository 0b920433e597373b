from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from intertwine.errors import InputError
from intertwine.train import Augmented, SeededDataset, deterministic_loader
from intertwine.train._batch import batch_size, map_tensors, named_tensors
from intertwine.train.loading._replayed import ReplayedLoader


class Global(Dataset[tuple[int, Tensor, float, float]]):
    """Randomness the usual way: whatever global generator is at hand."""

    def __len__(self) -> int:
        return 11

    def __getitem__(self, index: int) -> tuple[int, Tensor, float, float]:
        return index, torch.rand(2), random.random(), float(np.random.rand())


def jitter(sample: Any, generator: torch.Generator) -> tuple[Any, Tensor]:
    return sample, torch.rand(2, generator=generator)


def same(first: Any, second: Any) -> bool:
    pairs = zip(named_tensors(first), named_tensors(second), strict=True)
    return all(name == other and torch.equal(a, b) for (name, a), (other, b) in pairs)


DATASETS = {"seeded": Augmented(range(11), jitter), "global": Global()}


@pytest.mark.parametrize("kind", DATASETS)
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_nothing(kind: str, workers: int) -> None:
    plain = deterministic_loader(DATASETS[kind], 4, seed=3)
    loaded = deterministic_loader(DATASETS[kind], 4, seed=3, workers=workers)
    for epoch, start in ((0, 0), (1, 0), (0, 2), (5, 1)):  # the same worker processes for all of them
        assert same(list(plain.batches(epoch, start)), list(loaded.batches(epoch, start)))
    stopped_early = loaded.batches(2)
    next(stopped_early)
    assert same(list(loaded.batches(3)), list(plain.batches(3)))
    with pytest.raises(InputError, match="one iteration at a time, since workers > 0"):
        next(stopped_early)
    loaded.close()


@pytest.mark.parametrize("kind", DATASETS)
def test_the_randomness_of_a_sample_depends_on_seed_epoch_and_index_only(kind: str) -> None:
    def by_index(batch: int, shuffle: bool, epoch: int = 0, seed: int = 3) -> dict[int, list[float]]:
        loader = deterministic_loader(DATASETS[kind], batch, seed=seed, shuffle=shuffle)
        found: dict[int, list[float]] = {}
        for indices, *numbers in loader.batches(epoch):
            for position, index in enumerate(indices.tolist()):
                found[index] = [number for values in numbers for number in values[position].flatten().tolist()]
        return found

    assert by_index(4, True) == by_index(3, False)
    assert len(set(map(tuple, by_index(4, True).values()))) == 11
    assert by_index(4, True) != by_index(4, True, epoch=1)
    assert by_index(4, True) != by_index(4, True, seed=4)


@pytest.mark.parametrize("kind", DATASETS)
def test_loading_leaves_the_global_generators_alone(kind: str) -> None:
    def draw() -> tuple[float, float, float]:
        return torch.rand(()).item(), random.random(), float(np.random.rand())

    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    expected = draw()
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])
    list(deterministic_loader(DATASETS[kind], 4, seed=0))
    loaded = deterministic_loader(DATASETS[kind], 4, seed=0, workers=1)
    list(loaded)
    loaded.close()
    assert draw() == expected


def test_orders_differ_between_epochs_and_seeds_and_hold_every_sample() -> None:
    loader = deterministic_loader(range(100), 7, seed=0)
    orders = [loader.order(epoch).tolist() for epoch in range(3)]
    orders.append(deterministic_loader(range(100), 7, seed=1).order(0).tolist())
    assert len(set(map(tuple, orders))) == 4
    assert all(sorted(order) == list(range(100)) for order in orders)
    assert [x for batch in loader.batches(2) for x in batch.tolist()] == orders[2]


def test_batches_before_the_start_are_not_loaded() -> None:
    asked: list[int] = []

    class Asked:
        def __len__(self) -> int:
            return 10

        def __getitem__(self, index: int) -> int:
            asked.append(index)
            return index

    loader = deterministic_loader(Asked(), 3, seed=0)
    last = next(loader.batches(0, start=3)).tolist()
    assert asked == last == loader.order(0)[9:].tolist()


@given(
    samples=st.integers(1, 40),
    size=st.integers(1, 12),
    world=st.integers(1, 5),
    epoch=st.integers(0, 3),
    shuffle=st.booleans(),
    drop_last=st.booleans(),
)
def test_the_parts_of_all_ranks_are_the_whole_batch(
    samples: int, size: int, world: int, epoch: int, shuffle: bool, drop_last: bool
) -> None:
    if drop_last and samples < size:
        return
    whole = deterministic_loader(range(samples), size, seed=1, shuffle=shuffle, drop_last=drop_last)
    shards = [whole.shard(rank, world) for rank in range(world)]
    parts = [list(shard.batches(epoch)) for shard in shards]
    assert {len(part) for part in parts} == {len(whole)}
    for position, batch in enumerate(whole.batches(epoch)):
        collected: list[int] = []
        for shard, part in zip(shards, parts, strict=True):
            here, total = shard.share(position)
            assert total == len(batch)
            assert len(part[position]) == max(here, 1)  # a rank without a share still has something to compute on
            collected += part[position].tolist()[:here]
        assert sorted(collected) == sorted(batch.tolist())


def test_a_shard_of_another_rank_is_refused() -> None:
    shard = deterministic_loader(range(8), 4, seed=0).shard(1, 2)
    assert shard.shard(1, 2) is shard
    with pytest.raises(InputError, match="rank 1 of 2 in a process that is rank 0 of 3"):
        shard.shard(0, 3)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"batch_size": 0}, "batch_size >= 1"),
        ({"workers": -1}, "workers >= 0"),
        ({"rank": 2, "world": 2}, "0 <= rank < world"),
        ({"dataset": []}, "at least one batch"),
        ({"batch_size": 20, "drop_last": True}, "at least one batch"),
        ({"dataset": iter([1])}, "a dataset with a length"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        deterministic_loader(**{"dataset": range(9), "batch_size": 2, "seed": 0, **arguments})
    assert expected in caught.value.expected


def test_datasets_are_asked_in_the_best_way_they_know() -> None:
    tensors = TensorDataset(torch.arange(10.0), torch.arange(10) % 3)
    slow: Any = [tensors[index] for index in range(10)]
    for fast in (tensors, Subset(tensors, range(10))):
        pairs = zip(deterministic_loader(fast, 4, seed=0), deterministic_loader(slow, 4, seed=0), strict=True)
        assert all(same(a, b) for a, b in pairs)
    assert isinstance(Augmented(tensors, jitter), SeededDataset)
    assert not isinstance(tensors, SeededDataset)


def test_augmentations_nest_and_share_one_generator() -> None:
    twice = Augmented(Augmented(range(3), jitter), jitter)
    (_, first), second = twice.getitem_seeded(0, torch.Generator().manual_seed(0))
    both = torch.rand(4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.cat([first, second]), both)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_torch_loader_is_replayed_exactly(workers: int) -> None:
    def replayed() -> ReplayedLoader:
        return ReplayedLoader(DataLoader(Global(), 3, shuffle=True, num_workers=workers), seed=0)

    whole = list(replayed().batches(1))
    torch.rand(100)
    assert same(list(replayed().batches(1, start=2)), whole[2:])
    assert not same(list(replayed().batches(0)), whole)
    with pytest.raises(InputError, match="a loader that can be shared among 2 processes; got a DataLoader"):
        replayed().shard(0, 2)


def test_batches_are_looked_into() -> None:
    batch = {"x": torch.zeros(3, 2), "rest": [torch.ones(3), ("name", torch.tensor(1))]}
    assert [name for name, _ in named_tensors(batch)] == ["x", "rest.0", "rest.1.1"]
    doubled = map_tensors(batch, lambda tensor: tensor * 2)
    assert doubled["rest"][1] == ("name", torch.tensor(2))
    assert batch_size(batch) == 3
    assert batch_size("text") == 1
    assert batch_size(torch.tensor(3)) == 1
