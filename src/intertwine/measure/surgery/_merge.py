"""Average networks, and recompute the running statistics of their batch norms."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ...errors import InputError
from .._batches import Fitting, Images, batches
from ..graph._permute import full_state, with_state
from ._batch_statistics import BatchNorm, Look, Running, normalizing_by_batch, of_batch


@checked
def merge(models: Sequence[nn.Module], *, weights: Sequence[float] | None = None) -> nn.Module:
    """The network whose parameters and buffers are the weighted means over several networks.

    Match their channels first: see :func:`match_networks` and :func:`permute`.

    Args:
        models: networks of the same architecture.
        weights: the share of each network in the average; equal by default.

    >>> a, b = nn.Linear(2, 1), nn.Linear(2, 1)
    >>> torch.allclose(merge([a, b]).weight, (a.weight + b.weight) / 2)
    True
    """
    shares = shares_of("merge", models, weights)
    states = [full_state(m) for m in models]
    different = [n for n, v in states[0].items() if any(n not in s or s[n].shape != v.shape for s in states)]
    if different:
        raise InputError("merge", expected="networks of the same architecture", got=f"a difference at {different[0]}")
    mean = {
        name: sum(share * s[name].double() for share, s in zip(shares, states, strict=True)).to(value.dtype)  # type: ignore[union-attr]
        if value.is_floating_point()
        else value
        for name, value in states[0].items()
    }
    return with_state(models[0], mean)


def shares_of(caller: str, models: Sequence[nn.Module], weights: Sequence[float] | None) -> list[float]:
    """The share of each network in an average; equal by default."""
    if not models or (weights is not None and len(weights) != len(models)):
        raise InputError(
            caller,
            expected="at least one network, and one weight per network",
            got=f"{len(models)} networks and {'no' if weights is None else len(weights)} weights",
        )
    return [1 / len(models)] * len(models) if weights is None else list(weights)


def batch_norms(model: nn.Module) -> dict[str, BatchNorm]:
    """The batch norms of a network that keep running statistics."""
    return {n: m for n, m in model.named_modules() if isinstance(m, BatchNorm) and m.running_mean is not None}


@checked
def reset_batch_norms(
    model: nn.Module, data: Images, *, batch_size: Positive = 200, max_images: Positive | None = None
) -> nn.Module:
    """A copy of the network with recomputed running statistics, in evaluation mode.

    In one pass over the data, every batch norm uses the statistics of the batch. The running statistics become the mean
    over batches of the batch means and the unbiased batch variances. Dropout stays off. The data should be distributed
    as in training. A batch that does not fit into memory is processed in pieces, with the same result but one pass per
    batch norm.
    """
    twin = copy.deepcopy(model).eval()
    norms = batch_norms(twin)
    if not norms:
        return twin
    device = next(twin.parameters()).device
    fit = Fitting("reset_batch_norms", device)
    running: dict[str, Running] = {}

    def run(x: Tensor, look: Look) -> None:
        with normalizing_by_batch(list(norms.items()), look):
            twin(x)

    with torch.no_grad():
        for batch in batches(data, caller="reset_batch_norms", batch_size=batch_size, max_images=max_images):
            if len(batch[0]) > 1:
                Running.gather(running, of_batch(run, batch[0], fit))
    return _set_batch_norms(twin, running)


def with_batch_norms(model: nn.Module, running: Mapping[str, Running]) -> nn.Module:
    """A copy of the network with these running statistics, in evaluation mode."""
    return _set_batch_norms(copy.deepcopy(model), running)


def _set_batch_norms(model: nn.Module, running: Mapping[str, Running]) -> nn.Module:
    with torch.no_grad():
        for name, norm in batch_norms(model).items():
            norm.reset_running_stats()
            if name in running:
                norm.running_mean.copy_(running[name].mean)  # type: ignore[union-attr]
                norm.running_var.copy_(running[name].variance)  # type: ignore[union-attr]
                norm.num_batches_tracked.fill_(running[name].batches)  # type: ignore[union-attr]
    return model.eval()
