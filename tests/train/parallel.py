"""A run to be started by torchrun: float64, without batch norm or dropout, so that it can be compared with one process.

``torchrun --standalone --nproc-per-node 2 -m tests.train.parallel FOLDER [PAUSE [name=value ...]]`` sleeps PAUSE
seconds a step and writes ``FOLDER/pid-RANK``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from intertwine.train import Augmented, FitResult, TrainConfig, deterministic_loader, fit, seed_all
from tests.train.tiny import data, noisy, penalty

SAMPLES, BATCH = 33, 8  # the last batch has a single sample: one of two processes gets nothing of it


def config(**settings: Any) -> TrainConfig:
    base: dict[str, Any] = {
        "epochs": 6,
        "accumulate": 2,  # of five batches in an epoch, the last stays alone
        "batch_size": BATCH,
        "optimizer": "sgd",
        "lr": 0.05,
        "clip_norm": 1.0,
        "ema": 0.5,
        "precision": "64",
        "checkpoint_every": 3,
        "log_every": 4,
        "timeout": 30,
        "device": "cpu",
    }
    return TrainConfig.from_dict({**base, **settings})


def run(folder: Path, pause: float = 0.0, **settings: Any) -> tuple[nn.Module, FitResult]:
    chosen = config(**settings)
    # Other weights on each rank: those of rank 0 must count.
    seed_all(int(os.environ.get("RANK", "0")))
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).double()

    def loss(model: nn.Module, batch: Any) -> Tensor:
        time.sleep(pause)
        x, y = batch
        return nn.functional.cross_entropy(model(x), y)

    dataset = data(SAMPLES)
    result = fit(
        model,
        loss,
        deterministic_loader(Augmented(dataset, noisy), BATCH, seed=chosen.seed),
        chosen,
        folder=folder,
        val_loader=deterministic_loader(dataset, BATCH, seed=0, shuffle=False),
        metrics={"accuracy": lambda model, batch: (model(batch[0]).argmax(1) == batch[1]).double().mean()},
        extra_penalty=penalty,
    )
    return model, result


if __name__ == "__main__":
    torch.set_num_threads(1)
    where = Path(sys.argv[1])
    where.mkdir(parents=True, exist_ok=True)
    (where / f"pid-{os.environ['RANK']}").write_text(str(os.getpid()))
    pairs = (pair.split("=", 1) for pair in sys.argv[3:])
    run(where, float(sys.argv[2]) if len(sys.argv) > 2 else 0.0, **{name: json.loads(value) for name, value in pairs})
