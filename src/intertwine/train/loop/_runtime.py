"""The protocol of a runtime: what differs between plain torch and Lightning Fabric."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Runtime(Protocol):
    """One process, or one of several processes of a run.

    ``rank`` is the number of this process, from 0 to ``world`` − 1; ``device`` is where it computes.
    """

    rank: int
    world: int
    device: torch.device

    def setup(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Wrap the model and the optimizer for the loop."""
        ...

    def to_device(self, batch: Any) -> Any:
        """Move a batch to the device, in the precision of the weights."""
        ...

    def autocast(self) -> AbstractContextManager[object]:
        """The context in which a loss is computed."""
        ...

    def accumulating(self, module: nn.Module, enabled: bool) -> AbstractContextManager[object]:
        """The context of a backward pass whose gradients need not be exchanged yet."""
        ...

    def backward(self, loss: Tensor, module: nn.Module) -> None:
        """Add the gradient of the loss, averaged over the processes, to the gradients of the weights."""
        ...

    def clip(self, module: nn.Module, optimizer: torch.optim.Optimizer, max_norm: float) -> Tensor:
        """Clip the gradient to a norm, and return the norm it had."""
        ...

    def total(self, values: Tensor) -> Tensor:
        """Sum over the processes."""
        ...

    def broadcast(self, value: Any) -> Any:
        """Send the value of process 0 to all processes, and return it."""
        ...

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Give all processes the values that these tensors have in process 0."""
        ...

    def state(self) -> dict[str, Any]:
        """JSON values to save with a checkpoint."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state` returned."""
        ...

    def is_lost(self, error: BaseException) -> bool:
        """Whether the error means that another process is gone."""
        ...
