"""Training after symmetrizing: it helps, repeats by seed, and never leaves the symmetry."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from intertwine.data import load
from intertwine.errors import InputError, NonFiniteError, SizeLimitError
from intertwine.measure import accuracy, invariance_error, symmetrize, tune
from intertwine.models import plain_cnn
from tests.measure import nets

X = torch.randn(40, 3, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(40) % 5


def without_biases() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.ReLU(), nn.Conv2d(8, 6, 3, bias=False), nn.ReLU(),
        nn.Flatten(), nn.Linear(216, 5),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("make", "symmetry"),
    [(nets.vgg, "hflip"), (lambda: nets.vgg(norm=True), "c4"), (without_biases, "hflip"), (nets.Dense, "hflip")],
)
def test_it_learns_and_stays_invariant(make, symmetry):
    torch.manual_seed(0)
    symmetrized = symmetrize(make(), X, symmetry)
    kept = copy.deepcopy(symmetrized.model)
    losses = []
    labels = LABELS % (3 if make is nets.Dense else 5)
    better = tune(
        symmetrized,
        (X, labels),
        epochs=6,
        lr=1e-2,
        batch_size=20,
        progress=lambda seen, value: losses.append((seen, value)),
    )
    assert [seen for seen, _ in losses] == list(range(20, 241, 20))
    assert losses[-1][1] < losses[0][1]
    assert invariance_error(better.model, X, symmetry).mean <= 1e-5
    assert not torch.allclose(better.model(X), kept(X), atol=1e-3)
    assert list(better.model.state_dict()) == list(kept.state_dict()), "plain parameters again"
    for a, b in zip(symmetrized.model.state_dict().values(), kept.state_dict().values(), strict=True):
        assert torch.equal(a, b), "what was given is left as it is"
    assert not any(m.training for m in better.model.modules())


def test_the_same_training_without_ties_leaves_the_symmetry():
    torch.manual_seed(0)
    model = symmetrize(nets.vgg(), X, "hflip").model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X), LABELS).backward()
        optimizer.step()
    assert invariance_error(model, X, "hflip").mean > 1e-2


def test_it_repeats_by_seed_and_leaves_the_random_state_alone():
    symmetrized = symmetrize(nets.vgg(), X, "hflip")
    state = torch.get_rng_state()
    first, again, other = (tune(symmetrized, (X, LABELS), batch_size=8, seed=s).model(X) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    loader = [(X[:20], LABELS[:20]), (X[20:], LABELS[20:])]
    assert torch.equal(tune(symmetrized, loader, seed=1).model(X), tune(symmetrized, loader, seed=5).model(X))


def test_bad_input():
    symmetrized = symmetrize(nets.vgg(), X, "hflip")
    for data, options, message in (
        (X, {}, "images only"),
        ((X, LABELS + 1), {}, "labels from 0 to 4, one per output of the network; got labels from 1 to 5"),
        ((X, LABELS), {"epochs": 0}, "at least one epoch"),
        ((X, LABELS), {"lr": -1.0}, "lr > 0"),
    ):
        with pytest.raises(InputError, match=message):
            tune(symmetrized, data, **options)
    with pytest.raises(NonFiniteError, match="Try a smaller lr"):
        tune(symmetrized, (X, LABELS), epochs=20, lr=1e30)

    def short(out, labels):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(SizeLimitError, match="Use a smaller batch size"):
        tune(symmetrized, (X, LABELS), loss=short)


def test_strides_on_even_sizes():
    strided = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
    tuned = tune(symmetrize(strided, X, "hflip"), (X, LABELS), lr=1e-2)
    assert tuned.model[0].weight.shape[3] == 4
    assert invariance_error(tuned.model, X, "hflip").mean < 1e-5


@pytest.mark.slow
def test_what_averaging_costs_is_won_back():
    data = load("digits").normalized()
    x, labels = data.train.as_tensors()
    torch.manual_seed(0)
    model = plain_cnn(1, 10, widths=(8, 12, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(8):
        for part in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[part]), labels[part]).backward()
            optimizer.step()
    test = data.test.as_tensors()
    symmetrized = symmetrize(model, x, "hflip")
    scores = [
        accuracy(m, test) for m in (model, symmetrized.model, tune(symmetrized, (x, labels), epochs=4, lr=1e-2).model)
    ]
    assert scores[2] > scores[1] + 0.1
    assert scores[2] > 0.8 * scores[0]
