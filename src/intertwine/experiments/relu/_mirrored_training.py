"""Training commutes with mirroring: the argument behind conjecture 3.2 of Bökman & Kahl (2023), as a check."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..._checked import Positive, Vector, checked, describe
from ...errors import InputError
from ...measure import Symmetry, channel_graph, parse_symmetry
from ...measure.graph import transform_network
from ...spaces import FieldType, Space


@checked
def mirrored_training_gap(
    model: nn.Module,
    images: Tensor,
    labels: Vector,
    symmetry: str | Space | FieldType | Symmetry = "hflip",
    *,
    element: int = 1,
    mirrored: bool = True,
    lr: float = 0.05,
    momentum: float = 0.9,
    loss: Callable[[Tensor, Tensor], Tensor] = nn.functional.cross_entropy,
    batch_size: Positive = 32,
) -> tuple[float, float]:
    """Train Φ on batches x and the mirrored Φ̂ on batches τx; return how far Φ̂ ends up from the mirrored Φ.

    If every layer commutes with τ, the gradients at mirrored weights on mirrored images are the mirrored gradients, and
    the two networks stay mirror images of each other after every step. Both starts and both streams are equally likely,
    so training finds every solution as often as its mirror image.

    Args:
        model: a network for images; copies of it are trained.
        images: ``(n, channels, height, width)``.
        labels: ``(n,)``.
        symmetry: a name, a space with its group, a field type, or a :class:`Symmetry`.
        element: the element τ of the group.
        mirrored: whether the second network sees mirrored images. If not, the argument does not hold.
        lr: the learning rate of stochastic gradient descent.
        momentum: its momentum.
        loss: a function of outputs and labels.
        batch_size: images per step.

    Returns:
        The gap, and how far Φ itself moved from its start. Both are the maximum over parameters of
        ‖difference‖ / ‖value‖.

    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)).double()
    >>> x, labels = torch.randn(20, 1, 6, 6, dtype=torch.float64), torch.arange(20) % 3
    >>> gap, distance = mirrored_training_gap(net, x, labels, batch_size=5)
    >>> gap < 1e-13 < 1e-2 < distance
    True
    """
    if not (lr >= 0 and momentum >= 0):
        raise InputError(
            "mirrored_training_gap", expected="lr and momentum of 0 or more", got=f"lr={lr}, momentum={momentum}"
        )
    if images.ndim != 4 or not images.is_floating_point() or len(labels) != len(images):
        raise InputError(
            "mirrored_training_gap",
            expected="images (n, channels, height, width) of real numbers, and one label per image",
            got=f"{describe(images)} and {len(labels)} labels",
        )
    group = parse_symmetry(symmetry)
    shape = tuple(images.shape[1:])
    graph = channel_graph(copy.deepcopy(model).eval(), shape)

    def mirror(network: nn.Module) -> nn.Module:
        return transform_network(network, group, element, input_shape=shape, graph=graph)

    first, second = copy.deepcopy(model), mirror(model)
    optimizers = [torch.optim.SGD(net.parameters(), lr=lr, momentum=momentum) for net in (first, second)]
    for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
        moved = group.apply(element, x) if mirrored else x
        for net, batch, optimizer in zip((first, second), (x, moved), optimizers, strict=True):
            optimizer.zero_grad()
            loss(net(batch), y).backward()
            optimizer.step()
    return _distance(second, mirror(first)), _distance(first, model)


@torch.no_grad()
def _distance(a: nn.Module, b: nn.Module) -> float:
    """The maximum over parameters of ‖a − b‖ / ‖b‖."""
    pairs = zip(a.parameters(), b.parameters(), strict=True)
    return max(float((p - q).norm() / q.norm().clamp_min(1e-300)) for p, q in pairs)
