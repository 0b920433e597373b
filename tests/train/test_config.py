from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intertwine.errors import InputError
from intertwine.train import TrainConfig, lr_factor


def test_the_hash_is_the_same_everywhere() -> None:
    # Another value here means that finished runs are not recognized any more; raise CONFIG_VERSION knowingly.
    assert TrainConfig(epochs=3, lr=0.1).hash == "b08ca923c7c3aa6477d9414dca77c4e2620716786915a1bfbfa8de17e7881284"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("workers", 4),
        ("keep", 7),
        ("checkpoint_every", 3),
        ("log_every", 2),
        ("tensorboard", True),
        ("devices", 2),
        ("device", "cpu"),
    ],
)
def test_where_and_how_often_does_not_change_the_hash(field: str, value: object) -> None:
    assert TrainConfig(epochs=3).changed(**{field: value}).hash == TrainConfig(epochs=3).hash


def test_every_other_field_changes_the_hash() -> None:
    base = TrainConfig(epochs=3, milestones=(0.5,))
    other = {
        "epochs": 4,
        "max_steps": 9,
        "batch_size": 7,
        "accumulate": 2,
        "optimizer": "sgd",
        "lr": 0.5,
        "weight_decay": 0.1,
        "momentum": 0.5,
        "nesterov": True,
        "beta1": 0.5,
        "beta2": 0.5,
        "eps": 1e-3,
        "schedule": "step",
        "warmup_steps": 3,
        "final_lr": 0.1,
        "milestones": (0.2,),
        "gamma": 0.5,
        "clip_norm": 1.0,
        "ema": 0.9,
        "compile": True,
        "precision": "64",
        "seed": 1,
        "deterministic": False,
    }
    assert set(other) == set(base.what())
    hashes = {base.changed(**{name: value}).hash for name, value in other.items()} | {base.hash}
    assert len(hashes) == len(other) + 1


def test_it_is_frozen() -> None:
    config = TrainConfig(epochs=1)
    with pytest.raises(ValueError, match="frozen"):
        config.lr = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "epochs or max_steps: one of them is required"),
        ({"epochs": 0}, "epochs: input should be greater than or equal to 1"),
        ({"epochs": 1, "learning_rate": 3}, "learning_rate: no such field"),
        ({"epochs": 1, "optimizer": "lion"}, "optimizer: input should be 'sgd', 'adam' or 'adamw'"),
        ({"epochs": 1, "lr": float("nan")}, "lr: input should be a finite number"),
        ({"epochs": 1, "schedule": "step"}, "milestones: the schedule step needs at least one"),
        ({"epochs": 1, "milestones": (0.5, 0.2)}, "milestones: must increase, and lie between 0 and 1"),
        ({"epochs": 1, "nesterov": True, "momentum": 0}, "nesterov: needs momentum > 0"),
        ({"epochs": 1, "lr": -1, "keep": 0}, "lr: input should be greater than 0; keep: "),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        TrainConfig.from_dict(fields)
    assert caught.value.expected.startswith(message)


@pytest.mark.parametrize("text", ["[1, 2]", "3", "", "lr: [", "a: b: c"])
def test_text_that_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="TrainConfig: expected"):
        TrainConfig.from_yaml(text)
    with pytest.raises(InputError, match="TrainConfig: expected"):
        TrainConfig.from_json(text)


configs = st.builds(
    TrainConfig,
    epochs=st.integers(1, 9),
    lr=st.floats(1e-12, 1e3),
    milestones=st.lists(st.floats(0.001, 0.999), max_size=3).map(lambda values: tuple(sorted(values))),
    ema=st.none() | st.floats(0, 0.999),
    optimizer=st.sampled_from(["sgd", "adam", "adamw"]),
    devices=st.just("auto") | st.integers(1, 9),
    compile=st.booleans() | st.just("eager"),
)


@given(configs)
def test_json_and_yaml_bring_back_the_same(config: TrainConfig) -> None:
    assert TrainConfig.from_json(config.to_json()) == config
    assert TrainConfig.from_yaml(config.to_yaml()) == config
    assert TrainConfig.from_json(config.to_json()).hash == config.hash
    assert json.loads(config.to_json()) == config.to_dict()


@pytest.mark.parametrize("schedule", ["constant", "cosine", "linear", "step"])
@pytest.mark.parametrize("warmup", [0, 4])
def test_schedules_warm_up_then_fall_to_their_end(schedule: str, warmup: int) -> None:
    config = TrainConfig(epochs=1).changed(schedule=schedule, warmup_steps=warmup, milestones=(0.5, 0.75), final_lr=0.1)
    total = 40
    factors = [lr_factor(config, step, total) for step in range(total)]
    assert factors[:warmup] == sorted(factors[:warmup])
    assert factors[warmup] == 1.0
    falling = factors[warmup:]
    assert falling == sorted(falling, reverse=True)
    ends = {"constant": 1.0, "step": 0.01, "cosine": 0.1, "linear": 0.1}
    assert lr_factor(config, total, total) == pytest.approx(ends[schedule])


def test_steps_fall_at_their_milestones() -> None:
    config = TrainConfig(epochs=1, schedule="step", milestones=(0.3, 0.6), gamma=0.5)
    assert [lr_factor(config, step, 10) for step in range(10)] == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]


def test_warm_up_longer_than_the_run_is_harmless() -> None:
    config = TrainConfig(epochs=1, schedule="cosine", warmup_steps=100)
    assert [lr_factor(config, step, 10) for step in (0, 9)] == [0.01, 0.1]
