"""The whole procedure on small data: results, files, resuming, engines and bad input."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import intertwine as tw
from intertwine.discovery import _discover, _runs, discover, prepare
from intertwine.errors import InputError
from intertwine.measure import Transformation
from intertwine.train import read_metrics


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few epochs: these tests are about the procedure."""
    monkeypatch.setattr(_runs, "epochs_for", lambda count: 3)


def bars(n: int = 160, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Horizontal and vertical bars: half turns keep the label, quarter turns do not."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 2
    x = 0.2 * torch.rand(n, 1, 6, 6, generator=generator)
    for k in range(n):
        place = int(torch.randint(1, 5, (), generator=generator))
        x[k, 0, place if labels[k] else slice(None), slice(None) if labels[k] else place] += 1
    return x, labels


def test_files_and_resuming(tmp_path) -> None:
    data = bars()
    titles: list[str] = []
    first = discover(data, ["c2"], seeds=1, folder=tmp_path, progress=lambda t, d, n: titles.append(t))
    first.save(tmp_path)
    assert "do moved samples look alike? c2" in titles
    assert any(title.startswith("do labels survive? c2, invariant") for title in titles)
    assert any(title.startswith("what is it worth?") for title in titles)
    saved = json.loads((tmp_path / "discover.json").read_text())
    entry = saved["candidates"][0]
    assert {"symmetry", "verdict", "strictness", "auc", "gain", "worth", "confused", "reasons"} <= set(entry)
    assert {"value", "null", "p_value"} <= set(entry["auc"])
    rows = list(csv.DictReader((tmp_path / "discover.csv").read_text().splitlines()))
    assert [row["symmetry"] for row in rows] == ["c2"]
    assert (tmp_path / "discover.html").exists()
    records = sorted((tmp_path / "runs").glob("*/fit/record.json"))
    assert len(records) == len(list((tmp_path / "runs").iterdir()))

    # One run is lost; everything else is read back, and the result is the same.
    (records[0].parent.parent / "answer.json").unlink()
    again: list[str] = []
    second = discover(data, ["c2"], seeds=1, folder=tmp_path, progress=lambda t, d, n: again.append(t))
    assert len(again) == 1
    assert second.to_dict() | {"seconds": 0} == first.to_dict() | {"seconds": 0}

    # Other data in the same folder trains again.
    trained: list[str] = []
    discover(bars(seed=1)[0], ["c2"], folder=tmp_path, progress=lambda t, d, n: trained.append(t))
    assert len(trained) == 1


@pytest.mark.whole
def test_the_program_runs_and_prints_an_accuracy(tmp_path) -> None:
    result = discover("digits", ["brightness"], max_samples=120, seeds=1)
    (tmp_path / "net.py").write_text(result.program)
    done = subprocess.run([sys.executable, "net.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "samples held out" in done.stdout


@pytest.mark.parametrize("strictness", ["invariant", "local", "relaxed", "free"])
def test_every_program_compiles_and_builds_the_network_of_the_runs(strictness, monkeypatch) -> None:
    x, labels = bars()
    study = _runs.Study(prepare((x, labels)), {"c4": tw.discovery.parse_candidate("c4", (1, 6, 6))}, None)
    verdict = tw.discovery.Verdict("impose", strictness, 0.01, ("because",))
    finding = tw.discovery.Finding("c4", "quarter turns", verdict, True, accuracy={strictness: 0.9})
    text, why_not = _discover.program(study, finding, 0.9)
    assert why_not == ""
    scope = {"__name__": "net", "__doc__": ""}
    exec(compile(text, "net.py", "exec"), scope)
    net = scope["network"]()
    expected = tw.discovery.SymmetryCNN(study.candidates["c4"].grid, (1, 6, 6), 2, strictness)
    assert sum(p.numel() for p in net.parameters()) == sum(p.numel() for p in expected.parameters())
    assert net(x[:3]).shape == (3, 2)


def test_a_program_reads_the_data_that_discover_read(tmp_path, monkeypatch, capsys) -> None:
    x, labels = bars()
    files = tmp_path / "files"
    files.mkdir()
    np.savez(files / "bars.npz", images=(255 * x).clamp(0, 255).byte().numpy(), labels=labels.numpy())
    options = {"folder": files, "size": 8}
    samples = prepare("bars.npz", load_options=options)
    assert samples.shape == (1, 8, 8)
    assert samples.name == "bars"
    text, _ = _discover.program(_runs.Study(samples, {}, None), None, 0.9)
    monkeypatch.setattr(sys, "argv", ["net.py"])
    scope = {"__name__": "net", "__doc__": "A title."}
    exec(compile(text, "net.py", "exec"), scope)
    scope["main"]()
    assert f"accuracy on {len(samples.held_out(0))} samples held out" in capsys.readouterr().out

    # Tensors have no name to write down.
    text, _ = _discover.program(_runs.Study(prepare((x, labels)), {}, None), None, 0.9)
    exec(compile(text, "net.py", "exec"), scope)
    with pytest.raises(SystemExit):
        scope["main"]()
    assert "--data" in capsys.readouterr().err
    with pytest.raises(InputError, match="name or path"):
        prepare((x, labels), load_options=options)


def test_a_name_cannot_write_the_program() -> None:
    """The name may come from a downloaded archive, and net.py is meant to be run."""
    escape = '"""\nraise SystemExit("run")\n"""'
    for name in (escape, f"x\\{escape}", "x\\", "{title} %s", "é\n\tü"):
        samples = replace(prepare(bars()), name=name, source=name, load_options={"folder": name})
        text, _ = _discover.program(_runs.Study(samples, {}, None), None, 0.9)
        scope = {"__name__": "net"}
        exec(compile(text, "net.py", "exec"), scope)
        assert callable(scope["main"]), "all of the program is read, and nothing of the name is run"


def test_a_program_for_augmentation_moves_samples() -> None:
    x, labels = bars()
    study = _runs.Study(prepare((x, labels)), {"shifts": tw.discovery.parse_candidate("shifts", (1, 6, 6))}, None)
    verdict = tw.discovery.Verdict("impose", "invariant", 0.01, ("because",))
    text, _ = _discover.program(study, tw.discovery.Finding("shifts", "shifts", verdict, False), 0.9)
    scope = {"__name__": "net", "__doc__": ""}
    exec(compile(text, "net.py", "exec"), scope)
    assert scope["network"]()(x[:3]).shape == (3, 2)
    assert len(scope["copies"](x[:3])) > 1
    assert "SYMMETRY.moved" in text


def test_a_program_for_a_combination_has_layers_and_moves_samples() -> None:
    x, labels = bars()
    combination = tw.discovery.parse_candidate("c2 + shifts", (1, 6, 6))
    study = _runs.Study(prepare((x, labels)), {"c2 + shifts": combination}, None)
    verdict = tw.discovery.Verdict("impose", "invariant", 0.01, ("because",))
    text, _ = _discover.program(study, tw.discovery.Finding("c2 + shifts", "both", verdict, True), 0.9)
    scope = {"__name__": "net", "__doc__": ""}
    exec(compile(text, "net.py", "exec"), scope)
    net = scope["network"]().double().eval()
    assert torch.allclose(net(x.double()), net(x.double().flip(-1, -2)), atol=1e-10)
    assert not torch.allclose(net(x.double()), net(x.double().roll(2, -1)), atol=1e-4)
    assert len(scope["copies"](x[:3])) > 1


def test_users_networks_signals_and_transformations(tmp_path) -> None:
    generator = torch.Generator().manual_seed(0)
    signals = torch.randn(120, 2, 9, generator=generator)
    labels = (signals.mean((1, 2)) > 0).long()
    reverse = Transformation("reverse", lambda x: x.flip(-1), lambda x: x.flip(-1), exact=True)
    net = nn.Sequential(nn.Flatten(), nn.Linear(18, 2))
    result = discover((signals, labels), [reverse, "Grid1d(D1)"], network=net, seeds=1)
    assert [each.exact for each in result.findings] == [False, False]
    assert "on your network" in " ".join(result.notes)
    assert result.program == ""
    assert "code of your network" in " ".join(result.notes)
    assert "reverse" in str(result)
    sets = discover((torch.randn(80, 1, 5, generator=generator), labels[:80]), ["S5"], seeds=1)
    assert sets["S5"].auc is not None


def test_without_labels_only_the_first_question(tmp_path) -> None:
    x, labels = bars()
    titles: list[str] = []
    result = discover(x, ["c2"], progress=lambda t, d, n: titles.append(t))
    assert titles == ["do moved samples look alike? c2"]
    assert result["c2"].verdict.word == "can't tell"
    assert "no labels" in " ".join(result.notes)
    ignored = discover((x, labels), ["c2"], use_labels=False)
    assert ignored["c2"].accuracy == {}


@pytest.mark.parametrize("labels", [torch.zeros(160, dtype=torch.int64), torch.rand(160), torch.zeros(160, 2)])
def test_labels_that_are_ignored_may_be_anything(labels: torch.Tensor) -> None:
    assert discover((bars()[0], labels), ["c2"], use_labels=False)["c2"].auc is not None


def test_a_budget_that_is_spent_leaves_runs_out_and_says_so() -> None:
    result = discover(bars(), ["c2"], budget=1e-6)
    assert result["c2"].verdict.word == "can't tell"
    assert len(result.left_out) > 3


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["process", "ray"])
def test_other_engines_give_the_same_result(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # other processes would not see it
    if engine == "ray":
        pytest.importorskip("ray")
    data = bars(80)
    expected = discover(data, ["c2"], seeds=1).to_dict() | {"seconds": 0}
    assert discover(data, ["c2"], seeds=1, engine=engine, workers=2).to_dict() | {"seconds": 0} == expected


def test_what_cannot_be_sent_to_a_process_is_named() -> None:
    local = Transformation("mine", lambda x: x.flip(-1))
    with pytest.raises(InputError, match="can be sent to another process"):
        discover(bars(), local, engine="process", workers=1)


X, Y = bars(80)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ((X[:20], Y[:20]), {}, "at least 40 samples; got 20"),
        ((X, torch.zeros_like(Y)), {}, "at least two classes; got one"),
        ((torch.ones_like(X), Y), {}, "constant samples"),
        ((X * float("nan"), Y), {}, "finite numbers"),
        ((X, Y[:10]), {}, "one whole number per sample"),
        ((X, (torch.arange(80) > 3).long()), {}, "4 of class 0"),
        ((X, Y), {"symmetries": []}, "one or more different candidates; got none"),
        ((X, Y), {"symmetries": ["c4", "c4"]}, "different candidates; got c4"),
        ((X, Y), {"budget": -1.0}, "a budget in seconds"),
        ((X, Y), {"effort": 0.0}, "an effort above 0"),
        ((X, Y), {"network": nn.Flatten()}, "2 class scores per sample"),
        ((X, Y), {"symmetries": Transformation("crop", lambda x: x[..., 1:])}, "maps to samples of shape"),
        (torch.rand(60, 2, 9), {}, "symmetries=, for samples that are not images"),
        (torch.rand(60), {}, "a batch of samples"),
    ],
)
def test_bad_input_is_explained(data, options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        discover(data, **{"symmetries": None, **options})


def test_images_of_different_sizes_are_explained(tmp_path) -> None:
    from PIL import Image

    for k, side in enumerate((8, 10)):
        folder = tmp_path / "images" / f"class{k}"
        folder.mkdir(parents=True)
        for n in range(5):
            Image.new("L", (side, side), 10 * n).save(folder / f"{n}.png")
    with pytest.raises(InputError, match="images of one size"):
        discover(tmp_path / "images")


def test_large_and_odd_images_are_shrunk_and_it_is_noted() -> None:
    samples = prepare((torch.rand(40, 1, 45, 45), torch.arange(40) % 2))
    assert samples.shape == (1, 16, 16)
    assert "shrunk from 45 x 45 to 16 x 16" in samples.notes[0]
    assert prepare((torch.rand(40, 1, 7, 7), torch.arange(40) % 2)).notes == ()


def test_folds_are_disjoint_and_keep_the_classes() -> None:
    samples = prepare("digits", max_samples=400)
    folds = [samples.held_out(k) for k in range(4)]
    assert sorted(torch.cat(folds).tolist()) == list(range(400))
    for k in range(4):
        assert set(samples.training(k).tolist()).isdisjoint(folds[k].tolist())
        small = samples.training(k, 1 / 16)
        assert set(small.tolist()) <= set(samples.training(k).tolist())
        assert len(samples.labels[small].unique()) == 10


def test_accepted_generators_are_joined() -> None:
    named = {name: tw.discovery.parse_candidate(name, (1, 8, 8)) for name in ("hflip", "vflip", "c2", "c4", "shifts")}
    named["transpose"] = tw.discovery.parse_candidate("transpose", (1, 8, 8))

    def joint(*names: str):
        return tw.discovery.combine([named[name] for name in names], (1, 8, 8))

    assert joint("hflip", "c4").name == "d4"
    assert joint("hflip", "vflip").name == "flips"
    assert joint("c2", "c4").name == "c4"
    assert joint("transpose", "c2") is None  # both diagonal mirrors: a group without a name
    both = joint("c2", "shifts")
    assert (both.name, both.grid.stabilizer.order, len(both.besides)) == ("c2 + shifts", 2, 16)
    assert both.is_exact
    x = torch.rand(3, 1, 8, 8)
    which = torch.tensor([1, 7, 16])
    assert torch.allclose(both.there_and_back(x, which), x)


def dark_and_light(n: int = 240) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise on a dark or a light ground: mirrors, turns and shifts keep the label."""
    x = torch.rand(n, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    x[::2] += 1
    return x, torch.arange(n) % 2


@pytest.mark.whole
def test_a_combination_with_augmentation_is_tried_and_a_group_without_layers_is_named(monkeypatch) -> None:
    monkeypatch.setattr(_runs, "epochs_for", lambda count: 8)
    joined = discover(dark_and_light(), ["c2", "shifts"], seeds=2)
    finding = joined["c2 + shifts"]
    assert set(finding.joint_of) == {"c2", "shifts"}
    assert joined.recommended is finding
    assert set(finding.accuracy) == {"invariant", "free"}
    assert "SYMMETRY" in joined.program
    apart = discover(dark_and_light(), ["c2", "transpose"], seeds=2)
    assert "no layers for their group" in " ".join(apart.notes)


@pytest.mark.whole
def test_what_is_settled_gets_no_more_seeds_and_what_is_open_does(monkeypatch) -> None:
    monkeypatch.setattr(_runs, "epochs_for", lambda count: 15)
    x, labels = dark_and_light()
    assert discover((x, labels), ["shifts"], seeds=4).seeds < 4
    shuffled = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))]
    assert discover((x, shuffled), ["shifts"], seeds=4).seeds == 2  # nobody learns them
    few = discover((x[:48], labels[:48]), ["shifts"], seeds=3)
    assert few["shifts"].verdict.word == "can't tell"
    assert few.seeds == 4  # one for each quarter of the samples


@pytest.mark.whole
@pytest.mark.parametrize(("name", "is_symmetric"), [("digits-rotated", True), ("digits", False)])
def test_resampling_is_no_sign_of_a_turn(name: str, is_symmetric: bool, monkeypatch) -> None:
    """Rotated digits of 8 x 8 pixels look alike after another rotation, although it blurs them and fills corners."""
    monkeypatch.setattr(_runs, "epochs_for", lambda count: 25)
    auc = discover(tw.data.load(name), ["rotation"], max_samples=700, use_labels=False)["rotation"].auc
    assert abs(auc.floor - 0.5) < 0.1
    assert (auc.p_value > 0.01) == is_symmetric
    assert (auc.value < 0.6) == is_symmetric


@pytest.mark.parametrize("name", ["rotation", "c4 + shifts"])
def test_copies_in_memory_are_those_computed_on_demand(name: str, monkeypatch) -> None:
    candidate = tw.discovery.parse_candidate(name, (1, 6, 6))
    x, labels = bars(40)
    _ = torch.manual_seed(0)
    quick = _runs._Moved(x, labels, candidate).__getitems__([3, 1, 3, 7])
    monkeypatch.setattr(_runs, "_MOST_COPIED", 0)
    _ = torch.manual_seed(0)
    slow = _runs._Moved(x, labels, candidate).__getitems__([3, 1, 3, 7])
    assert torch.allclose(quick[0], slow[0], atol=1e-6)
    assert not torch.equal(quick[0], x[[3, 1, 3, 7]])
    assert torch.equal(quick[1], slow[1])


def test_volumes() -> None:
    """Bars along one axis or another: turning a volume about the first axis by 180° keeps the label."""
    generator = torch.Generator().manual_seed(0)
    x = 0.2 * torch.rand(120, 1, 4, 4, 4, generator=generator)
    labels = torch.arange(120) % 2
    for k in range(120):
        a, b = torch.randint(4, (2,), generator=generator).tolist()
        x[(k, 0, slice(None), a, b) if labels[k] else (k, 0, a, slice(None), b)] += 1
    result = discover((x, labels), ["Oh"], seeds=1)
    assert result["Oh"].auc is not None
    assert set(result["Oh"].accuracy) == {"invariant", "free"}
    assert "written for images only" in " ".join(result.notes)
    shrunk = prepare((torch.rand(40, 1, 21, 21, 21), torch.arange(40) % 2))
    assert shrunk.shape == (1, 16, 16, 16)
    assert "volumes are shrunk" in shrunk.notes[0]


def test_networks_for_other_samples_are_small() -> None:
    from intertwine.discovery._networks import plain_network

    for shape in ((3, 5000), (2, 9), (12,), (2, 16, 16, 16)):
        net = plain_network(shape, 10)
        assert sum(p.numel() for p in net.parameters()) < 100_000
        assert net(torch.zeros(2, *shape)).shape == (2, 10)


def test_less_effort_is_fewer_steps_and_is_noted(tmp_path) -> None:
    steps = {}
    for effort in (1.0, 0.5):
        folder = tmp_path / str(effort)
        result = discover(bars(), ["c2"], seeds=1, effort=effort, folder=folder)
        steps[effort] = sum(read_metrics(file.parent)[-1]["step"] for file in folder.rglob("record.json"))
        assert ("Networks were trained for 0.5 of the usual steps." in result.notes) == (effort < 1)
    assert 0.4 * steps[1.0] < steps[0.5] < 0.6 * steps[1.0]


def test_a_small_budget_shortens_training_and_a_resumed_search_keeps_to_it(tmp_path) -> None:
    from intertwine.discovery._effort import affordable_effort

    x, labels = bars(80)
    study = _runs.Study(prepare((x, labels)), {"c2": tw.discovery.parse_candidate("c2", (1, 6, 6))}, tmp_path)
    assert affordable_effort(study, 1e-9, 3, (1.0,), 1) == 0.125
    assert affordable_effort(study, 1e9, 3, (1.0,), 1) == 0.125  # stored
    (tmp_path / "plan.json").write_text("damaged")
    assert affordable_effort(study, 1e9, 3, (1.0,), 1) == 1.0
    assert study.steps(60) == 3


def test_a_budget_is_planned_with_as_many_threads_as_runs_use(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, steps with several threads wait for each other, and would seem far too slow."""
    from intertwine.discovery import _effort

    x, labels = bars(80)
    study = _runs.Study(prepare((x, labels)), {"c2": tw.discovery.parse_candidate("c2", (1, 6, 6))}, tmp_path)
    threads = []
    monkeypatch.setattr(_effort, "_step_seconds", lambda *_: threads.append(torch.get_num_threads()) or 0.0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        _effort.affordable_effort(study, 1.0, 1, (1.0,), 1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(threads) == {1}
