"""The runtime of one process, with torch alone."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from .._batch import map_tensors
from .._config import TrainConfig


def device_of(config: TrainConfig) -> torch.device:
    if config.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(config.device)


def caster(device: torch.device, precision: str) -> Any:
    def cast(tensor: Tensor) -> Tensor:
        double = precision == "64" and tensor.is_floating_point()
        return tensor.to(device, torch.float64 if double else None, non_blocking=True)

    return cast


class PlainRuntime:
    """One process, torch alone."""

    def __init__(self, config: TrainConfig) -> None:
        self.rank, self.world = 0, 1
        self.device = device_of(config)
        self._mixed = config.precision == "bf16-mixed"
        self._stays = self.device.type == "cpu" and config.precision != "64"  # nothing to do for a batch
        self._cast = caster(self.device, config.precision)

    def setup(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Both as they are."""
        return model, optimizer

    def to_device(self, batch: Any) -> Any:
        """The batch on the device."""
        return batch if self._stays else map_tensors(batch, self._cast)

    def autocast(self) -> AbstractContextManager[object]:
        """Mixed precision if asked for."""
        return torch.autocast(self.device.type, torch.bfloat16) if self._mixed else nullcontext()

    def accumulating(self, module: nn.Module, enabled: bool) -> AbstractContextManager[object]:
        """Nothing special."""
        return nullcontext()

    def backward(self, loss: Tensor, module: nn.Module) -> None:
        """Autograd's."""
        loss.backward()

    def clip(self, module: nn.Module, optimizer: torch.optim.Optimizer, max_norm: float) -> Tensor:
        """Torch's."""
        return nn.utils.clip_grad_norm_(module.parameters(), max_norm)

    def total(self, values: Tensor) -> Tensor:
        """The values themselves."""
        return values

    def broadcast(self, value: Any) -> Any:
        """The value itself."""
        return value

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Nobody to share with."""

    def state(self) -> dict[str, Any]:
        """None."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing to put back."""

    def is_lost(self, error: BaseException) -> bool:
        """There is no other process."""
        return False
