"""The runtime of one process, with torch alone."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from .._batch import map_tensors
from .._config import TrainConfig
from .._precision import chosen_precision


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
        self._mixed = chosen_precision(config.precision, self.device.type) == "bf16-mixed"
        self._stays = self.device.type == "cpu" and config.precision != "64"  # batches need no conversion
        self._cast = caster(self.device, config.precision)

    def setup(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Return both unchanged."""
        return model, optimizer

    def to_device(self, batch: Any) -> Any:
        """Move a batch to the device."""
        return batch if self._stays else map_tensors(batch, self._cast)

    def autocast(self) -> AbstractContextManager[object]:
        """Mixed precision, if it is configured."""
        return torch.autocast(self.device.type, torch.bfloat16) if self._mixed else nullcontext()

    def accumulating(self, module: nn.Module, enabled: bool) -> AbstractContextManager[object]:
        """A context that does nothing."""
        return nullcontext()

    def backward(self, loss: Tensor, module: nn.Module) -> None:
        """Call autograd."""
        loss.backward()

    def clip(self, module: nn.Module, optimizer: torch.optim.Optimizer, max_norm: float) -> Tensor:
        """Call torch's function."""
        return nn.utils.clip_grad_norm_(module.parameters(), max_norm)

    def total(self, values: Tensor) -> Tensor:
        """Return the values unchanged."""
        return values

    def broadcast(self, value: Any) -> Any:
        """Return the value unchanged."""
        return value

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Do nothing: there is one process."""

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Do nothing."""

    def is_lost(self, error: BaseException) -> bool:
        """Never: there is one process."""
        return False
