"""The experiments on soft equivariance: every published row, every row runs, what is exact is exact, what runs keep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from intertwine.data import load, normalize
from intertwine.errors import InputError
from intertwine.experiments import JobSpec, Panels, Plot, Table, execute, experiment_named, finished_runs, load_arrays
from intertwine.experiments.lab._choose import undecided
from intertwine.experiments.lab._experiment import Job
from intertwine.experiments.soft._bank import filters
from intertwine.experiments.soft._best import BestWeights, EnoughError
from intertwine.experiments.soft._run import SUBGROUPS, _loss, _penalty, build, prepared
from intertwine.groups import SO2
from intertwine.models import SoftResNet
from intertwine.relaxed import Orientations, SoftConv2d, SoftGroupConv2d, kernel_norms
from tests.data.files import write_mnist

NAMES = ("soft", "soft-samples", "soft-augmented", "soft-cifar100", "soft-mnist6", "soft-rotmnist", "soft-frequency")
SOFT, SAMPLES, AUGMENTED, CIFAR100, SIXES, ROTATED, FREQUENCY = map(experiment_named, NAMES)
METRICS = {"test_accuracy", "validation_accuracy", "parameters"}


def job(experiment: str, row: str, scale: str, folder: Path | None = None, **overrides) -> Job:
    settings = experiment_named(experiment).settings(row, scale, overrides)
    return Job(experiment, row, scale, 0, settings, folder, Path("unused"))


def ran(tmp_path: Path, experiment: str, row: str, scale: str = "smoke", **overrides):
    spec = JobSpec(experiment, row, scale, 0, str(tmp_path / "results"), str(tmp_path), overrides)
    outcome = execute(spec)
    assert outcome.state == "finished", outcome.error
    return spec, outcome.metrics


def decided(settings: dict, value: float = 1.0) -> dict:
    """The settings with one ω' instead of candidates."""
    subgroup = undecided(settings, SUBGROUPS)
    return settings if subgroup is None else {**settings, subgroup: value}


def write_cifar(folder: Path, name: str, classes: int, *, train: int = 60, test: int = 20) -> None:
    random = np.random.default_rng(0)
    images = {part: random.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8) for part, n in _parts(train, test)}
    labels = {part: np.arange(n) % classes for part, n in _parts(train, test)}
    arrays = {f"x_{part}": images[part] for part in images} | {f"y_{part}": labels[part] for part in labels}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / f"{name}.npz", **arrays)


def _parts(train: int, test: int):
    return ("train", train), ("test", test)


# --- rows and settings -----------------------------------------------------------------------------------------------


def test_published_numbers():
    """Every row of the tables, and cells from each column."""
    assert [len(e.rows) for e in (SOFT, SAMPLES, AUGMENTED, CIFAR100)] == [17 + 6 + 2, 18, 35, 70]
    cell = SOFT.row("se2-4-lambda-0.1").published["test_accuracy"]
    assert (cell.mean, cell.spread, cell.runs) == (83.70, 0.16, 3)
    assert SAMPLES.row("se2-16-soft").published["test_accuracy"].mean == 86.29
    assert AUGMENTED.row("t2-soft").published["test_accuracy"].mean == 87.74
    assert CIFAR100.row("se2-8-lambda-0.5").published["test_accuracy"].mean == 57.11
    assert CIFAR100.row("augmented-se2-4-lambda-0.1").published["test_accuracy"].spread == 1.18
    for experiment in (SOFT, SAMPLES, AUGMENTED, CIFAR100, SIXES):
        values = {row.name: row.published["test_accuracy"].mean for row in experiment.rows}
        for claim in experiment.orderings:
            assert values[claim.first] > values[claim.second], claim


def test_rows_differ_in_what_they_relax():
    strict, partial, soft, learned = (
        SOFT.row(f"se2-4-{kind}").settings for kind in ("strict", "partial", "soft", "lambda-5")
    )
    assert (strict["rotation"], strict["partial"], strict["keep"]) == (None, False, "last")
    assert (partial["rotation"], partial["partial"], partial["keep"]) == (None, True, "best")
    assert (soft["rotation"], soft["learn"], soft["penalty"]) == ([0.125, 0.25, 0.5, 1.0], False, None)
    assert (learned["rotation"], learned["learn"], learned["penalty"]) == (0.5, True, 5.0)
    assert SOFT.row("t2-soft").settings["translation"] == [0.125, 0.25, 0.5, 1.0]
    assert SOFT.row("t2-soft").settings["rotation"] is None
    assert AUGMENTED.row("t2-soft").settings["augment"]
    assert not SOFT.row("t2-soft").settings["augment"]


@pytest.mark.parametrize("experiment", [SOFT, CIFAR100], ids=lambda e: e.name)
def test_networks_of_the_paper_have_the_published_sizes(experiment):
    rows = [row for row in experiment.rows if "parameters" in row.published and not row.name.startswith("augmented")]
    seen = set()
    for row in rows:
        settings = experiment.settings(row.name, "paper")
        kind = (settings["samples"] > 1, row.name.rpartition("-")[2])
        if kind in seen:  # the number of samples does not change the weights
            continue
        seen.add(kind)
        model = build({**decided(settings), "angles": "principal"}, 3, 100 if experiment is CIFAR100 else 10)
        assert sum(p.numel() for p in model.parameters()) == row.published["parameters"].mean, row.name
    assert len(seen) == 5


def test_settings_of_the_paper():
    settings = SOFT.settings("se2-4-soft", "paper")
    wanted = {"epochs": 300, "warmup_epochs": 5, "batch_size": 64, "lr": 1e-3, "schedule": "cosine", "decay": 1e-4}
    wanted |= {"width": 32, "kernel_size": 7, "hidden": 32, "validation": 5000, "size": None, "images": None}
    wanted |= {"sampling": "random", "extent_lr": 1e-4, "patience": 100}
    assert {key: settings[key] for key in wanted} == wanted
    assert SOFT.seeds["paper"] == 3
    assert CIFAR100.settings("t2-soft", "paper")["mean"][0] == 0.49137
    sixes = SIXES.settings("so2-soft", "paper")
    assert (sixes["samples"], sixes["width"], sixes["schedule"]) == (8, 10, "constant")
    rotated = ROTATED.settings("se2-8-partial", "paper")
    assert (rotated["decay"], rotated["extent_penalty"], rotated["pooled"]) == (0, 1e-3, [0, 1])


@pytest.mark.parametrize("experiment", [*map(experiment_named, NAMES)], ids=lambda e: e.name)
def test_every_scale_holds_out_validation_images_and_has_continuous_kernels(experiment):
    for scale in experiment.scales:
        for row in experiment.rows:
            settings = experiment.settings(row.name, scale)
            assert isinstance(settings["validation"], int)
            assert settings["validation"] > 0
            assert settings["angles"] == ("principal" if row.name.startswith("principal-") else "circle")
            assert 1 <= settings["trial_epochs"] <= settings["epochs"]


def test_both_kernel_networks_are_in_one_table():
    nets = {row.name: SOFT.settings(row.name, "small")["net"] for row in SOFT.rows}
    for row in ("t2-strict", "t2-soft", "se2-4-strict", "se2-4-soft", "se2-4-lambda-0.1"):
        assert (nets[row], nets[f"fourier-{row}"]) == ("joint", "fourier")
        first, second = SOFT.row(row), SOFT.row(f"fourier-{row}")
        assert {key for key in first.settings if first.settings[key] != second.settings[key]} == {"net", "frequency"}
        assert "parameters" not in second.published, "the published sizes are those of the joint network"


def test_the_small_scale_is_larger_for_planes_and_quick_is_cheaper():
    plane, turned = SOFT.settings("t2-soft", "small"), SOFT.settings("se2-4-soft", "small")
    assert [plane[key] for key in ("size", "kernel_size", "width", "epochs", "batch_size")] == [None, 7, 16, 15, 64]
    assert [turned[key] for key in ("size", "kernel_size", "width", "epochs", "batch_size")] == [24, 5, 16, 30, 64]
    assert plane["images"] is turned["images"] is None
    assert SOFT.settings("t2-soft", "quick")["images"] == 6000


# --- runs ------------------------------------------------------------------------------------------------------------


# One row of each kind; the others differ in numbers, and all of them run with the slow tests.
SOME = {
    ("soft", "t2-strict"),
    ("soft", "t2-soft"),
    ("soft", "t2-lambda-0.1"),
    ("soft", "se2-4-strict"),
    ("soft", "fourier-t2-soft"),
    ("soft", "fourier-se2-4-lambda-0.1"),
    ("soft-samples", "se2-16-partial"),
    ("soft-augmented", "se2-8-lambda-0.1"),
    ("soft-cifar100", "augmented-se2-4-soft"),
    ("soft-mnist6", "so2-strict"),
    ("soft-rotmnist", "se2-8-partial"),
    ("soft-frequency", "so2-0"),
    ("soft-frequency", "t2-4"),
}
EVERY = [(experiment.name, row.name) for experiment in map(experiment_named, NAMES) for row in experiment.rows]


@pytest.mark.parametrize(
    ("experiment", "row"),
    [pytest.param(*one, marks=() if one in SOME else pytest.mark.slow, id="-".join(one)) for one in EVERY],
)
def test_rows_run(tmp_path, experiment, row):
    spec, metrics = ran(tmp_path, experiment, row)
    assert set(metrics) == METRICS
    assert 0 <= metrics["test_accuracy"] <= 100
    kept, settings = load_arrays(spec.folder), spec.settings
    relaxed = settings["partial"] or settings["rotation"] is not None or settings["translation"] is not None
    assert any(name.startswith("relaxation/") for name in kept) == relaxed
    assert ("bank/soft" in kept) == (settings["rotation"] is not None)
    assert any(name.startswith("choice/") for name in kept) == (undecided(settings, SUBGROUPS) is not None)


# --- the choice of ω' ------------------------------------------------------------------------------------------------


def test_the_best_candidate_on_validation_images_trains_to_the_end(tmp_path):
    brief = {"images": 40, "test_images": 20}
    spec, metrics = ran(tmp_path, "soft", "se2-4-soft", epochs=2, rotation=[0.0, 3.0], **brief)
    kept = load_arrays(spec.folder)
    accuracies = kept["choice/rotation/accuracies"]
    value = float(kept["choice/rotation/value"])
    assert value == float(kept["choice/rotation/candidates"][accuracies.argmax()])
    assert all(float(kept[name]) == value for name in kept if name.startswith("relaxation/"))
    # The same run with that value from the start, and a trial by itself.
    fixed, numbers = ran(tmp_path, "soft", "se2-4-soft", epochs=2, rotation=value, **brief)
    assert numbers == metrics
    assert not any(name.startswith("choice/") for name in load_arrays(fixed.folder))
    _, trial = ran(tmp_path, "soft", "se2-4-soft", epochs=1, rotation=0.0, **brief)
    assert trial["validation_accuracy"] == pytest.approx(100 * float(accuracies[0]))


def test_test_images_have_no_part_in_the_choice(tmp_path, monkeypatch):
    """With other test images, and test accuracies of 0, the choice is the same."""
    options = {"epochs": 2, "rotation": [0.5, 1.0], "images": 40}
    first, _ = ran(tmp_path, "soft-mnist6", "so2-soft", **options)
    monkeypatch.setattr("intertwine.experiments.soft._run.accuracy", lambda model, split: 0.0)
    second, metrics = ran(tmp_path, "soft-mnist6", "so2-soft", **options, test_images=10)
    assert metrics["test_accuracy"] == 0
    a, b = load_arrays(first.folder), load_arrays(second.folder)
    assert torch.equal(a["choice/rotation/accuracies"], b["choice/rotation/accuracies"])


def test_trials_as_long_as_the_run_are_not_repeated(tmp_path, monkeypatch):
    from intertwine.experiments.soft import _run

    steps, loss = [], _run._loss

    def counted(*given, **options):
        steps.append(torch.is_grad_enabled())
        return loss(*given, **options)

    monkeypatch.setattr(_run, "_loss", counted)
    brief = {"images": 40, "test_images": 20}
    spec, metrics = ran(tmp_path, "soft", "t2-soft", translation=[0.5, 1.0], **brief)
    assert sum(steps) == 2 * 2, "two trials of two steps"
    value = float(load_arrays(spec.folder)["choice/translation/value"])
    assert ran(tmp_path, "soft", "t2-soft", translation=value, **brief)[1] == metrics
    spec, metrics = ran(tmp_path, "soft", "t2-soft", translation=[0.5, 1.0], keep="best", **brief)
    value = float(load_arrays(spec.folder)["choice/translation/value"])
    assert ran(tmp_path, "soft", "t2-soft", translation=value, keep="best", **brief)[1] == metrics


def test_a_run_that_fails_after_its_trials_does_not_repeat_them(tmp_path, monkeypatch):
    from intertwine.experiments.soft import _run

    options = {"epochs": 2, "translation": [0.5, 1.0], "images": 40, "test_images": 20}
    _, whole = ran(tmp_path / "whole", "soft", "t2-soft", **options)
    steps, loss = [], _run._loss

    def until(last):
        def counted(model, batch, **settings):
            steps.append(torch.is_grad_enabled())
            if sum(steps) > last:
                raise RuntimeError("power cut")
            return loss(model, batch, **settings)

        return counted

    spec = JobSpec("soft", "t2-soft", "smoke", 0, str(tmp_path / "cut"), None, options)
    monkeypatch.setattr(_run, "_loss", until(2 * 2 + 2))
    assert execute(spec).state == "failed"
    steps.clear()
    monkeypatch.setattr(_run, "_loss", until(1000))
    outcome = execute(spec)
    assert outcome.metrics == whole
    assert sum(steps) <= 2 * 2, "only the four steps of the run itself"


def test_a_choice_needs_validation_images(tmp_path):
    outcome = execute(JobSpec("soft", "t2-soft", "smoke", 0, str(tmp_path), None, {"validation": 0}))
    assert outcome.state == "failed"
    assert "validation images to choose translation on" in outcome.error


def test_the_same_seed_gives_the_same_numbers(tmp_path):
    first = ran(tmp_path / "a", "soft", "se2-4-partial", epochs=2, images=40)[1]
    assert ran(tmp_path / "b", "soft", "se2-4-partial", epochs=2, images=40)[1] == first


def test_a_soft_network_learns_which_way_is_up(tmp_path):
    """What no strict network can: its scores for a six and its half turn are equal, so it guesses."""
    options = {"epochs": 6, "images": 104, "width": 4, "hidden": 4, "lr": 2e-2}
    strict = ran(tmp_path, "soft-mnist6", "so2-strict", **options)[1]
    soft = ran(tmp_path, "soft-mnist6", "so2-soft", rotation=1.0, **options)[1]
    assert abs(strict["test_accuracy"] - 50) < 25  # 37 images: three standard deviations
    assert soft["test_accuracy"] > 90


@pytest.mark.parametrize("scale", ["smoke", "quick", "small"])
def test_strict_networks_cannot_tell_a_six_from_its_half_turn(scale):
    """The logits are equal for networks as the experiment builds them, whichever samples are drawn."""
    wanted = {**SIXES.settings("so2-strict", scale), "width": 4, "hidden": 4}
    size = wanted["size"]
    x = torch.randn(3, 1, size, size, dtype=torch.float64)
    both = torch.cat([x, x.rot90(2, (-2, -1))])
    for row, equal in (("so2-strict", True), ("so2-soft", False)):
        torch.manual_seed(0)
        model = build(decided({**wanted, **SIXES.row(row).settings}), 1, 2).double().eval()
        with torch.no_grad():
            scores, turned = model(both).chunk(2)
        apart = float((scores - turned).abs().max() / scores.abs().max())
        assert (apart < 1e-10) == equal


def test_a_partial_network_at_its_start_cannot_either():
    wanted = {**SIXES.settings("so2-partial", "smoke"), "sampling": "grid"}
    torch.manual_seed(0)
    model = build(wanted, 1, 2).double().eval()
    x = torch.randn(3, 1, 12, 12, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(model(x), model(x.rot90(2, (-2, -1))), rtol=0, atol=1e-10)
        model.last.extent.fill_(0.5)
        assert not torch.allclose(model(x), model(x.rot90(2, (-2, -1))), rtol=0, atol=1e-4)


def test_the_paper_scale_on_small_files(tmp_path):
    write_cifar(tmp_path / "cifar10", "cifar10", 10)
    write_cifar(tmp_path / "cifar100", "cifar100", 100, train=200, test=100)
    brief = {"width": 2, "hidden": 4, "epochs": 1, "trial_epochs": 1, "warmup_epochs": 0, "batch_size": 10}
    held = {**brief, "validation": 20, "images": 20, "test_images": 20}
    _, metrics = ran(tmp_path, "soft", "t2-lambda-5", "paper", **held)
    assert set(metrics) == METRICS
    _, metrics = ran(tmp_path, "soft-cifar100", "augmented-se2-4-strict", "paper", **held)
    assert metrics["parameters"] > 0
    write_mnist(tmp_path / "mnist", train=400, test=40)
    ran(tmp_path, "soft-mnist6", "so2-soft", "paper", **held, samples=4, rotation=[0.5, 1.0])
    ran(tmp_path, "soft-rotmnist", "se2-8-partial", "paper", **held, samples=4)


# --- data ------------------------------------------------------------------------------------------------------------


def test_validation_images_are_held_out(tmp_path):
    write_cifar(tmp_path / "cifar10", "cifar10", 10)
    data, validation = prepared(job("soft", "t2-strict", "paper", tmp_path, validation=20))
    assert (len(data.train), len(validation), len(data.test)) == (40, 20, 20)
    raw = load("cifar10", folder=tmp_path).train
    order = torch.randperm(60, generator=torch.Generator().manual_seed(42))
    assert torch.equal(validation.labels, raw.labels[order[40:]])
    assert torch.equal(data.train.raw(), raw.raw()[order[:40]])
    image = data.train[0][0]
    assert torch.allclose(image, normalize(raw[int(order[0])][0], (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


def test_the_best_weights_need_validation_images(tmp_path):
    outcome = execute(
        JobSpec("soft", "se2-4-partial", "smoke", 0, str(tmp_path), None, {"validation": 0, "keep": "best"})
    )
    assert outcome.state == "failed"
    assert "keep=best with validation images" in outcome.error


# --- what is minimized -----------------------------------------------------------------------------------------------


def direct_norm(layer, x, before, after) -> torch.Tensor:
    """‖k‖ from the layer's answers to single points: each kernel entry appears once."""
    entries = []
    for channel in range(x.shape[1]):
        point = torch.zeros_like(x[:1])
        point[0, channel, x.shape[-2] // 2, x.shape[-1] // 2] = 1
        entries.append(layer(point, before, after).flatten())
    return torch.cat(entries).norm()


def test_the_norm_of_sampled_kernels():
    torch.manual_seed(0)
    layer = SoftGroupConv2d(
        2, 3, samples=4, kernel_size=5, rotation_softness=1.0, sampling="random", bias=False
    ).double()
    before, after = layer.draw(), layer.draw()
    x = torch.randn(2, 2 * 4, 9, 9, dtype=torch.float64)
    with kernel_norms(layer) as norms:
        layer(x, before, after)
    assert len(norms) == 1
    assert torch.allclose(norms[0], direct_norm(layer, x, before, after), rtol=1e-12)
    layer(x, before, after)
    assert len(norms) == 1, "outside the block nothing is collected"


@pytest.mark.parametrize("softness", [0.7, 0.0])
def test_the_norm_of_kernels_that_differ_from_place_to_place(softness):
    """The root mean square over places, from the layer's answers to every point; with ω' = 0, one kernel's norm."""
    torch.manual_seed(0)
    options = {"kernel_size": 3, "learn": True, "bias": False, "padding": "valid"}
    layer = SoftConv2d(2, 3, softness=softness, **options).double()
    points = torch.eye(2 * 6 * 6, dtype=torch.float64).reshape(-1, 2, 6, 6)
    with kernel_norms(layer) as norms:
        answers = layer(points)
    squares = answers.detach().square().sum((0, 1))
    assert torch.allclose(norms[0], squares.mean().sqrt(), rtol=1e-12)
    assert torch.allclose(squares, squares[0, 0], rtol=1e-10) == (softness == 0)


def test_the_loss_adds_the_norms_in_training_only():
    torch.manual_seed(0)
    model = SoftResNet(1, 3, samples=4, width=2, hidden=4, kernel_size=3, sampling="grid")
    batch = torch.randn(4, 1, 12, 12), torch.arange(4) % 3
    with kernel_norms(model) as norms:
        plain = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
    assert len(norms) == 7, "the lifting layer, five convolutions, one shortcut"
    value, numbers = _loss(model, batch, decay=0.1)
    assert torch.allclose(value, plain + 0.1 * sum(norms))
    assert torch.allclose(numbers["cross_entropy"], plain)
    value.backward()
    assert all(p.grad is not None for p in model.lift.net.parameters())
    with torch.no_grad():
        assert torch.allclose(_loss(model, batch, decay=0.1)[0], plain)


def test_the_penalty_is_on_frequencies_and_on_extents_that_grow():
    soft = SoftResNet(1, 3, samples=4, width=2, hidden=4, kernel_size=3, rotation_softness=0.5, learn=True)
    assert float(_penalty(soft, weight=2.0, extents=0.0).detach()) == pytest.approx(2 * 7 * 0.25)
    assert float(_penalty(soft, weight=None, extents=0.0).detach()) == 0
    partial = SoftResNet(1, 3, samples=4, width=2, hidden=4, kernel_size=3, partial=True)
    partial.blocks[0].first.extent.data.fill_(0.5)
    assert float(_penalty(partial, weight=None, extents=0.1).detach()) == pytest.approx(0.1 * 0.5)


def test_frequencies_shrink_under_the_penalty_and_extents_have_their_own_rate(tmp_path):
    strong, weak = (
        load_arrays(ran(tmp_path, "soft", "se2-4-lambda-5", epochs=2, lr=3e-2, penalty=weight)[0].folder)
        for weight in (50.0, 0.0)
    )
    names = [name for name in strong if name.startswith("relaxation/")]
    assert len(names) == 7
    assert sum(float(strong[name]) for name in names) < 0.95 * sum(float(weak[name]) for name in names)
    still = load_arrays(ran(tmp_path, "soft", "se2-4-partial", extent_lr=1e-12)[0].folder)
    moved = load_arrays(ran(tmp_path, "soft", "se2-4-partial", extent_lr=3e-2)[0].folder)
    assert all(float(still[name]) < 1e-6 for name in still if name.startswith("relaxation/"))
    assert any(float(moved[name]) > 1e-3 for name in moved if name.startswith("relaxation/"))


# --- the best weights ------------------------------------------------------------------------------------------------


def row_of(epoch: int, accuracy: float, loss: float) -> dict[str, object]:
    return {"split": "val", "step": 10 * epoch, "epoch": epoch, "val_accuracy": accuracy, "val_loss": loss}


def test_the_best_weights_are_kept(tmp_path):
    model = torch.nn.Linear(1, 1, bias=False)
    best = BestWeights(model, tmp_path / "best.safetensors", metric="val_accuracy", patience=3)
    for epoch, (accuracy, loss) in enumerate([(0.5, 1.0), (0.7, 0.9), (0.7, 0.8), (0.7, 0.85), (0.6, 0.1)]):
        model.weight.data.fill_(epoch)
        best.write({"split": "train", "step": 0, "epoch": epoch, "loss": 0.0})
        best.write(row_of(epoch, accuracy, loss))
    # Another process, after an interruption, knows what was found.
    again = BestWeights(model, tmp_path / "best.safetensors", metric="val_accuracy", patience=3)
    with pytest.raises(EnoughError):
        again.write(row_of(5, 0.65, 0.1))
    assert again.restore() == 0.7
    assert float(model.weight.detach()) == 2


def test_a_run_without_gain_is_stopped_and_its_best_weights_are_measured(tmp_path):
    spec, metrics = ran(tmp_path, "soft", "se2-4-partial", epochs=30, patience=1, images=20, lr=1e-12, extent_lr=1e-12)
    steps = [line["step"] for run in finished(spec) for line in run.history if line.get("split") == "val"]
    assert len(steps) < 30
    assert set(metrics) == METRICS


def finished(spec: JobSpec):
    from intertwine.experiments.lab._runner import Run
    from intertwine.train import read_metrics

    return [Run(spec.row, 0, {}, read_metrics(spec.folder / "fit"), 0.0, {}, spec.folder)]


# --- figures ---------------------------------------------------------------------------------------------------------


def test_a_strict_bank_is_one_filter_turned():
    torch.manual_seed(0)
    layer = SoftGroupConv2d(2, 3, samples=4, kernel_size=5, rotation_softness=2.0, hidden=8)
    angles = torch.arange(4, dtype=torch.float64) * torch.pi / 2
    soft = filters(layer, angles, size=9)
    strict = filters(layer.to_equivariant_(), angles, size=9)
    for quarters in range(4):
        turned = strict[0].rot90(quarters, (-2, -1))
        assert torch.allclose(strict[quarters], turned, atol=1e-5)
    assert not any(torch.allclose(soft[k], soft[0].rot90(k, (-2, -1)), atol=1e-2) for k in (1, 2, 3))


def test_a_bank_at_the_layers_own_size_is_its_kernel():
    torch.manual_seed(0)
    layer = SoftGroupConv2d(1, 1, samples=1, kernel_size=5, rotation_softness=1.0, hidden=8, bias=False)
    angle = torch.tensor([0.6], dtype=torch.float64)
    x = torch.randn(1, 1, 5, 5)
    here = Orientations(SO2().exp(angle[:, None]))
    kernel = filters(layer, angle, size=5)[0]
    with torch.no_grad():
        assert torch.allclose(layer(x, here, here)[0, 0, 2, 2], (kernel * x[0, 0]).sum(), atol=1e-5)


def test_figures(tmp_path):
    for row in ("se2-4-strict", "se2-4-partial", "se2-4-soft", "se2-4-lambda-0.1", "se2-4-lambda-5", "t2-lambda-5"):
        ran(tmp_path, "soft", row)
    drawn = SOFT.figures(finished_runs(SOFT, "smoke", results=tmp_path / "results"))
    titles = [figure.title for figure in drawn]
    assert "Learned ω' of each layer, se2-4" in titles
    assert "Accuracy against λ, t2" in titles
    assert "Relaxation during training, se2-4" in titles
    choice = next(figure for figure in drawn if isinstance(figure, Table) and "chosen" in figure.title)
    [line] = choice.rows
    assert line[0] == SOFT.row("se2-4-soft").title
    assert line[2].count("%") == 4
    assert f"{line[3]:g}: " in line[2]
    table = next(figure for figure in drawn if isinstance(figure, Table) and "keep" in figure.title)
    assert list(table.columns[-2:]) == ["blocks.1.second", "last"]
    assert len(table.columns) == 7
    plot = next(figure for figure in drawn if isinstance(figure, Plot) and "se2-4" in figure.title)
    assert [x for x, _ in plot.series[0].points] == [0.1, 5.0]
    panels = next(figure for figure in drawn if isinstance(figure, Panels))
    assert [len(images) for _, images in panels.rows] == [8, 8, 8]
    assert SOFT.figures([]) == []
    ran(tmp_path, "soft-rotmnist", "se2-8-lambda-5")
    drawn = ROTATED.figures(finished_runs(ROTATED, "smoke", results=tmp_path / "results"))
    assert not any(series.published for figure in drawn if isinstance(figure, Plot) for series in figure.series)


def test_the_figure_over_frequencies(tmp_path):
    for row in ("so2-0", "so2-1", "t2-0.25"):
        ran(tmp_path, "soft-frequency", row)
    plot, panels = FREQUENCY.figures(finished_runs(FREQUENCY, "smoke", results=tmp_path / "results"))
    assert [[x for x, _ in series.points] for series in plot.series] == [[0.0, 1.0], [0.25]]
    assert isinstance(panels, Panels)
    assert FREQUENCY.figures([]) == []


def test_a_network_that_pools_elsewhere():
    model = SoftResNet(1, 3, samples=4, width=2, hidden=4, kernel_size=3, pooled=(0,))
    assert model(torch.randn(2, 1, 6, 6)).shape == (2, 3)
    with pytest.raises(InputError, match="stages 0, 1, 2"):
        SoftResNet(1, 3, pooled=(3,))
