"""The audit: complete, resumable, within a budget, with gates, and files that other programs read."""

from __future__ import annotations

import csv
from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor, nn

from intertwine.errors import InputError, StorageError
from intertwine.measure import (
    Gate,
    agreement,
    audit,
    equivariance_error,
    invariance_error,
    layer_errors,
    parse_symmetry,
    read_audit,
)
from intertwine.measure.audits._steps import STEPS
from intertwine.measure.audits._subject import Subject
from intertwine.measure.audits._whole import measure_whole

X = torch.rand(12, 3, 9, 9, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(12) % 4


class Net(nn.Module):
    """Counts how many images it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.act, self.head = nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Linear(4, 4)
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        return self.head(self.act(self.conv(x)).mean((2, 3)))


@pytest.fixture
def net() -> Net:
    torch.manual_seed(1)
    return Net()


def test_all_steps(net):
    result = audit(net, (X, LABELS), ["c4", "hflip"])
    metrics = {reading.metric for reading in result.readings}
    assert {"invariance_error", "agreement", "accuracy", "transformed_accuracy", "lie_derivative"} <= metrics
    assert result.reading("invariance_error", "c4").value == invariance_error(net, X, "c4").mean
    hits = (net(X).argmax(1) == LABELS).double().mean()
    assert result.reading("accuracy").value == pytest.approx(float(hits))
    layers = {reading.layer for reading in result.readings if reading.layer}
    assert {"conv", "act", "mean", "head"} <= layers
    assert result.images == 12
    with pytest.raises(InputError, match="a metric that was measured"):
        result.reading("barrier_of_sound")


class TestOnePass:
    """Everything about outputs and layers comes from one pass, with the results of the functions that measure alone."""

    @pytest.fixture
    def lopsided(self) -> nn.Module:
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(54, 4)]
        return nn.Sequential(*layers).double()

    @pytest.mark.parametrize("name", ["hflip", "d4", "C8"])
    @pytest.mark.parametrize("details", [5, 512])
    def test_the_same_as_measured_separately(self, lopsided, name, details):
        x = X.double()
        subject = Subject.of(lopsided, x, LABELS, batch_size=5, detail_images=details)
        columns = measure_whole(subject, group := parse_symmetry(name))
        separate = {"invariance_error": invariance_error, "agreement": agreement}
        for metric, function in separate.items():
            alone = function(lopsided, x, group)
            torch.testing.assert_close(columns.values[metric], alone.values, atol=1e-12, rtol=0)
            if alone.floor is not None:
                kept = alone.floor.values[subject.detail_rows]
                torch.testing.assert_close(columns.floors[metric], kept, atol=1e-12, rtol=0)
        assert (name == "C8") == bool(columns.floors)
        alone = layer_errors(lopsided, x[subject.detail_rows], group)
        for layer, expected in zip(columns.layer_errors().layers, alone.layers, strict=True):
            assert layer.name == expected.name
            torch.testing.assert_close(layer.invariance.values, expected.invariance.values, atol=1e-12, rtol=0)
        scores = [lopsided(group.apply(g, x)).detach() for g in range(group.order)]
        right = torch.stack([s.argmax(1) == LABELS for s in scores]).double()
        averaged = (torch.stack(scores).mean(0).argmax(1) == LABELS).double()
        for metric, values in (
            ("accuracy", right[0]),
            ("transformed_accuracy", right[1:].mean(0)),
            ("averaged_accuracy", averaged),
            ("averaging_gain", averaged - right[0]),
        ):
            torch.testing.assert_close(columns.values[metric], values)

    def test_images_as_outputs(self):
        torch.manual_seed(0)
        filters = nn.Conv2d(3, 2, 3, padding=1).double()
        for name in ("d4", "C8"):
            subject = Subject.of(filters, X.double(), batch_size=5, detail_images=5)
            columns = measure_whole(subject, parse_symmetry(name))
            alone = equivariance_error(filters, X.double(), name)
            torch.testing.assert_close(columns.values["equivariance_error"], alone.values, atol=1e-12, rtol=0)
            assert set(columns.values) == {"equivariance_error"}

    def test_every_image_passes_once_per_element(self, net):
        subject = Subject.of(net, X, LABELS, batch_size=4, detail_images=5)
        net.seen = 0
        measure_whole(subject, parse_symmetry("hflip"))
        assert net.seen == 2 * len(X)
        measure_whole(subject, parse_symmetry("vflip"))
        assert net.seen == 2 * len(X) + len(X) + 5, "scores of unmoved images are kept; the layers are watched again"
        before = net.seen
        measure_whole(subject, parse_symmetry("flips"))
        assert net.seen == before + 4 * 5 + (len(X) - 5), "of four motions only the half turn is new"

    def test_details_are_a_random_choice_and_halves_do_not_overlap(self, net):
        subject = Subject.of(net, torch.zeros(1000, 3, 9, 9), detail_images=100)
        assert len(subject.detail) == len(subject.detail_rows) == 100
        assert subject.detail_rows.max() > 800
        first, second = subject.halves
        assert not set(first.tolist()) & set(second.tolist())
        assert set(first.tolist()) | set(second.tolist()) == set(subject.detail_rows.tolist())


def test_averaging_over_the_group_is_scored_beside_the_network(net):
    result = audit(net, (X, LABELS), ["c4", "hflip"])
    scores = torch.stack([net(X), net(X.flip(3))]).mean(0)
    expected = float((scores.argmax(1) == LABELS).double().mean())
    assert result.reading("averaged_accuracy", "hflip").value == pytest.approx(expected)
    gain = result.reading("averaging_gain", "hflip")
    assert gain.value == pytest.approx(expected - result.reading("accuracy").value)
    assert gain.low <= gain.value <= gain.high


def test_barriers_come_with_their_controls():
    """Matched on one half of the images and scored on the other, with intervals, and the note says so."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    )
    x = torch.rand(41, 3, 9, 9)
    labels = model.eval()(x).argmax(1)
    result = audit(model, (x, labels), "hflip")
    for metric in ("", "_without_repair", "_after_reset", "_unmatched"):
        reading = result.reading(f"gcnn_barrier{metric}")
        assert reading.n == 20
        assert reading.low <= reading.value <= reading.high
    (note,) = (note for note in result.notes if note.about == "barriers, hflip")
    assert note.text == "channels are matched and statistics restored on 21 images, and scored on 20 others"


@pytest.mark.parametrize("labels", [LABELS + 1, LABELS - 1, LABELS.float()])
def test_labels_that_are_no_classes(net, labels):
    """They used to give an accuracy of 0 without a word."""
    with pytest.raises(InputError, match="labels from 0 to 3, one per score"):
        audit(net, (X, labels))


def test_the_network_is_traced_once(net):
    """Tracing takes longer than most measurements, and all symmetries and steps can share its result."""
    traces = []
    net.register_forward_hook(lambda *_: traces.append(torch.compiler.is_exporting()))
    audit(net, (X, LABELS), ["c4", "hflip"])
    assert traces.count(True) == 1


def test_without_labels_there_are_no_accuracies(net):
    metrics = {reading.metric for reading in audit(net, X).readings}
    assert "accuracy" not in metrics
    assert "agreement" in metrics


def test_images_as_outputs():
    result = audit(nn.Conv2d(3, 2, 3, padding=1), X, "d4")
    metrics = {reading.metric for reading in result.readings}
    assert "equivariance_error" in metrics
    assert not metrics & {"invariance_error", "agreement", "accuracy", "shift_consistency"}


def test_print_shows_a_table_and_repr_is_short(net):
    result = audit(net, (X, LABELS), ["c4", "hflip"], name="net", data_name="noise")
    assert repr(result) == f"Audit(net on noise: 12 images, c4, hflip, {len(result.readings)} readings)"
    lines = str(result).splitlines()
    assert lines[0] == "net on noise: 12 images"
    assert lines[1].startswith("Not symmetric under c4: ")
    header = next(line for line in lines if line.startswith("measure"))
    assert header.split() == ["measure", "of", "value", "95", "%", "interval", "floor", "n", "better"]
    assert max(len(line) for line in lines) <= 140
    error = result.reading("invariance_error", "hflip")
    (row,) = (line for line in lines if line.startswith("invariance error") and " hflip " in line)
    assert float(row.split()[3]) == pytest.approx(error.value, rel=0.01)


class TestResume:
    def test_finished_steps_are_not_done_again(self, net, tmp_path, monkeypatch):
        whole = audit(net, (X, LABELS), "c4", folder=tmp_path)
        before = net.seen
        again = audit(net, (X, LABELS), "c4", folder=tmp_path)
        assert net.seen == before + 1, "one image, to see what kind of output there is"
        assert again.readings == whole.readings
        with torch.no_grad():
            net.head.weight.add_(1.0)
        before = net.seen
        assert audit(net, (X, LABELS), "c4", folder=tmp_path).readings != whole.readings
        assert net.seen > before + 1, "other weights are another audit"

    def test_interrupted_work_goes_on(self, net, tmp_path, monkeypatch):
        expected = audit(net, (X, LABELS), ["c4", "hflip"]).readings
        done: list[str] = []

        def stop(title: str, number: int, total: int) -> None:
            done.append(title)
            if number == 3 and len(done) == 4:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            audit(net, (X, LABELS), ["c4", "hflip"], folder=tmp_path, progress=stop)
        assert len(list((tmp_path / "parts").glob("*.json"))) == 3
        damaged = sorted((tmp_path / "parts").glob("*.json"))[0]
        damaged.write_text(damaged.read_text()[:20])
        assert audit(net, (X, LABELS), ["c4", "hflip"], folder=tmp_path, progress=stop).readings == expected


class TestBudget:
    def test_fewer_images_then_fewer_steps(self, net, monkeypatch):
        clock = iter(range(100_000))
        monkeypatch.setattr("time.monotonic", lambda: next(clock) * 1.0)
        result = audit(net, (X, LABELS), "hflip", budget=1.5)  # one second a call of the clock: 12 images a second
        assert result.images < 12
        assert result.left_out
        assert result.reading("invariance_error").n == result.images, "the most telling step is always done"

    def test_enough_time(self, net):
        result = audit(net, (X, LABELS), "hflip", budget=600.0)
        assert result.images == 12
        assert result.left_out == []


class TestGates:
    def test_both_directions(self, net):
        result = audit(net, (X, LABELS), "hflip")
        error, share = result.reading("invariance_error").value, result.reading("agreement").value
        judged = result.judge([Gate("invariance_error", error), Gate("invariance_error", error / 2)])
        assert [kept for _, _, kept in judged] == [True, False]
        judged = result.judge([Gate("agreement", share), Gate("agreement", share + 0.1)])
        assert [kept for _, _, kept in judged] == [True, False]

    def test_names(self):
        assert Gate.parse("inv=0.1") == Gate("invariance_error", 0.1)
        for text, message in (("a=0.1", "which fits"), ("warp=1", "one of"), ("invariance", "METRIC=BOUND")):
            with pytest.raises(InputError, match=message):
                Gate.parse(text)

    def test_a_gate_on_what_was_not_measured(self, net):
        with pytest.raises(InputError, match="give data with labels"):
            audit(net, X, "hflip").judge([Gate("accuracy", 0.5)])


class TestFiles:
    def test_written_and_read(self, net, tmp_path):
        result = audit(net, (X, LABELS), "hflip", name="net", data_name="noise")
        result.save(tmp_path, gates=[Gate("invariance_error", 0.0), Gate("agreement", 0.0)])
        content = read_audit(tmp_path)
        assert content["schema"] == 1
        assert len(content["readings"]) == len(result.readings)
        assert [gate["kept"] for gate in content["gates"]] == [False, True]
        with open(tmp_path / "audit.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(result.readings)
        assert float(rows[0]["value"]) == result.readings[0].value
        suite = ElementTree.parse(tmp_path / "audit.xml").getroot()
        assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
        assert sum(case.find("failure") is not None for case in suite) == 1
        page = (tmp_path / "audit.html").read_text(encoding="utf-8")
        assert "Audit of net" in page
        assert page.count("invariance error") > 1

    def test_what_cannot_be_read(self, tmp_path):
        for text, message in (
            (None, "no such file"),
            ("{", "expected JSON"),
            ('{"schema": 99}', "schema 99"),
            ("[]", "none"),
        ):
            if text is not None:
                (tmp_path / "audit.json").write_text(text)
            with pytest.raises(InputError, match=message):
                read_audit(tmp_path)

    def test_nowhere_to_write(self, net, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(StorageError, match="a folder that can be written to"):
            audit(net, X, "hflip", folder=tmp_path / "file" / "out")


def test_bad_input(net):
    with pytest.raises(InputError, match="finite images"):
        audit(net, X / 0)
    with pytest.raises(InputError, match=r"1 x 9 x 9, which fails with: .*channels"):
        audit(net, X[:, :1])
    assert audit(net, X[:1]).images == 1, "one image is enough"
    assert len(STEPS) >= 6


def test_batch_norms_count_their_batches_in_a_number():
    """A buffer without axes is part of the digest of the weights."""
    result = audit(nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(243, 2)), X, "hflip")
    assert result.weights
    assert result.reading("invariance_error").n == 12
