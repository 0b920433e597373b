"""The runtime of Lightning Fabric: accelerators, mixed precision, several processes."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError, LostWorkerError, MissingExtraError
from .._batch import map_tensors
from .._config import TrainConfig
from .._precision import chosen_precision
from ._plain_runtime import caster, device_of

_LOST = re.compile(r"gloo|nccl|connection (closed|reset|refused)|broken pipe|timed out|socket", re.IGNORECASE)


class FabricRuntime:
    """Lightning Fabric: accelerators, mixed precision, and distributed data parallel under torchrun."""

    def __init__(self, config: TrainConfig, world: int) -> None:
        try:
            from lightning_fabric import Fabric
        except ImportError as error:
            raise MissingExtraError(
                "fit",
                expected="Lightning Fabric, for several processes, 16-mixed precision or runtime='fabric'",
                got=str(error),
                fix="Install the extra: pip install 'intertwine[train]'.",
            ) from error
        accelerator = device_of(config).type
        chosen = chosen_precision(config.precision, accelerator)
        precision: Any = {"32": "32-true", "64": "64-true"}.get(chosen, chosen)
        if world == 1:
            self._fabric = Fabric(accelerator=accelerator, devices=1, precision=precision)
        else:
            self._fabric = Fabric(
                accelerator=accelerator,
                devices=_processes_here(world),
                num_nodes=world // _processes_here(world),
                strategy=self._data_parallel(config),
                precision=precision,
            )
        joined_before = _in_a_group()
        try:
            self._fabric.launch()
        except (RuntimeError, OSError) as error:
            if world == 1:
                raise
            raise LostWorkerError(
                "fit",
                expected=f"{world} processes to meet within {config.timeout:g} s",
                got=f"{str(error).splitlines()[0]} in process {os.environ['RANK']}",
                fix="Check that all of them were started, and that they can reach MASTER_ADDR (docs/distributed.md).",
            ) from error
        if _in_a_group() and not joined_before:
            # Fabric does this for NCCL only. Left to the end of the interpreter, the threads of gloo may still be
            # running when it goes away, and a process whose training went well ends with SIGABRT.
            atexit.register(_leave_group)
        self.rank, self.world, self.device = self._fabric.global_rank, self._fabric.world_size, self._fabric.device
        self._cast = caster(self.device, config.precision)

    @staticmethod
    def _data_parallel(config: TrainConfig) -> Any:
        from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
        from lightning_fabric.strategies.ddp import DDPStrategy

        return DDPStrategy(
            cluster_environment=TorchElasticEnvironment(),
            timeout=timedelta(seconds=config.timeout),
            find_unused_parameters=config.strategy == "ddp_find_unused",
        )

    def setup(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Wrap both with Fabric; with several processes, all get the weights of process 0."""
        module, wrapped = self._fabric.setup(model, optimizer)
        return module, wrapped

    def to_device(self, batch: Any) -> Any:
        """Move a batch to the device."""
        return map_tensors(batch, self._cast)

    def autocast(self) -> AbstractContextManager[object]:
        """The context of Fabric for the precision."""
        return self._fabric.autocast()

    def accumulating(self, module: nn.Module, enabled: bool) -> AbstractContextManager[object]:
        """No exchange of gradients while ``enabled``."""
        if not enabled or self.world == 1:
            return nullcontext()
        return self._fabric.no_backward_sync(module)  # type: ignore[arg-type]

    def backward(self, loss: Tensor, module: nn.Module) -> None:
        """Call Fabric, which scales the loss if the precision needs it."""
        self._fabric.backward(loss, model=module)  # type: ignore[arg-type]

    def clip(self, module: nn.Module, optimizer: torch.optim.Optimizer, max_norm: float) -> Tensor:
        """Call Fabric, which first undoes the scaling."""
        norm = self._fabric.clip_gradients(module, optimizer, max_norm=max_norm, error_if_nonfinite=False)
        return norm if isinstance(norm, Tensor) else torch.tensor(float("nan"))

    def total(self, values: Tensor) -> Tensor:
        """Sum over the processes."""
        if self.world == 1:
            return values
        summed: Any = self._fabric.all_reduce(values.to(self.device), reduce_op="sum")
        return summed.cpu()

    def broadcast(self, value: Any) -> Any:
        """The value of process 0."""
        return self._fabric.broadcast(value)

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Give all processes the values that these tensors have in process 0."""
        if self.world > 1:
            for tensor in tensors:
                value = tensor.detach().contiguous()
                torch.distributed.broadcast(value, src=0)
                tensor.detach().copy_(value)

    def state(self) -> dict[str, Any]:
        """The scaling of 16-mixed precision."""
        return self._fabric.strategy.precision.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the scaling."""
        self._fabric.strategy.precision.load_state_dict(state)

    def is_lost(self, error: BaseException) -> bool:
        """Whether the error is about a lost connection."""
        if self.world == 1:
            return False
        return isinstance(error, torch.distributed.DistError) or bool(_LOST.search(str(error)))


def _in_a_group() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _leave_group() -> None:
    if _in_a_group():
        torch.distributed.destroy_process_group()


def _processes_here(world: int) -> int:
    # torchrun sets these; other launchers may set only RANK and WORLD_SIZE, for one machine.
    here = int(os.environ.setdefault("LOCAL_WORLD_SIZE", str(world)))
    os.environ.setdefault("LOCAL_RANK", os.environ["RANK"])
    if world % here:
        raise InputError(
            "fit",
            expected="the same number of processes on every machine",
            got=f"{here} here, {world} in all",
            fix="Give every machine the same --nproc-per-node.",
        )
    return here
