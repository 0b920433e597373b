"""The experiments on low-rank layers: every published row, runs at every scale on small files, data as described."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from intertwine.errors import InputError
from intertwine.experiments import (
    JobSpec,
    Plot,
    Table,
    compare,
    execute,
    experiment_named,
    finished_runs,
    load_arrays,
)
from intertwine.experiments.lab._experiment import Job
from intertwine.experiments.lrlc._figures import figures, rank_figures
from intertwine.experiments.lrlc._imagenet import decayed
from intertwine.experiments.lrlc._imagenet import prepared as imagenet_prepared
from intertwine.experiments.lrlc._resnet import LowRankResNet
from intertwine.experiments.lrlc._run import _moved, _prepared, shifted
from intertwine.experiments.lrlc._table import LAYERS
from intertwine.report import experiment_page
from tests.data.files import write_mnist

CIFAR, MNIST, CELEBA = (experiment_named(name) for name in ("lrlc", "lrlc-mnist", "lrlc-celeba"))
RANK, IMAGENET = experiment_named("lrlc-rank"), experiment_named("lrlc-imagenet")
BRIEF = {"width": 4, "epochs": 1, "warmup_epochs": 0, "batch_size": 10, "validate_every": 1}


def job(experiment: str, row: str, scale: str, folder: Path | None = None, **overrides) -> Job:
    settings = experiment_named(experiment).settings(row, scale, overrides)
    return Job(experiment, row, scale, 0, settings, folder, Path("unused"))


def ran(tmp_path: Path, experiment: str, row: str, scale: str = "smoke", **overrides):
    spec = JobSpec(experiment, row, scale, 0, str(tmp_path / "results"), str(tmp_path), {**BRIEF, **overrides})
    outcome = execute(spec)
    assert outcome.state == "finished", outcome.error
    return outcome.metrics


def test_published_numbers():
    """Cells from each table, and the orderings that the published numbers themselves have."""
    cell = CIFAR.row("lrlc-l3").published["test_accuracy"]
    assert (cell.mean, cell.spread, cell.runs) == (82.70, 0.08, 10)
    assert MNIST.row("coord").published["test_accuracy"].mean == 99.46
    assert CELEBA.row("wide-l2").published["validation_accuracy"].mean == 97.90
    assert CIFAR.row("conv").published["train_accuracy"].mean == 97.47
    assert MNIST.row("conv").published["train_accuracy"].mean == 100
    for experiment in (CIFAR, MNIST, CELEBA):
        assert sum(bool(row.published) for row in experiment.rows) == 20
        values = {row.name: row.published["test_accuracy"].mean for row in experiment.rows if row.published}
        for layer in ("l1", "l2", "l3"):
            assert values[f"lrlc-{layer}"] > max(values["conv"], values[f"lc-{layer}"])
        for claim in experiment.orderings:
            if claim.first in values:
                assert values[claim.first] > values[claim.second], claim


def test_the_wide_row_stands_beside_the_low_rank_one():
    for experiment in (CIFAR, MNIST, CELEBA):
        names = [row.name for row in experiment.rows]
        for layer in ("l1", "l2", "l3"):
            assert names.index(f"wide-{layer}") == names.index(f"lrlc-{layer}") + 1
            rows = [experiment.row(f"{kind}-{layer}") for kind in ("lrlc", "wide", "input")]
            assert len({row.settings["rank"] for row in rows}) == 1


@pytest.mark.parametrize("row", [row.name for row in MNIST.rows])
def test_every_row_runs(tmp_path, row):
    metrics = ran(tmp_path, "lrlc-mnist", row, images=40)
    in_place = set() if row.startswith("shifted-") else {"moved_accuracy"}
    assert set(metrics) == {"test_accuracy", "train_accuracy", "parameters"} | in_place
    assert 0 <= metrics["test_accuracy"] <= 100


def test_the_same_seed_gives_the_same_numbers(tmp_path):
    first = ran(tmp_path / "a", "lrlc", "lrlc-l3", images=100)
    assert ran(tmp_path / "b", "lrlc", "lrlc-l3", images=100) == first
    assert ran(tmp_path / "b", "lrlc", "lrlc-l3", images=100, init="random") != first


def test_a_network_learns(tmp_path):
    """Far above chance with a few passes over the embedded digits."""
    metrics = ran(tmp_path, "lrlc", "lrlc-l3", images=1000, width=16, epochs=5, batch_size=50)
    assert metrics["test_accuracy"] > 50


def test_validation_images_are_held_out():
    data, validation = _prepared(job("lrlc", "conv", "smoke", validation=200, images=None))
    assert (len(data.train), len(validation), len(data.test)) == (1237, 200, 360)
    seen = {image.numpy().tobytes() for image in data.train.as_tensors()[0]}
    both = [image for image in validation.as_tensors()[0] if image.numpy().tobytes() in seen]
    assert len(both) < 5, "the digits hold a few twins, and no more are shared"
    again, _ = _prepared(job("lrlc", "lc-l3", "smoke", validation=200, images=None))
    assert torch.equal(again.train.labels, data.train.labels)


def test_validation_accuracy_is_reported(tmp_path):
    metrics = ran(tmp_path, "lrlc", "conv", images=60, validation=30)
    assert "validation_accuracy" in metrics


def test_the_paper_scale_on_small_files(tmp_path):
    write_mnist(tmp_path / "mnist", train=60, test=20)
    network = {"width": 4, "epochs": 2, "warmup_epochs": 1, "batch_size": 16, "validation": 20}
    metrics = ran(tmp_path, "lrlc-mnist", "shifted-input-l3", "paper", **network)
    assert set(metrics) == {"test_accuracy", "train_accuracy", "validation_accuracy", "rank", "parameters"}
    data, validation = _prepared(job("lrlc-mnist", "conv", "paper", tmp_path, validation=20))
    assert (len(data.train), len(validation), len(data.test)) == (40, 20, 20)
    images, _ = data.train.as_tensors()
    assert -1 <= images.min() < -0.9
    assert 0.9 < images.max() <= 1


def test_settings_of_the_paper():
    settings = CIFAR.settings("lrlc-l3", "paper")
    wanted = {
        "epochs": 150,
        "warmup_epochs": 10,
        "batch_size": 512,
        "lr": 0.01,
        "validation": 5000,
        "width": 64,
        "strides": [1, 1, 1],
        "scaling": "unit",
        "normalize": "softmax",
        "sharing": "factorized",
        "init": "structured",
    }
    assert {key: settings[key] for key in wanted} == wanted
    assert CIFAR.seeds["paper"] == 10
    assert CELEBA.settings("conv", "paper")["validation"] == "official"


def test_shifted_images():
    images = torch.rand(200, 1, 7, 9)
    moved = shifted(images, torch.Generator().manual_seed(0), shift=2)
    offsets = set()
    for before, after in zip(images, moved, strict=True):
        # Where each place of the result comes from, with borders continued.
        matches = [
            (dy, dx)
            for dy in range(-2, 3)
            for dx in range(-2, 3)
            if torch.equal(
                after[0], before[0][(torch.arange(7) + dy).clamp(0, 6)][:, (torch.arange(9) + dx).clamp(0, 8)]
            )
        ]
        assert len(matches) == 1
        offsets.add(matches[0])
    assert len(offsets) == 25


def test_rows_that_are_shifted(tmp_path):
    write_mnist(tmp_path / "mnist", train=30, test=20)
    plain, _ = _prepared(job("lrlc-mnist", "conv", "small", tmp_path, validation=10))
    moved, _ = _prepared(job("lrlc-mnist", "shifted-conv", "small", tmp_path, validation=10))
    for one, other in ((plain.train, moved.train), (plain.test, moved.test)):
        assert torch.equal(one.labels, other.labels)
        assert not torch.equal(one.as_tensors()[0], other.as_tensors()[0])


def test_the_moved_test_images_are_those_of_the_shifted_rows(tmp_path):
    """A network trained in place, asked for the images of a row ``shifted-...``: twice the same number."""
    write_mnist(tmp_path / "mnist", train=30, test=20)
    moved, _ = _prepared(job("lrlc-mnist", "shifted-conv", "small", tmp_path, validation=10))
    plain, _ = _prepared(job("lrlc-mnist", "conv", "small", tmp_path, validation=10))
    again = _moved(plain.test, MNIST.settings("conv", "small"), 2)
    assert torch.equal(again.as_tensors()[0], moved.test.as_tensors()[0])


class TestRank:
    def test_rows(self):
        assert [row.name for row in RANK.rows][:4] == ["rank-1", "wide-1", "rank-2", "wide-2"]
        assert len(RANK.rows) == 17
        assert RANK.row("wide-1").published["test_accuracy"].mean == 78.80
        assert RANK.row("rank-1").published["test_accuracy"].mean == 79.94
        assert RANK.settings("rank-4", "small") == CIFAR.settings("lrlc-l3", "small", {"rank": 4})

    @pytest.mark.parametrize("row", ["rank-1", "rank-8", "wide-1", "wide-8", "lc"])
    def test_rows_run(self, tmp_path, row):
        assert ran(tmp_path, "lrlc-rank", row, images=40)["parameters"] > 0

    def test_the_wide_convolution_of_rank_one_is_the_plain_one(self, tmp_path):
        plain = ran(tmp_path, "lrlc", "conv", images=40)
        assert ran(tmp_path, "lrlc-rank", "wide-1", images=40) == plain


@dataclass(frozen=True)
class Found:
    """A finished run, as far as figures read it."""

    row: str
    seed: int
    metrics: dict[str, float]
    folder: Path = Path("none")


class TestFigures:
    def test_a_run_keeps_its_combining_weights(self, tmp_path):
        ran(tmp_path, "lrlc-mnist", "lrlc-all", images=40)
        ran(tmp_path, "lrlc-mnist", "input-l2", images=40)
        ran(tmp_path, "lrlc-mnist", "conv", images=40)
        fixed, by_input, none = (
            load_arrays(next((tmp_path / "results" / "lrlc-mnist" / "smoke" / row).iterdir()))
            for row in ("lrlc-all", "input-l2", "conv")
        )
        assert {name: tuple(maps.shape) for name, maps in fixed.items()} == {
            "fixed-1": (4, 6, 6),
            "fixed-2": (4, 4, 4),
            "fixed-3": (4, 2, 2),
        }
        assert {name: tuple(maps.shape) for name, maps in by_input.items()} == {
            "input-2": (4, 4, 4, 4),
            "images": (4, 1, 8, 8),
        }
        assert 0 <= by_input["images"].min() < by_input["images"].max() <= 1
        for maps, axis in ((fixed["fixed-2"], 0), (by_input["input-2"], 1)):
            assert torch.allclose(maps.sum(axis), torch.ones(()))
        assert by_input["input-2"].std(0).max() > 0, "maps of different images differ"
        assert none == {}

    def test_accuracy_against_size(self):
        runs = [Found("conv", seed, {"test_accuracy": 60.0 + seed, "parameters": 100.0}) for seed in range(2)] + [
            Found("lrlc-l3", 0, {"test_accuracy": 65.0, "parameters": 300.0})
        ]
        size, cost = figures(runs)
        assert [(series.title, list(series.points)) for series in size.series] == [
            ("convolution", [(100.0, [60.0, 61.0])]),
            ("LRLC", [(300.0, [65.0])]),
        ]
        assert isinstance(cost, Plot)

    def test_cost_against_rank_is_flat_once_converted(self):
        converted, wide, trained, by_input = (
            [values[0] for _, values in series.points] for series in figures([])[0].series
        )
        assert converted == [converted[0]] * 8
        assert wide == pytest.approx([converted[0] * rank for rank in range(1, 9)])
        assert all(a > b > c for a, b, c in zip(by_input, trained, wide, strict=True))

    def test_every_family_has_a_name(self):
        runs = [Found(name, 0, {"test_accuracy": 1.0, "parameters": 1.0 + k}) for k, name in enumerate(LAYERS)]
        assert sum(len(series.points) for series in figures(runs)[0].series) == len(LAYERS)

    def test_accuracy_against_rank(self):
        runs = [Found(f"rank-{k}", 0, {"test_accuracy": 60.0 + k}) for k in (1, 2, 8)]
        runs += [Found("wide-1", seed, {"test_accuracy": 50.0 + seed}) for seed in range(2)]
        plot = rank_figures(runs)[0]
        low, wide, conv = plot.series
        assert list(low.points) == [(1, [61.0]), (2, [62.0]), (8, [68.0])]
        assert list(wide.points) == [(1, [50.0, 51.0])]
        assert list(conv.points) == [(1.0, [50.0, 51.0]), (8.0, [50.0, 51.0])]

    def test_shifts(self):
        runs = [
            Found("conv", 0, {"test_accuracy": 95.0, "moved_accuracy": 85.0}),
            Found("conv", 1, {"test_accuracy": 97.0, "moved_accuracy": 87.0}),
            Found("shifted-conv", 0, {"test_accuracy": 93.0}),
        ]
        (table,) = [figure for figure in figures(runs) if isinstance(figure, Table)]
        assert table.rows == [["convolution", 96.0, 86.0, 93.0, "2 and 1"]]
        assert not any(isinstance(figure, Table) for figure in figures(runs[2:]))

    def test_the_page_of_real_runs(self, tmp_path):
        """From runs to a page with maps: every figure is drawn."""
        for row in ("lrlc-l3", "input-l3", "conv"):
            spec = JobSpec("lrlc-mnist", row, "smoke", 0, str(tmp_path / "results"), str(tmp_path))
            assert execute(spec).state == "finished"
        runs = finished_runs(MNIST, "smoke", results=tmp_path / "results")
        metrics = {row.name: [run.metrics for run in runs if run.row == row.name] for row in MNIST.rows}
        text = experiment_page(MNIST, compare(MNIST, metrics), runs, scale="smoke")
        assert "could not" not in text
        assert text.count("Combining weights by position") == 2
        assert "Accuracy against size" in text
        assert len(text.encode()) < 3_000_000


def write_imagenet(folder: Path, *, classes: int = 3, train: int = 8, val: int = 3) -> None:
    """Class folders as they are usually unpacked, with images of different sizes."""
    random = np.random.default_rng(0)
    for part, count in (("train", train), ("val", val)):
        for kind in range(classes):
            place = folder / part / f"n{kind:08}"
            place.mkdir(parents=True)
            for k in range(count):
                height, width = (int(side) for side in random.integers(40, 90, 2))
                pixels = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(place / f"{k}.JPEG", quality=90)


class TestImageNet:
    def test_settings_of_the_paper(self):
        settings = IMAGENET.settings("lrlc", "paper")
        wanted = {"epochs": 150, "warmup_epochs": 10, "weight_decay": 8e-5, "image_size": 224, "blocks": [3, 4, 6, 3]}
        assert {key: settings[key] for key in wanted} == wanted
        assert settings["batch_size"] * settings["accumulate"] == 2048
        assert IMAGENET.seeds["paper"] == 3

    @pytest.mark.parametrize("row", [row.name for row in IMAGENET.rows])
    def test_rows_run_on_digits(self, tmp_path, row):
        spec = JobSpec("lrlc-imagenet", row, "smoke", 0, str(tmp_path), None, {"epochs": 1, "validation": 1200})
        outcome = execute(spec)
        assert outcome.state == "finished", outcome.error
        assert set(outcome.metrics) == {"test_accuracy", "validation_accuracy", "parameters"}

    def test_the_paper_scale_on_small_files(self, tmp_path):
        write_imagenet(tmp_path / "imagenet")
        network = {"width": 4, "blocks": [1, 1], "exchanged": 1, "stem": "small"}
        data = {"image_size": 32, "enlarged": 40, "validation": 6, "workers": 0}
        less = {**network, **data, "epochs": 2, "warmup_epochs": 1, "batch_size": 4, "accumulate": 2}
        spec = JobSpec("lrlc-imagenet", "lrlc", "paper", 0, str(tmp_path / "results"), str(tmp_path), less)
        outcome = execute(spec)
        assert outcome.state == "finished", outcome.error
        data, held = imagenet_prepared(job("lrlc-imagenet", "lrlc", "paper", tmp_path, **less))
        assert (data.train.shape, data.test.shape, held.shape) == ((3, 40, 40), (3, 32, 32), (3, 32, 32))
        assert (len(data.train), len(data.test), len(held)) == (18, 9, 6)
        assert data.classes == ("n00000000", "n00000001", "n00000002")
        counts = data.train.labels.bincount() + held.labels.bincount(minlength=3)
        assert counts.tolist() == [8, 8, 8]
        images, _ = data.train.as_tensors()
        assert images.mean().abs() < 0.2, "normalized by mean and standard deviation"

    def test_images_are_cut_and_interpolated_by_cubics(self, tmp_path):
        write_imagenet(tmp_path / "imagenet", classes=2, train=1, val=1)
        less = {"image_size": 28, "enlarged": 32, "validation": 0}
        data, _ = imagenet_prepared(job("lrlc-imagenet", "lrlc", "paper", tmp_path, **less))
        with Image.open(tmp_path / "imagenet" / "val" / "n00000000" / "0.JPEG") as image:
            side = min(image.size)
            kept = side * 0.875
            left, top = ((length - kept) / 2 for length in image.size)
            box = (left, top, left + kept, top + kept)
            cut = image.resize((28, 28), Image.Resampling.BICUBIC, box=box)
        assert np.array_equal(data.test.raw()[0].numpy(), np.array(cut).transpose(2, 0, 1))

    def test_decay_is_for_filters(self):
        model = LowRankResNet(1, 8, 10, layer="low-rank", rank=2, exchanged=1, blocks=(1, 1), width=4, stem="small")
        with_decay, without = decayed(model, 0.5)
        assert (with_decay["weight_decay"], without["weight_decay"]) == (0.5, 0.0)
        names = {id(p): name for name, p in model.named_parameters()}
        assert len(names) == len(with_decay["params"]) + len(without["params"])
        left_out = {names[id(p)] for p in without["params"]}
        assert any("combining" in name for name in left_out)
        assert not any(name.endswith("3.weight") and "body" in name for name in left_out)

    def test_counts_of_weights(self):
        """Published counts of ResNet-50; and what is exchanged differs as it should."""
        counts = {}
        for layer, rank in (("conv", None), ("low-rank", 2), ("wide", 2), ("spatial-bias", None)):
            with torch.device("meta"):
                counts[layer] = sum(p.numel() for p in LowRankResNet(3, 224, 1000, layer=layer, rank=rank).parameters())
        assert counts["conv"] == 25_557_032
        assert counts["spatial-bias"] == counts["conv"] + 3 * 14  # rows and columns of 7 x 7
        assert counts["low-rank"] == counts["conv"] + 3 * (9 * 512**2 + 3 * 14)
        assert abs(counts["wide"] - counts["low-rank"]) < 0.001 * counts["low-rank"]

    def test_bad_choices(self):
        with pytest.raises(InputError, match="a rank for low-rank, input-low-rank, wide only"):
            LowRankResNet(3, 32, 10, layer="low-rank")
        with pytest.raises(InputError, match="between 0 and 2 exchanged blocks; got 3"):
            LowRankResNet(3, 32, 10, exchanged=3, blocks=(1, 1))
        with pytest.raises(InputError, match=r"images \(3, 32, 32\); got \(3, 16, 16\)"):
            LowRankResNet(3, 32, 10, blocks=(1,), exchanged=0, width=4)(torch.zeros(1, 3, 16, 16))


def write_celeba(folder: Path, *, images: int = 24) -> dict[str, np.ndarray]:
    """The official files, with few and random images."""
    random, pixels = np.random.default_rng(0), {}
    (folder / "img_align_celeba").mkdir(parents=True)
    attributes, partition = [str(images), "Bald Male Young"], []
    for k in range(images):
        name = f"{k + 1:06}.png"  # without loss, so that pixels can be compared
        pixels[name] = random.integers(0, 256, (218, 178, 3), dtype=np.uint8)
        Image.fromarray(pixels[name]).save(folder / "img_align_celeba" / name)
        attributes.append(f"{name}  -1  {1 if k % 3 else -1}  1")
        partition.append(f"{name} {min(k // 10, 2)}")
    (folder / "list_attr_celeba.txt").write_text("\n".join(attributes) + "\n")
    (folder / "list_eval_partition.txt").write_text("\n".join(partition) + "\n")
    return pixels


class TestFaces:
    def test_the_official_files(self, tmp_path):
        from intertwine.data import load

        pixels = write_celeba(tmp_path / "celeba")
        data = load("celeba", folder=tmp_path)
        assert repr(data) == "ImageData(celeba: 10 train, 4 test, 3 x 32 x 32, 2 classes)"
        assert data.train.labels.tolist() == [int(k % 3 > 0) for k in range(10)]
        assert data.classes == ("not Male", "Male")
        assert len(load("celeba", folder=tmp_path, evaluate="val").test) == 10
        cropped = Image.fromarray(pixels["000001.png"][40:178, 20:158])
        expected = np.array(cropped.resize((32, 32), Image.Resampling.BICUBIC)).transpose(2, 0, 1)
        # Near the edge of the crop the interpolation still sees the pixels beyond it.
        assert np.array_equal(data.train.raw()[0].numpy()[:, 2:-2, 2:-2], expected[:, 2:-2, 2:-2])
        assert load("celeba", folder=tmp_path, attribute="Young").train.labels.sum() == 10

    def test_bad_files(self, tmp_path):
        from intertwine.data import load

        with pytest.raises(InputError, match=r"celeba: expected list_attr_celeba.txt, list_eval_partition.txt and"):
            load("celeba", folder=tmp_path)
        write_celeba(tmp_path)
        with pytest.raises(InputError, match=r"an attribute from the second line .*: Bald, Male, Young, .*'Smiling'"):
            load("celeba", folder=tmp_path, attribute="Smiling")
        with pytest.raises(InputError, match="evaluate 'test' or 'val'; got 'train'"):
            load("celeba", folder=tmp_path, evaluate="train")
        (tmp_path / "img_align_celeba" / "000003.png").unlink()
        with pytest.raises(InputError, match=r"1 missing, such as 000003\.png"):
            load("celeba", folder=tmp_path)
        text = (tmp_path / "list_attr_celeba.txt").read_text()
        (tmp_path / "list_attr_celeba.txt").write_text(text.replace("000002.png  -1  1", "000002.png  -1  2"))
        with pytest.raises(InputError, match=r"1 or -1, .*; got '-1 2 1' after 000002\.png"):
            load("celeba", folder=tmp_path)

    def test_class_folders(self, tmp_path):
        from intertwine.data import load

        random = np.random.default_rng(0)
        for part in ("train", "test"):
            for kind in ("female", "male"):
                folder = tmp_path / "celeba" / part / kind
                folder.mkdir(parents=True)
                for k in range(3):
                    Image.fromarray(random.integers(0, 256, (218, 178, 3), dtype=np.uint8)).save(folder / f"{k}.png")
        data = load("celeba", folder=tmp_path)
        assert (len(data.train), len(data.test), data.classes) == (6, 6, ("female", "male"))
        with Image.open(tmp_path / "celeba" / "train" / "female" / "0.png") as image:
            middle = image.crop((20, 40, 158, 178)).resize((32, 32), Image.Resampling.BILINEAR)
        expected = np.array(middle).transpose(2, 0, 1)
        assert np.array_equal(data.train.raw()[0].numpy()[:, 2:-2, 2:-2], expected[:, 2:-2, 2:-2])

    def test_the_paper_scale(self, tmp_path):
        write_celeba(tmp_path / "celeba")
        metrics = ran(tmp_path, "lrlc-celeba", "lrlc-l3", "paper")
        assert set(metrics) == {metric.name for metric in CELEBA.metrics}
        ran(tmp_path, "lrlc-celeba", "shifted-conv", "small", images=8)


def test_pictures_that_are_not_square(tmp_path):
    np.savez(
        tmp_path / "flat.npz",
        images=np.zeros((20, 8, 9), np.uint8),
        labels=np.arange(20) % 2,
    )
    with pytest.raises(InputError, match="square images"):
        _prepared(job("lrlc", "conv", "smoke", tmp_path, data="flat.npz", images=None))
    with pytest.raises(InputError, match=r"unit for \[0, 1\] or symmetric"):
        _prepared(job("lrlc", "conv", "smoke", scaling="percent"))


def test_orderings_are_claims_of_the_paper():
    """The chain that the paper's numbers show on pictures, and the one seen on shifted digits."""
    pairs = {(claim.first, claim.second) for claim in CIFAR.orderings}
    assert {("lrlc-l3", "conv"), ("conv", "lc-l3")} <= pairs
    moved = {(claim.first, claim.second) for claim in MNIST.orderings}
    chain = ["shifted-input-l3", "shifted-lrlc-l3", "shifted-conv", "shifted-lc-l3"]
    assert set(pairwise(chain)) <= moved
    with pytest.raises(InputError):
        replace(CIFAR, rows=CIFAR.rows[:3])
