"""Choose the runtime that a configuration asks for."""

from __future__ import annotations

import os

from ...errors import InputError
from .._config import TrainConfig
from ._fabric_runtime import FabricRuntime
from ._plain_runtime import PlainRuntime, device_of
from ._runtime import Runtime


def start_runtime(config: TrainConfig) -> Runtime:
    """The runtime that a configuration asks for: Fabric if named, or if there are several processes to connect."""
    world = _world(config)
    if config.precision == "16-mixed" and device_of(config).type == "cpu":
        raise InputError(
            "fit",
            expected="an accelerator for the precision 16-mixed",
            got="the device cpu",
            fix="Use bf16-mixed or 32.",
        )
    needs_fabric = world > 1 or config.precision == "16-mixed"
    if config.runtime == "plain" and needs_fabric:
        raise InputError(
            "fit",
            expected="one process and a precision other than 16-mixed, since runtime='plain'",
            got=f"{world} processes, precision {config.precision}",
            fix="Use runtime='auto'.",
        )
    if config.runtime == "fabric" or needs_fabric:
        return FabricRuntime(config, world)
    return PlainRuntime(config)


def _world(config: TrainConfig) -> int:
    """Number of processes that torchrun started, from the variables it sets; 1 without it."""
    under_torchrun = "RANK" in os.environ and "WORLD_SIZE" in os.environ
    world = int(os.environ["WORLD_SIZE"]) if under_torchrun else 1
    if config.devices not in ("auto", world):
        raise InputError(
            "fit",
            expected=f"{config.devices} processes, as TrainConfig.devices says",
            got=f"{world}",
            fix=f"Start it as: torchrun --standalone --nproc-per-node {config.devices} SCRIPT (docs/distributed.md).",
        )
    return world
