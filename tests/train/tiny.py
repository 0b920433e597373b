"""A run small enough to be killed many times, with every kind of state: dropout, batch norm, augmentation, Adam, EMA.

``python -m tests.train.tiny FOLDER [name=value ...]`` runs it in a process of its own; ``... tiny --fork`` reads such
lines from standard input and forks a process for each, which spares the imports.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from intertwine.train import WALL_CLOCK, Augmented, FitResult, TrainConfig, deterministic_loader, fit, seed_all

SAMPLES, BATCH = 44, 8  # six batches an epoch, the last one short


def noisy(sample: tuple[Tensor, Tensor], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x, y = sample
    return x + 0.1 * torch.randn(x.shape, generator=generator, dtype=x.dtype), y


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))


def data(samples: int = SAMPLES) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(samples, 5, generator=generator)
    return TensorDataset(x, x[:, :3].argmax(1))


def loss(model: nn.Module, batch: Any) -> tuple[Tensor, dict[str, float]]:
    x, y = batch
    value = nn.functional.cross_entropy(model(x), y)
    return value, {"twice": 2 * value.item()}


def accuracy(model: nn.Module, batch: Any) -> Tensor:
    x, y = batch
    return (model(x).argmax(1) == y).double().mean()


def penalty(model: nn.Module) -> Tensor:
    return 1e-3 * sum((p.square().sum() for p in model.parameters()), start=torch.zeros(()))


def config(**settings: Any) -> TrainConfig:
    base = {
        "epochs": 6,
        "batch_size": BATCH,
        "lr": 0.01,
        "schedule": "cosine",
        "warmup_steps": 5,
        "clip_norm": 1.0,
        "ema": 0.9,
        "checkpoint_every": 2,
        "log_every": 3,
        "device": "cpu",
    }
    return TrainConfig.from_dict({**base, **settings})


def run(folder: str | Path, **settings: Any) -> FitResult:
    chosen = config(**settings)
    seed_all(chosen.seed)
    model = network()
    loader = deterministic_loader(Augmented(data(), noisy), chosen.batch_size, seed=chosen.seed, workers=chosen.workers)
    return fit(
        model,
        loss,
        loader,
        chosen,
        folder=folder,
        val_loader=deterministic_loader(data(20), BATCH, seed=0, shuffle=False),
        metrics={"accuracy": accuracy},
        extra_penalty=penalty,
        about={"model": "tiny"},
        progress=False,
    )


def outcome(folder: str | Path) -> dict[str, Any]:
    """Everything a run leaves behind that must not depend on how often it was interrupted."""
    folder = Path(folder)
    newest = max((folder / "checkpoints").glob("step-*"))
    state = json.loads((newest / "state.json").read_bytes())
    result: dict[str, Any] = {file.name: file.read_bytes() for file in newest.glob("*.safetensors")}
    result["step"], result["state"] = newest.name, state["state"]
    for clock in ("seconds", "cpu_seconds", "log_length"):  # the length depends on how many digits the seconds have
        del result["state"][clock]
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_bytes().splitlines()]
    result["rows"] = [{key: value for key, value in row.items() if key not in WALL_CLOCK} for row in rows]
    return result


def _parse(words: list[str]) -> tuple[str, dict[str, Any]]:
    folder, *pairs = words
    return folder, {name: json.loads(value) for name, value in (pair.split("=", 1) for pair in pairs)}


def _fork_server() -> None:
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # imports what every run will need
    for line in sys.stdin:
        folder, settings = _parse(line.split())
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                run(folder, **settings)
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--fork"]:
        _fork_server()
    else:
        where, chosen = _parse(sys.argv[1:])
        run(where, **chosen)
