"""Where a run computes: the few things that differ between plain torch and Lightning Fabric."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Runtime(Protocol):
    """A place to compute: one process, or one of several that share a run.

    ``rank`` counts the processes from 0 to ``world`` − 1; ``device`` is where this one computes.
    """

    rank: int
    world: int
    device: torch.device

    def setup(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
        """What the loop calls instead of the model and the optimizer."""
        ...

    def to_device(self, batch: Any) -> Any:
        """The batch on the device, in the precision of the weights."""
        ...

    def autocast(self) -> AbstractContextManager[object]:
        """The context in which a loss is computed."""
        ...

    def accumulating(self, module: nn.Module, enabled: bool) -> AbstractContextManager[object]:
        """The context of a backward pass whose gradients need not be shared yet."""
        ...

    def backward(self, loss: Tensor, module: nn.Module) -> None:
        """Add the gradient of the loss, averaged over the processes, to the weights' gradients."""
        ...

    def clip(self, module: nn.Module, optimizer: torch.optim.Optimizer, max_norm: float) -> Tensor:
        """Clip the gradient to a norm; returns the norm it had."""
        ...

    def total(self, values: Tensor) -> Tensor:
        """Sum over the processes."""
        ...

    def broadcast(self, value: Any) -> Any:
        """The value that process 0 gives, in all of them."""
        ...

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Give all processes the values that these tensors have in process 0."""
        ...

    def state(self) -> dict[str, Any]:
        """JSON values to be saved with a checkpoint."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Put back what :meth:`state` returned."""
        ...

    def is_lost(self, error: BaseException) -> bool:
        """Whether the error means that another process is gone."""
        ...
