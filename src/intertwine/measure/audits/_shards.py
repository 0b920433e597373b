"""The images of an audit, split across the workers of Ray."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..._ray import ray_session
from ...errors import InputError
from .._symmetry import Symmetry
from ..metrics._layers import LayerTotals
from ._subject import Subject
from ._whole import Columns, measure_whole

_RETRIES = 2


class _Shard:
    """Some of the images on one worker, which keeps their scores for the next symmetry."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def measure(self, group: Symmetry) -> Columns:
        return measure_whole(self.subject, group)


class Shards:
    """All workers. A lost worker is replaced, and starts again with its images.

    Args:
        ray: the session.
        workers: one handle per shard.
    """

    def __init__(self, ray: Any, workers: Sequence[Any]) -> None:
        self.ray, self.workers = ray, workers

    def measure(self, group: Symmetry) -> Columns:
        """The measurements of all images, as if they were in one place."""
        try:
            parts = self.ray.get([worker.measure.remote(group) for worker in self.workers])
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self.ray.exceptions.RayError as error:
            raise InputError(
                "engine ray", expected="workers that finish", got=str(error).strip().splitlines()[0]
            ) from error
        return joined(parts, group)


def joined(parts: Sequence[Columns], group: Symmetry) -> Columns:
    """The measurements of all parts, in order."""
    layers = LayerTotals(group)
    for part in parts:
        layers.add_all(part.layers)
    values, floors = (_joined([part.values for part in parts]), _joined([part.floors for part in parts]))
    return Columns(values, floors, layers)


def _joined(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    metrics = dict.fromkeys(metric for part in parts for metric in part)
    return {metric: torch.cat([part[metric] for part in parts if metric in part]) for metric in metrics}


@contextmanager
def spread(subject: Subject, *, workers: int | None, address: str | None) -> Iterator[Subject]:
    """The subject with its images on the workers of Ray, for the block."""
    with ExitStack() as stack:
        ray = stack.enter_context(ray_session(workers, address))
        stack.enter_context(_sent_by_value(ray, subject.model))
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))  # more workers than cores would wait forever
        count = min(workers or cores, cores, len(subject.images))
        ends = [len(subject.images) * k // count for k in range(count + 1)]
        remote = ray.remote(num_cpus=1, max_restarts=_RETRIES, max_task_retries=_RETRIES)(_Shard)
        try:
            handles = [remote.remote(subject.part(a, b)) for a, b in pairwise(ends)]
        except (TypeError, AttributeError, ValueError) as error:
            raise InputError(
                "engine ray", expected="a network that can be sent to another process", got=str(error).splitlines()[0]
            ) from error
        stack.callback(lambda: [ray.kill(handle) for handle in handles])
        yield replace(subject, shards=Shards(ray, handles))


@contextmanager
def _sent_by_value(ray: Any, model: nn.Module) -> Iterator[None]:
    """Send classes from the current folder as code: a worker cannot import them."""
    here = Path.cwd().resolve()
    modules = {type(part).__module__ for part in model.modules()}
    local = []
    for name in sorted(modules & set(sys.modules)):
        try:
            file = Path(inspect.getfile(sys.modules[name])).resolve()
        except (TypeError, OSError):
            continue  # part of Python, or typed into a console, which is sent as code anyway
        if file.is_relative_to(here) and "site-packages" not in file.parts and not name.startswith("intertwine."):
            local.append(sys.modules[name])
    for module in local:
        ray.cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in local:
            ray.cloudpickle.unregister_pickle_by_value(module)
