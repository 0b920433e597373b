"""REPAIR: give the channels of a merged network the means and variances of the networks it was merged from.

Jordan, Sedghi, Saukh, Entezari & Neyshabur, "REPAIR: REnormalizing Permuted Activations for Interpolation Repair".
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ...errors import InputError
from .._batches import Fitting, Images, batches
from ..graph._channel_graph import ChannelGraph
from ._batch_statistics import BatchNorm, Look, Running, normalizing_by_batch, of_batch
from ._merge import batch_norms, reset_batch_norms, shares_of

EPS = 1e-5
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def filter_layers(model: nn.Module, data: Images) -> list[str]:
    """The hidden convolutions and linear maps in the order in which they run: all but the last.

    A module that runs twice per input has two sets of statistics, and is left out.
    """
    order: list[str] = []
    handles = [
        m.register_forward_hook(lambda *_, name=name: order.append(name))
        for name, m in model.named_modules()
        if isinstance(m, (*_CONVOLUTIONS, nn.Linear))
    ]
    try:
        with torch.no_grad():
            first = next(iter(batches(data, caller="repair", batch_size=1)))[0][:1]
            Fitting("repair", next(model.parameters()).device)(model, first)
    finally:
        for h in handles:
            h.remove()
    return [name for name in order[:-1] if order.count(name) == 1]


def channel_axis(module: nn.Module, rank: int) -> int:
    """The axis of the channels of a layer's output with this many axes."""
    return rank - 1 if isinstance(module, nn.Linear) else 1


@contextmanager
def _watched(model: nn.Module, names: Sequence[str], see: Callable[[str, nn.Module, Tensor], Any]) -> Iterator[None]:
    modules = dict(model.named_modules())
    handles = [
        modules[name].register_forward_hook(lambda module, _, y, name=name: see(name, module, y)) for name in names
    ]
    try:
        yield
    finally:
        for h in handles:
            h.remove()


def channel_statistics(
    model: nn.Module,
    data: Images,
    names: Sequence[str],
    *,
    batch_size: Positive = 200,
    max_images: Positive | None = None,
) -> dict[str, tuple[Tensor, Tensor]]:
    """The mean and standard deviation of the output channels of modules, in the current mode of the network."""
    norms = {n: m for n, m in batch_norms(model).items() if m.training}
    running = _gathered(model, data, names, norms, batch_size=batch_size, max_images=max_images)
    return {name: (running[name].mean, running[name].variance.sqrt()) for name in names if name in running}


def _gathered(
    model: nn.Module, data: Images, names: Sequence[str], norms: Mapping[str, BatchNorm], **options: Any
) -> dict[str, Running]:
    """The statistics of the outputs of modules, and of the inputs of batch norms, which use those of the batch."""
    running: dict[str, Running] = {}
    inputs = [(_input(name), norm) for name, norm in norms.items()]

    def run(x: Tensor, look: Look) -> None:
        def see(name: str, module: nn.Module, y: Tensor) -> None:
            if not isinstance(y, Tensor):
                raise InputError(
                    "repair",
                    expected=f"{name} to return one tensor, whose statistics can be restored",
                    got=type(y).__name__,
                )
            look(name, y, channel_axis(module, y.dim()), used=False)

        with normalizing_by_batch(inputs, look), _watched(model, names, see):
            model(x)

    fit = Fitting("repair", next(model.parameters()).device)
    with torch.no_grad():
        for batch in batches(data, caller="repair", **options):
            if len(batch[0]) > 1 or not batch_norms(model):
                Running.gather(running, of_batch(run, batch[0], fit))
    return running


def _input(name: str) -> str:
    """The name for the input of a batch norm, which may itself be one of the observed modules."""
    return f"{name} (input)"


@dataclass(frozen=True)
class Statistics:
    """The statistics of a network from one pass over the data, in which every batch norm uses those of the batch.

    Attributes:
        channels: the mean and standard deviation of the channels of the layers that REPAIR restores.
        norms: the statistics of the inputs of the batch norms.
    """

    channels: dict[str, tuple[Tensor, Tensor]]
    norms: dict[str, Running]


def restored_layers(model: nn.Module, data: Images, blocks: Sequence[str]) -> Sequence[str]:
    """The layers whose statistics REPAIR restores: the blocks of a network with batch norms, else the filters."""
    return blocks if batch_norms(model) else filter_layers(model, data)


def statistics(model: nn.Module, data: Images, names: Sequence[str], **options: Any) -> Statistics:
    """The statistics of these layers and of the inputs of all batch norms."""
    twin = copy.deepcopy(model).eval()
    norms = batch_norms(twin)
    running = _gathered(twin, data, names, norms, **options)
    return Statistics(
        {name: (running[name].mean, running[name].variance.sqrt()) for name in names if name in running},
        {name: running[_input(name)] for name in norms if _input(name) in running},
    )


def _goals(each: Sequence[Statistics], shares: Sequence[float], names: Sequence[str]) -> dict[str, list[Tensor]]:
    """The weighted means of the means and of the standard deviations (not the variances)."""
    return {
        name: [torch.stack([w * e.channels[name][k] for w, e in zip(shares, each, strict=True)]).sum(0) for k in (0, 1)]
        for name in names
    }


@checked
def repair(
    merged: nn.Module,
    models: Sequence[nn.Module],
    data: Images,
    *,
    weights: Sequence[float] | None = None,
    blocks: Sequence[str] = (),
    batch_size: Positive = 200,
    max_images: Positive | None = None,
) -> nn.Module:
    """A copy of a merged network whose channels have the statistics of the networks it was merged from.

    Without batch norms, the output of every hidden convolution and linear map gets the mean and standard deviation
    averaged over the given networks. This scales filters and keeps the architecture. All layers are repaired in one
    pass, each on inputs that are already repaired. With batch norms, their running statistics are recomputed, and the
    outputs of ``blocks`` (residual blocks, as in ``ChannelGraph.blocks``) are renormalized by a batch norm after each,
    which stays in the network.

    Args:
        merged: the average of the networks.
        models: the networks, with matched channels.
        data: images distributed as in training.
        weights: the share of each network in the average; equal by default.
        blocks: names of modules to renormalize, for networks with batch norms.
        batch_size: images per batch, for data given as one tensor.
        max_images: the maximum number of images to use.

    >>> from intertwine.measure import merge
    >>> nets = [nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)) for _ in range(2)]
    >>> repaired = repair(merge(nets), nets, torch.randn(20, 1, 6, 6))
    >>> [type(module).__name__ for module in repaired]
    ['Conv2d', 'ReLU', 'Flatten', 'Linear']
    """
    shares = shares_of("repair", models, weights)
    options: dict[str, Any] = {"batch_size": batch_size, "max_images": max_images}
    names = restored_layers(merged, data, blocks)
    # With batch norms but without blocks, there is nothing to restore.
    each = [statistics(model, data, names, **options) for model in models] if names else []
    return restored(merged, each, data, names, shares=shares, **options)


def restored(
    merged: nn.Module,
    each: Sequence[Statistics],
    data: Images,
    names: Sequence[str],
    *,
    shares: Sequence[float],
    **options: Any,
) -> nn.Module:
    """As :func:`repair`, with the statistics of the networks already known; ``names`` are the restored layers."""
    goals = _goals(each, shares, names)
    if batch_norms(merged):
        return _repaired_blocks(merged, goals, data, options)
    merged = copy.deepcopy(merged).eval()
    running: dict[str, Running] = {}

    def run(x: Tensor, look: Look) -> None:
        def normalize(name: str, module: nn.Module, y: Tensor) -> Tensor:
            axis = channel_axis(module, y.dim())
            seen = look(name, y, axis, used=True)
            scale = goals[name][1] / (seen.biased + EPS).sqrt()
            shape = [-1 if k == axis else 1 for k in range(y.dim())]
            return y * scale.to(y).view(shape) + (goals[name][0] - scale * seen.mean).to(y).view(shape)

        with _watched(merged, names, normalize):
            merged(x)

    fit = Fitting("repair", next(merged.parameters()).device)
    with torch.no_grad():
        for batch in batches(data, caller="repair", **options):
            Running.gather(running, of_batch(run, batch[0], fit))
    for name in names:
        scale = goals[name][1] / (running[name].variance + EPS).sqrt()
        _scale(merged.get_submodule(name), scale, goals[name][0] - scale * running[name].mean)
    return merged


def _scale(module: nn.Module, scale: Tensor, shift: Tensor) -> None:
    """Fold y ↦ scale · y + shift into the filters of a layer."""
    weight: Any = module.weight
    bias: Any = module.bias
    with torch.no_grad():
        transposed = isinstance(module, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d)
        groups = module.groups if transposed else 1
        if transposed and isinstance(groups, int):
            shape = weight.shape
            blocks = weight.view(groups, shape[0] // groups, *shape[1:])
            blocks *= scale.to(weight).view(groups, 1, -1, *[1] * (weight.dim() - 2))
        else:
            weight *= scale.to(weight).view(-1, *[1] * (weight.dim() - 1))
        if bias is None:
            module.bias = nn.Parameter(shift.to(weight))
        else:
            bias.copy_(scale.to(bias) * bias + shift.to(bias))


class Renormalized(nn.Module):
    """A module followed by a batch norm."""

    def __init__(self, module: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.module, self.norm = module, norm

    def forward(self, x: Tensor) -> Tensor:
        """The renormalized output."""
        return self.norm(self.module(x))


def _repaired_blocks(
    merged: nn.Module, goals: Mapping[str, Sequence[Tensor]], data: Images, options: dict[str, Any]
) -> nn.Module:
    merged = copy.deepcopy(merged).eval()
    example = next(merged.parameters())
    for name, (mean, std) in goals.items():
        norm = nn.BatchNorm2d(len(mean)).to(example.device, example.dtype)
        with torch.no_grad():
            norm.bias.copy_(mean)
            norm.weight.copy_(std)
        parent, _, child = name.rpartition(".")
        setattr(merged.get_submodule(parent), child, Renormalized(merged.get_submodule(name), norm))
    return reset_batch_norms(merged, data, **options)


@checked
def repair_closed_form(
    merged: nn.Module,
    models: Sequence[nn.Module],
    data: Images,
    *,
    graph: ChannelGraph,
    correlations: Mapping[str, Tensor],
    batch_size: Positive = 200,
    max_images: Positive | None = None,
) -> nn.Module:
    """REPAIR of the average of two networks without batch norms, without running the merged network.

    The standard deviation of a merged unit is taken as √(¼σ₀² + ¼σ₁² + ½σ₀σ₁r), where r is the correlation of the
    matched units (approximated by the one after the nonlinearity).

    Args:
        merged: the average of the two networks.
        models: the two networks, with matched channels.
        data: images distributed as in training.
        graph: the channel graph.
        correlations: the correlations of the matched channels of each group, as in ``Matching.correlations[1]``.
        batch_size: images per batch, for data given as one tensor.
        max_images: the maximum number of images to use.
    """
    if batch_norms(merged) or len(models) != 2:
        raise InputError(
            "repair_closed_form",
            expected="two networks without batch norms",
            got=f"{len(models)} networks" if len(models) != 2 else "batch norms",
            fix="Use repair.",
        )
    merged = copy.deepcopy(merged).eval()
    names = [n for n in filter_layers(merged, data) if f"{n}.weight" in graph.axes]
    stats = [channel_statistics(m, data, names, batch_size=batch_size, max_images=max_images) for m in models]
    for name in names:
        module = merged.get_submodule(name)
        axis = 1 if isinstance(module, nn.ConvTranspose2d) else 0
        r = torch.cat(
            [
                correlations[graph.names[f.atom]].double().narrow(0, f.first, f.size)
                if f.atom is not None
                else torch.ones(f.size).double()
                for segment in graph.axes[f"{name}.weight"][axis]
                for f in segment
            ]
        )
        (m0, s0), (m1, s1) = stats[0][name], stats[1][name]
        if len(r) != len(s0):
            continue  # a layer with more structure, such as a channel multiplier
        expected = (s0**2 / 4 + s1**2 / 4 + s0 * s1 * r.to(s0) / 2).clamp_min(0).sqrt()
        scale = torch.where(expected > 1e-12, (s0 + s1) / 2 / expected.clamp_min(1e-12), torch.ones_like(expected))
        _scale(module, scale, (m0 + m1) / 2 * (1 - scale))
    return merged
