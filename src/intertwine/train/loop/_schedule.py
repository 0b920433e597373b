"""The learning rate as a pure function of the step: a resumed run has no scheduler state to restore."""

from __future__ import annotations

import math

from ..._checked import checked
from .._config import TrainConfig


@checked
def lr_factor(config: TrainConfig, step: int, total: int) -> float:
    """What the learning rate is multiplied by in a step; the equation is in :class:`TrainConfig`.

    Args:
        config: its schedule, warmup_steps, final_lr, milestones and gamma.
        step: the step to come, counted from 0.
        total: number of steps of the whole run.

    >>> config = TrainConfig(max_steps=8, schedule="cosine", warmup_steps=4)
    >>> [round(lr_factor(config, step, 8), 3) for step in range(8)]
    [0.25, 0.5, 0.75, 1.0, 1.0, 0.854, 0.5, 0.146]
    """
    warmup = config.warmup_steps
    rise = min(1.0, (step + 1) / warmup) if warmup else 1.0
    done = max(0, step - warmup) / max(1, total - warmup)
    if config.schedule == "cosine":
        shape = config.final_lr + (1 - config.final_lr) * (1 + math.cos(math.pi * done)) / 2
    elif config.schedule == "linear":
        shape = config.final_lr + (1 - config.final_lr) * (1 - done)
    elif config.schedule == "step":
        shape = config.gamma ** sum(step >= round(milestone * total) for milestone in config.milestones)
    else:
        shape = 1.0
    return rise * shape
