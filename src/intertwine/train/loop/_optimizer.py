"""The optimizer that a configuration names, and its state as plain tensors and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError
from .._config import TrainConfig


def make_optimizer(
    model: nn.Module, config: TrainConfig, param_groups: Iterable[Mapping[str, Any]] | None
) -> torch.optim.Optimizer:
    """The optimizer over all weights that want a gradient, or over the given groups of them."""
    groups: list[Any] = [dict(group) for group in param_groups] if param_groups is not None else []
    groups = groups or [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not groups:
        raise InputError(
            "fit",
            expected="a model with weights to train",
            got=f"{type(model).__name__} without any",
            fix="Check requires_grad of its parameters.",
        )
    common: dict[str, Any] = {"lr": config.lr, "weight_decay": config.weight_decay}
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=config.momentum, nesterov=config.nesterov, **common)
    # On a CPU torch's default goes through the weights many times; fused it is five times as fast. Elsewhere the
    # default is fast, and the scaling of 16-mixed precision does not go with fused steps. SGD would gain little, and
    # lose sparse gradients.
    fused = all(weight.device.type == "cpu" and weight.is_floating_point() for weight in model.parameters()) or None
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return kind(groups, betas=(config.beta1, config.beta2), eps=config.eps, fused=fused, **common)


def optimizer_state(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state of each weight: tensors named ``index.name``, and the numbers among them.

    The settings of the groups are not part of it: they come from the configuration, and the rates from the step.
    """
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Any] = {}
    for index, entries in optimizer.state_dict()["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{index}.{name}"] = value
            else:
                numbers[f"{index}.{name}"] = value
    return tensors, numbers


def restore_optimizer(
    optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]
) -> None:
    """Put back what :func:`optimizer_state` returned."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **numbers}.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
