from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, TensorDataset

from intertwine.errors import InputError, MissingExtraError
from intertwine.train import (
    Ema,
    FitResult,
    RunRecord,
    TrainConfig,
    deterministic_loader,
    fit,
    load_weights,
    read_metrics,
    seed_all,
)
from intertwine.train.loading._data_digest import data_digest
from intertwine.train.loading._replayed import as_loader
from tests.train import tiny


class StopError(Exception):
    pass


class Log:
    """Collects rows, and ends the run at a step."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.rows: list[dict[str, Any]] = []
        self.stop_at, self.rewound, self.closed = stop_at, -1, False

    def rewind(self, step: int) -> None:
        self.rewound = step

    def write(self, row: Any) -> None:
        self.rows.append(dict(row))
        if row["step"] == self.stop_at:
            raise StopError

    def close(self) -> None:
        self.closed = True


def squared(model: nn.Module, batch: Any) -> Tensor:
    x, y = batch
    return (model(x) - y).square().mean()


def line(samples: int = 12) -> list[tuple[Tensor, Tensor]]:
    x = torch.linspace(-1, 1, samples).unsqueeze(1)
    return list(zip(x, 3 * x + 1, strict=True))


def small(**settings: Any) -> TrainConfig:
    base = {"epochs": 3, "batch_size": 4, "optimizer": "sgd", "lr": 0.1, "device": "cpu", "log_every": 1}
    return TrainConfig.from_dict({**base, **settings})


def linear() -> nn.Module:
    seed_all(0)
    return nn.Linear(1, 1)


def train(folder: Path, model: nn.Module | None = None, loader: Any = None, **settings: Any) -> FitResult:
    options = {key: settings.pop(key) for key in ("loggers", "resume", "extra_penalty", "about") if key in settings}
    config = small(**settings)
    loader = deterministic_loader(line(), 4, seed=0) if loader is None else loader
    return fit(linear() if model is None else model, squared, loader, config, folder=folder, **options)


# --- what a step does -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "make"),
    [
        (
            {"optimizer": "sgd", "momentum": 0.9, "nesterov": True},
            partial(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
        ),
        ({"optimizer": "adam", "beta1": 0.8}, partial(torch.optim.Adam, lr=0.1, betas=(0.8, 0.999))),
        ({"optimizer": "adamw", "weight_decay": 0.1}, partial(torch.optim.AdamW, lr=0.1, weight_decay=0.1)),
    ],
)
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_the_loop_is_the_one_written_by_hand(
    tmp_path: Path,
    settings: dict[str, Any],
    make: Callable[..., torch.optim.Optimizer],
    fused: bool,
    clip: float | None,
) -> None:
    ours, hand = linear(), linear()
    loader = deterministic_loader(line(), 4, seed=0)
    train(tmp_path, ours, loader, clip_norm=clip, **settings)
    optimizer = make(hand.parameters(), fused=fused)
    losses = []
    for epoch in range(3):
        for batch in loader.batches(epoch):
            optimizer.zero_grad()
            loss = squared(hand, batch)
            loss.backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(hand.parameters(), clip)
            optimizer.step()
            losses.append(loss.item())
    rounding = 0.0 if fused == (settings["optimizer"] != "sgd") else 1e-5  # steps of Adam are fused on a CPU
    for a, b in zip(ours.parameters(), hand.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=rounding, atol=rounding)
    assert [row["loss"] for row in read_metrics(tmp_path)] == pytest.approx(losses, rel=rounding, abs=rounding)


def test_sparse_gradients_are_no_obstacle_to_sgd(tmp_path: Path) -> None:
    seed_all(0)
    model = nn.Embedding(3, 1, sparse=True)
    before = model.weight.detach().clone()
    pairs = [(torch.tensor(0), torch.ones(1))] * 8
    fit(model, squared, deterministic_loader(pairs, 4, seed=0), small(momentum=0.0), folder=tmp_path)
    assert (model.weight[0] - before[0]).abs() > 0.1
    assert torch.equal(model.weight[1:], before[1:])


def test_rows_are_averages_by_sample_over_the_steps_since_the_last_row(tmp_path: Path) -> None:
    loader = deterministic_loader(line(10), 4, seed=0)  # 4, 4 and 2 samples
    train(tmp_path / "each", loader=loader, epochs=1)
    train(tmp_path / "all", loader=loader, epochs=1, log_every=3)
    a, b, c = (row["loss"] for row in read_metrics(tmp_path / "each"))
    (row,) = read_metrics(tmp_path / "all")
    assert row["loss"] == pytest.approx((4 * a + 4 * b + 2 * c) / 10, rel=1e-12)
    assert (row["step"], row["epoch"], row["split"], row["lr"]) == (3, 0, "train", 0.1)


def test_accumulated_batches_are_one_large_batch(tmp_path: Path) -> None:
    first, second = linear().double(), linear().double()
    data = [(x.double(), y.double()) for x, y in line(13)]
    parts = deterministic_loader(data, 2, seed=0)  # the last group of an epoch has a batch of one sample
    whole = deterministic_loader(data, 6, seed=0)
    train(tmp_path / "parts", first, parts, batch_size=2, accumulate=3)
    result = train(tmp_path / "whole", second, whole, batch_size=6)
    assert result.step == 9
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_the_shorter_of_epochs_and_max_steps_counts(tmp_path: Path) -> None:
    assert train(tmp_path / "a", epochs=2).step == 6
    assert train(tmp_path / "b", epochs=2, max_steps=4).step == 4
    assert train(tmp_path / "c", epochs=None, max_steps=7).step == 7


def test_the_penalty_is_added_and_logged(tmp_path: Path) -> None:
    result = train(tmp_path, epochs=1, extra_penalty=lambda model: model.weight.square().sum())
    (first, *_) = result.rows()
    start = linear()
    batch = next(deterministic_loader(line(), 4, seed=0).batches(0))
    weight = next(start.parameters()).item() ** 2
    assert first["penalty"] == pytest.approx(weight)
    assert first["loss"] == pytest.approx(squared(start, batch).item() + weight)


def test_groups_of_weights_keep_their_own_rates(tmp_path: Path) -> None:
    model = linear()
    before = copy.deepcopy(model)
    groups = [{"params": [model.weight], "lr": 0.0}, {"params": [model.bias]}]
    loader = deterministic_loader(line(), 4, seed=0)
    fit(model, squared, loader, small(schedule="cosine"), folder=tmp_path, param_groups=groups)
    assert torch.equal(model.weight, before.weight)
    assert not torch.equal(model.bias, before.bias)


def test_ema_follows_the_weights_and_validation_uses_it(tmp_path: Path) -> None:
    model = linear()
    average = [p.detach().clone() for p in model.parameters()]
    seen: list[Tensor] = []

    class Follow(Log):
        def write(self, row: Any) -> None:
            if row["split"] == "train":
                for a, p in zip(average, model.parameters(), strict=True):
                    a.mul_(0.75).add_(p.detach(), alpha=0.25)

    def spy(model: nn.Module, batch: Any) -> float:
        seen.append(next(model.parameters()).detach().clone())
        return 0.0

    loader = deterministic_loader(line(), 4, seed=0)
    result = fit(
        model,
        squared,
        loader,
        small(ema=0.75),
        folder=tmp_path,
        val_loader=loader,
        metrics={"x": spy},
        loggers=[Follow()],
    )
    assert result.ema is not None
    for a, b in zip(average, result.ema.values(), strict=True):
        torch.testing.assert_close(a, b)
    assert torch.equal(seen[-1], result.ema["weight"])
    assert not torch.equal(model.weight, result.ema["weight"])
    assert torch.equal(load_weights(tmp_path, ema=True)["weight"], result.ema["weight"])
    assert torch.equal(load_weights(tmp_path)["weight"], model.weight)


def test_ema_of_tied_weights_and_integer_buffers() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[1].weight = model[0].weight
    ema = Ema(model, 0.5)
    model(torch.randn(4, 2))
    with torch.no_grad():
        model[0].weight.add_(1)
    ema.update()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert ema.state["2.num_batches_tracked"].item() == 1
    with ema.applied():
        assert torch.equal(model[0].weight, before["0.weight"] - 0.5)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_validation_runs_in_evaluation_mode_and_leaves_no_trace(tmp_path: Path) -> None:
    def with_validation(folder: Path, every: int) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
        seed_all(0)
        model = tiny.network()
        model[3].eval()  # somebody froze the dropout
        loader = deterministic_loader(tiny.data(), 8, seed=0)
        modes: list[list[bool]] = []

        def spy(model: nn.Module, batch: Any) -> float:
            modes.append([module.training for module in model.modules()])
            torch.rand(3)
            return float(len(batch[0]))

        config = tiny.config(epochs=4, validate_every=every, ema=None)
        result = fit(model, tiny.loss, loader, config, folder=folder, val_loader=loader, metrics={"n": spy})
        assert not any(mode for modes_of_batch in modes for mode in modes_of_batch)
        assert [module.training for module in model] == [True, True, True, False, True]
        return dict(model.state_dict()), result.rows()

    weights, rows = with_validation(tmp_path / "often", 1)
    other, fewer = with_validation(tmp_path / "seldom", 3)
    assert all(torch.equal(weights[name], other[name]) for name in weights)
    steps = [row["step"] for row in rows if row["split"] == "val"]
    assert steps == [6, 12, 18, 24]
    assert [row["step"] for row in fewer if row["split"] == "val"] == [18, 24]
    expected = (5 * 8 * 8 + 4 * 4) / 44  # five batches of 8 and one of 4, weighted by their samples
    assert rows[-1]["val_n"] == pytest.approx(expected)


# --- continue ---------------------------------------------------------------------------------------------------------


class Lossy(nn.Module):
    """Keeps a number that is not a tensor in its state, and a complex weight that safetensors does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, 1, dtype=torch.complex128))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return (x.to(torch.complex128) @ self.weight).abs()

    def get_extra_state(self) -> dict[str, int]:
        return {"calls": self.calls}

    def set_extra_state(self, state: dict[str, int]) -> None:
        self.calls = state["calls"]


@pytest.mark.parametrize(
    ("model", "source", "settings"),
    [
        (linear, "loader", {"optimizer": "sgd", "momentum": 0.0}),
        (linear, "loader", {"optimizer": "adam", "accumulate": 2, "schedule": "linear"}),
        (linear, "torch", {"optimizer": "sgd", "schedule": "step", "milestones": (0.4,), "ema": 0.5}),
        (Lossy, "loader", {"optimizer": "adamw", "lr": 0.01}),
        (linear, "loader", {"precision": "bf16-mixed"}),
        (linear, "loader", {"precision": "64"}),
        (linear, "loader", {"runtime": "fabric"}),
    ],
)
@pytest.mark.parametrize("stop_at", [4, 5, 9])
def test_a_run_that_failed_continues_exactly(
    tmp_path: Path, model: Callable[[], nn.Module], source: str, settings: dict[str, Any], stop_at: int
) -> None:
    def loader() -> Any:
        if source == "torch":
            return DataLoader(line(11), 2, shuffle=True)  # type: ignore[arg-type]
        return deterministic_loader(line(11), 2, seed=0)

    def start(folder: str, **options: Any) -> FitResult:
        seed_all(0)
        chosen = {"batch_size": 2, "checkpoint_every": 3, "log_every": 1, **settings, **options}
        return train(tmp_path / folder, model(), loader(), **chosen)

    whole = start("whole")
    log = Log(stop_at)
    with pytest.raises(StopError):
        start("parts", loggers=[log])
    assert log.closed
    record = RunRecord.read(tmp_path / "parts" / "record.json")
    assert (record.status, record.error) == ("failed", "StopError")
    log = Log()
    parts = start("parts", loggers=[log])
    assert parts.resumed_from == log.rewound == (stop_at - 1) // 3 * 3  # the row comes before the checkpoint
    assert tiny.outcome(tmp_path / "parts") == tiny.outcome(tmp_path / "whole")
    assert parts.metrics == whole.metrics
    assert parts.record.started == record.started
    assert parts.record.config_hash == whole.record.config_hash


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    first = train(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    model = linear()
    second = train(tmp_path, model)
    assert second.resumed_from == second.step == 9
    assert (second.metrics, second.record) == (first.metrics, first.record)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert torch.equal(model.weight, load_weights(tmp_path)["weight"])  # type: ignore[arg-type]


def test_another_configuration_is_refused_and_the_fields_are_named(tmp_path: Path) -> None:
    train(tmp_path, about={"model": {"width": 3}})
    with pytest.raises(InputError) as caught:
        train(tmp_path, lr=0.5, seed=1, about={"model": {"width": 4}})
    assert caught.value.got == "about.model.width = 4, there 3; lr = 0.5, there 0.1; seed = 1, there 0"
    with pytest.raises(InputError, match="batches in an epoch = 2, there 3"):
        train(tmp_path, loader=deterministic_loader(line(8), 4, seed=0), about={"model": {"width": 3}})
    # Where and how often may change.
    train(tmp_path, workers=1, keep=5, checkpoint_every=1, about={"model": {"width": 3}})


def test_another_model_is_refused(tmp_path: Path) -> None:
    train(tmp_path)
    with pytest.raises(InputError, match=r"expected the model of the checkpoint.*Unexpected key.*bias"):
        train(tmp_path, nn.Linear(1, 1, bias=False))


def test_a_used_folder_is_refused_without_resume(tmp_path: Path) -> None:
    train(tmp_path, resume=False)
    with pytest.raises(InputError, match=r"without checkpoints, since resume=False; got .* with one of step 9"):
        train(tmp_path, resume=False)


# --- arguments and surroundings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loader": iter([1])}, "a train_loader with a length"),
        ({"loader": []}, "at least one batch in a train_loader"),
        ({"loader": deterministic_loader(line(), 3, seed=0)}, "batches of 4, as TrainConfig.batch_size says"),
        ({"model": nn.ReLU()}, "a model with weights to train"),
        ({"devices": 2}, "2 processes, as TrainConfig.devices says"),
        ({"precision": "16-mixed"}, "an accelerator for the precision 16-mixed"),
        ({"about": {"x": torch.zeros(1)}}, "tensors or JSON values"),
    ],
)
def test_wrong_arguments_are_named(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        train(tmp_path, **arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [torch.zeros(2, requires_grad=True), 3.0])
def test_a_loss_that_is_no_scalar_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(InputError, match="a loss that returns a scalar tensor"):
        fit(linear(), lambda model, batch: value, [1], small(), folder=tmp_path)


@pytest.mark.parametrize(
    ("module", "settings"), [("lightning_fabric", {"runtime": "fabric"}), ("tensorboard", {"tensorboard": True})]
)
def test_a_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, settings: dict[str, Any]
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == module or name == "torch.utils.tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"intertwine\[train\]"):
        train(tmp_path, **settings)
    assert train(tmp_path).step == 9, "plain torch is enough otherwise"


def test_settings_of_torch_are_put_back(tmp_path: Path) -> None:
    torch.utils.deterministic.fill_uninitialized_memory = True
    train(tmp_path / "a")
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory
    with pytest.raises(RuntimeError, match="deterministic"):
        fit(
            linear(),
            lambda model, batch: (
                (_ for _ in ()).throw(RuntimeError("deterministic"))
                if torch.are_deterministic_algorithms_enabled()
                else None
            ),
            [1],
            small(),
            folder=tmp_path / "b",
        )


def test_runs_with_the_same_seed_are_equal_and_others_are_not(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        torch.rand(7)  # what happened before must not matter
        tiny.run(tmp_path / name, seed=seed)
    assert tiny.outcome(tmp_path / "a") == tiny.outcome(tmp_path / "b")
    assert tiny.outcome(tmp_path / "a")["model.safetensors"] != tiny.outcome(tmp_path / "c")["model.safetensors"]


def test_fabric_and_plain_torch_give_the_same(tmp_path: Path) -> None:
    tiny.run(tmp_path / "plain")
    tiny.run(tmp_path / "fabric", runtime="fabric")
    assert tiny.outcome(tmp_path / "plain") == tiny.outcome(tmp_path / "fabric")


def test_compiled_models_train_and_continue(tmp_path: Path) -> None:
    # The backend that compiles nothing: the wiring is the same, and it needs no compiler.
    model = linear()
    train(tmp_path, model, compile="eager", max_steps=5)
    assert set(load_weights(tmp_path)) == {"weight", "bias"}
    plain = linear()
    train(tmp_path / "plain", plain, max_steps=5)
    assert torch.equal(model.weight, plain.weight)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler itself
def test_a_really_compiled_model_is_close(tmp_path: Path) -> None:
    model, plain = linear(), linear()
    train(tmp_path / "compiled", model, compile=True)
    train(tmp_path / "plain", plain)
    torch.testing.assert_close(model.state_dict(), plain.state_dict())


def test_metrics_need_something_to_be_computed_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a val_loader to compute the metrics on; got metrics x and no val_loader"):
        fit(linear(), squared, [1], small(), folder=tmp_path, metrics={"x": lambda model, batch: 0.0})


def test_a_refused_run_leaves_the_record_of_the_other_alone(tmp_path: Path) -> None:
    train(tmp_path)
    before = (tmp_path / "record.json").read_bytes()
    with pytest.raises(InputError):
        train(tmp_path, lr=0.5)
    assert (tmp_path / "record.json").read_bytes() == before


def test_one_loader_may_serve_training_and_validation(tmp_path: Path) -> None:
    loader = deterministic_loader(line(), 4, seed=0, workers=1)
    result = fit(linear(), squared, loader, small(), folder=tmp_path, val_loader=loader)
    assert [row["step"] for row in result.rows() if row["split"] == "val"] == [3, 6, 9]
    loader.close()


class TestWhatRan:
    """Records and messages tell what ran: the loader's batches, the data, and that nothing was trained."""

    X = torch.linspace(-1, 1, 48).unsqueeze(1)

    def run(self, folder: Path, loader: Any, **settings: Any) -> FitResult:
        torch.manual_seed(0)
        config = TrainConfig(**{"epochs": 1, "lr": 0.01, **settings})
        return fit(nn.Linear(1, 1), lambda model, batch: model(batch[0]).square().mean(), loader, config, folder=folder)

    def data(self, shift: float = 0.0) -> TensorDataset:
        return TensorDataset(self.X + shift, self.X)

    def test_the_batch_size_of_any_loader_is_recorded(self, tmp_path: Path) -> None:
        loaders = {
            "torch": DataLoader(self.data(), batch_size=12),
            "sampler": DataLoader(self.data(), batch_sampler=BatchSampler(range(48), 12, False)),
            "ours": deterministic_loader(self.data(), 12, seed=0),
            "list": [(x,) for x in self.X.split(12)],
        }
        for name, loader in loaders.items():
            record = self.run(tmp_path / name, loader).record
            assert record.config["train"]["batch_size"] == 12, name

    def test_a_batch_size_that_contradicts_is_refused(self, tmp_path: Path) -> None:
        for loader in (DataLoader(self.data(), batch_size=12), deterministic_loader(self.data(), 12, seed=0)):
            with pytest.raises(InputError, match=r"batches of 16, as TrainConfig\.batch_size says"):
                self.run(tmp_path, loader, batch_size=16)

    def test_a_finished_run_says_that_nothing_was_trained(self, tmp_path: Path, capsys: Any) -> None:
        loader = deterministic_loader(self.data(), 12, seed=0)
        self.run(tmp_path, loader)
        assert capsys.readouterr().err == ""
        self.run(tmp_path, loader)
        assert capsys.readouterr().err == f"fit: {tmp_path} is already finished at step 4, nothing to do\n"

    @pytest.mark.parametrize("kind", ["ours", "torch", "dataset", "list"])
    def test_other_data_are_noticed(self, tmp_path: Path, kind: str) -> None:
        def loader(shift: float) -> Any:
            pairs = [(x + shift, x) for x in self.X]
            return {
                "ours": lambda: deterministic_loader(self.data(shift), 12, seed=0),
                "torch": lambda: DataLoader(self.data(shift), batch_size=12, shuffle=True),
                "dataset": lambda: deterministic_loader(pairs, 12, seed=0),
                "list": lambda: [(x + shift,) for x in self.X.split(12)],
            }[kind]()

        self.run(tmp_path, loader(0.0))
        self.run(tmp_path, loader(0.0))
        with pytest.raises(InputError, match=r"got data = '\w{16}', there '\w{16}'"):
            self.run(tmp_path, loader(0.1))

    def test_looking_at_the_data_changes_no_random_number(self, tmp_path: Path) -> None:
        generator = torch.Generator().manual_seed(3)
        loader = DataLoader(self.data(), batch_size=12, shuffle=True, generator=generator)
        state, before = generator.get_state(), torch.get_rng_state()
        data_digest(as_loader(loader, 0, "a loader"))
        assert torch.equal(generator.get_state(), state)
        assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.usefixtures("forked_children")
def test_workers_end_with_the_run_and_leave_no_trace(tmp_path: Path) -> None:
    script = """
import sys, torch
from torch.utils.data import TensorDataset
from intertwine.train import TrainConfig, deterministic_loader, fit

data = TensorDataset(torch.rand(32, 1))
loader = deterministic_loader(data, 8, seed=0, workers=1)  # torch warns about more workers than cores
fit(torch.nn.Linear(1, 1), lambda m, b: m(b[0]).mean(), loader, TrainConfig(epochs=2, lr=0.1), folder=sys.argv[1])
import multiprocessing
print(len(multiprocessing.active_children()))
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
