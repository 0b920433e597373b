"""Training that the experiments on clouds share: AdamW, warm-up and cosine, and the average of the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.utils.data import TensorDataset

from ...train import TrainConfig, deterministic_loader, fit
from ..lab._experiment import Job


def train_average(
    job: Job,
    model: nn.Module,
    loss: Callable[[nn.Module, Any], Tensor],
    train: tuple[Tensor, ...],
    val: tuple[Tensor, ...],
    *,
    clip_norm: float,
) -> None:
    """Train a model and leave it with the moving average of its weights, in evaluation mode.

    The settings contain ``epochs``, ``batch_size``, ``lr``, ``weight_decay``, ``ema``, and optionally
    ``validate_every`` (default 1), the epochs between validations.

    Args:
        job: the run.
        model: the network, trained in place.
        loss: as in :func:`fit`.
        train: tensors with one row per sample.
        val: the same for validation.
        clip_norm: the maximum norm of the gradient.
    """
    s: Any = job.settings
    config = TrainConfig(
        epochs=s["epochs"],
        batch_size=s["batch_size"],
        optimizer="adamw",
        lr=s["lr"],
        weight_decay=s["weight_decay"],
        schedule="cosine",
        warmup_steps=s["epochs"] * (len(train[0]) // s["batch_size"]) // 20,
        clip_norm=clip_norm,
        ema=s["ema"],
        seed=job.seed,
        log_every=20,
        checkpoint_every=200,
        validate_every=s.get("validate_every", 1),
    )
    result = fit(
        model,
        loss,
        deterministic_loader(TensorDataset(*train), s["batch_size"], seed=job.seed, shuffle=True),
        config,
        folder=job.folder / "fit",
        val_loader=deterministic_loader(TensorDataset(*val), 500, seed=job.seed, shuffle=False),
        loggers=job.loggers(),
        about={"row": job.row, **s},
        progress=job.progress,
    )
    if result.ema is not None:
        model.load_state_dict(result.ema)
    model.eval()
