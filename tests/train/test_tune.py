"""Tuning a symmetrized network: it approaches its teacher without labels, and never leaves the symmetry."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from intertwine.data import load
from intertwine.errors import InputError, NonFiniteError, NumericalError, SizeLimitError
from intertwine.measure import accuracy, invariance_error, symmetrize, tie
from intertwine.measure.surgery import GroupAverage, untie
from intertwine.models import plain_cnn
from intertwine.train import read_metrics, tune
from tests.measure import nets

X = torch.randn(40, 3, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(40) % 5


def without_biases() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.ReLU(), nn.Conv2d(8, 6, 3, bias=False), nn.ReLU(),
        nn.Flatten(), nn.Linear(216, 5),
    )  # fmt: skip


def strided(*, norm: bool = False) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2, 1), nn.BatchNorm2d(6) if norm else nn.Identity(), nn.ReLU(), nn.Flatten(),
        nn.Linear(96, 5),
    )  # fmt: skip


def gap(model: nn.Module, teacher: nn.Module) -> float:
    """The mean squared difference of log probabilities, or of outputs that are images."""
    with torch.no_grad():
        pair = [y.log_softmax(1) if y.dim() == 2 else y for y in (model(X), teacher(X))]
    return float((pair[0] - pair[1]).square().mean())


@pytest.mark.parametrize(
    ("make", "symmetry", "width"),
    [
        (nets.vgg, "hflip", 1.0),
        (lambda: nets.vgg(norm=True), "c4", 1.0),
        (without_biases, "hflip", 1.0),
        (nets.Dense, "hflip", 1.0),
        (lambda: strided(norm=True), "hflip", 1.5),
    ],
)
def test_it_approaches_the_average_over_the_group(make, symmetry, width):
    torch.manual_seed(0)
    symmetrized = symmetrize(make().eval(), X, symmetry, width=width, refit=False)
    kept, given = (copy.deepcopy(m) for m in (symmetrized.model, symmetrized.original))
    better = tune(symmetrized, X, epochs=15, lr=1e-2, batch_size=20)
    teacher = GroupAverage(given, symmetry).eval()
    assert gap(better.model, teacher) < 0.7 * gap(kept, teacher)
    assert better.error < 1e-9
    assert invariance_error(better.model.double(), X.double(), symmetry).mean < 1e-10
    assert list(better.model.state_dict()) == list(kept.state_dict()), "plain parameters again"
    for before, after in ((kept, symmetrized.model), (given, symmetrized.original)):
        for a, b in zip(before.state_dict().values(), after.state_dict().values(), strict=True):
            assert torch.equal(a, b), "what was given is left as it is"
    assert not any(m.training for m in better.model.modules())


def test_outputs_that_are_images_use_the_squared_error():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 2, 3, padding=1)).eval()
    twin = symmetrize(net, X, "hflip", refit=False)
    better = tune(twin, X, epochs=15, lr=1e-2, batch_size=20)
    teacher = GroupAverage(net, "hflip")
    assert gap(better.model, teacher) < 0.9 * gap(twin.model, teacher)
    assert better.error < 1e-9


def test_the_same_training_without_ties_leaves_the_symmetry():
    torch.manual_seed(0)
    model = symmetrize(nets.vgg(), X, "hflip").model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X), LABELS).backward()
        optimizer.step()
    assert invariance_error(model, X, "hflip").mean > 1e-2


def test_a_result_that_is_not_symmetric_is_refused():
    twin = symmetrize(nets.vgg(), X, "hflip")
    free = tie(twin.model, twin.matching)
    assert untie(twin, free, X).error < 1e-9
    broken = copy.copy(twin)
    broken.model = copy.deepcopy(twin.model)
    broken.model.register_forward_hook(lambda module, args, out: out + args[0][:, :1, 0, 0])
    with pytest.raises(NumericalError, match=r"untie: expected a network that commutes .* first in the network itself"):
        untie(broken, free, X)


def test_the_original_can_be_the_teacher():
    torch.manual_seed(0)
    net = strided().eval()
    twin = symmetrize(net, X, "c4")
    options = {"epochs": 30, "lr": 1e-2, "batch_size": 20, "augment": None}
    average, original = (tune(twin, X, teacher=name, **options) for name in ("average", "original"))
    assert original.error < 1e-9
    assert gap(original.model, net) < 0.8 * gap(average.model, net)
    assert gap(average.model, GroupAverage(net, "c4")) < gap(original.model, GroupAverage(net, "c4"))


def test_labels_can_take_part():
    torch.manual_seed(0)
    twin = symmetrize(nets.vgg(), X, "hflip")
    taught, labeled = (tune(twin, (X, LABELS), epochs=20, lr=1e-2, batch_size=20, label_weight=w).model for w in (0, 1))
    assert accuracy(labeled, (X, LABELS)) > accuracy(taught, (X, LABELS)) + 0.2


def test_it_repeats_by_seed_and_leaves_the_random_state_alone():
    twin = symmetrize(nets.vgg(), X, "hflip")
    state = torch.get_rng_state()
    first, again, other = (tune(twin, X, epochs=1, batch_size=8, seed=s).model(X) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    shifted = tune(twin, X, epochs=1, batch_size=8, seed=1, augment="shift").model(X)
    assert not torch.equal(first, shifted)


def test_datasets_and_loaders():
    twin = symmetrize(nets.vgg(), X, "hflip")
    options = {"epochs": 1, "batch_size": 8, "seed": 1}
    of_tensor = tune(twin, X, **options).model(X)
    assert torch.equal(tune(twin, TensorDataset(X, LABELS), **options).model(X), of_tensor)
    loader = DataLoader(TensorDataset(X), batch_size=8)
    assert torch.equal(tune(twin, loader, epochs=1, seed=1).model(X), tune(twin, loader, epochs=1, seed=5).model(X))


class Stop(Exception):  # noqa: N818  # stands for a kill: nothing after it runs
    pass


def test_an_interrupted_run_continues(tmp_path):
    twin = symmetrize(strided(norm=True), X, "hflip", width=1.5)
    options = {"epochs": 3, "batch_size": 8, "checkpoint_every": 4, "validation": X[:10]}
    whole = tune(twin, X, folder=tmp_path / "whole", **options)
    calls = 0

    def loss(out, target):
        nonlocal calls
        calls += 1
        if calls == 10:
            raise Stop
        return nn.functional.mse_loss(out, target)

    with pytest.raises(Stop):
        tune(twin, X, folder=tmp_path / "part", loss=loss, **options)
    record = json.loads((tmp_path / "part" / "record.json").read_text())
    assert record["status"] != "finished"
    continued = tune(twin, X, folder=tmp_path / "part", loss=loss, **options)
    assert calls < 10 + 15 + 3 * 2, "it started over"
    assert torch.equal(continued.model(X), whole.model(X))
    seen = calls
    finished = tune(twin, X, folder=tmp_path / "part", loss=loss, **options)
    assert calls == seen, "a finished run is not repeated"
    assert torch.equal(finished.model(X), continued.model(X))
    losses = [row["val_loss"] for row in read_metrics(tmp_path / "whole") if row["split"] == "val"]
    assert len(losses) == 3
    other = symmetrize(strided(norm=True), X, "hflip", width=1.5)
    with pytest.raises(InputError, match=r"about.start"):
        tune(other, X, folder=tmp_path / "whole", **options)


def test_bad_input():
    twin = symmetrize(nets.vgg(), X, "hflip")
    for data, options, message in (
        (X, {"label_weight": 0.5}, "images only"),
        ((X, LABELS + 1), {"label_weight": 1}, "labels from 0 to 4, one per output of the network; got labels from 1"),
        ((X, LABELS[:3]), {}, "one label per image"),
        (X.long(), {}, "floating point images"),
        (X[0], {}, "floating point images"),
        (X, {"epochs": 0}, "1 or more"),
        (X, {"teacher": "none"}, "teacher"),
        (X, {"lr": -1.0}, "lr > 0"),
        (X, {"label_weight": 2.0}, "label_weight from 0 to 1"),
    ):
        with pytest.raises(InputError, match=message):
            tune(twin, data, **options)
    with pytest.raises(NonFiniteError):
        tune(twin, X, epochs=20, lr=1e30)

    def short(out, target):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(SizeLimitError, match="Use a smaller batch size"):
        tune(twin, X, loss=short)


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
    twin = symmetrize(model.eval(), x, "hflip")
    scores = [accuracy(m, test) for m in (model, twin.model, tune(twin, x, lr=3e-3, epochs=20).model)]
    assert scores[2] > scores[1] + 0.03
    assert scores[2] > 0.95 * accuracy(GroupAverage(model, "hflip"), test)
