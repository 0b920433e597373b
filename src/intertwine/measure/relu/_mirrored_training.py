"""Training commutes with mirroring: the argument behind conjecture 3.2 of Bökman & Kahl (2023), as a check."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ...errors import InputError
from .._batches import Images, as_tensor, batches
from .._symmetry import SymmetryLike, parse_symmetry
from ..graph._channel_graph import channel_graph
from ..graph._permute import full_state
from ..graph._transform import transform_network, transformed_state


@checked
def mirrored_training_gap(
    model: nn.Module,
    data: Images,
    symmetry: SymmetryLike = "hflip",
    *,
    element: int = 1,
    mirrored: bool = True,
    lr: float = 0.05,
    momentum: float = 0.9,
    loss: Callable[[Tensor, Tensor], Tensor] = nn.functional.cross_entropy,
    batch_size: Positive = 32,
) -> tuple[float, float]:
    """Train Φ on batches x and the moved Φ̂ on batches τx, and say how far Φ̂ then is from the moved Φ.

    If every layer commutes with τ, gradients at mirrored weights on mirrored images are mirrored, so that one is the
    mirror image of the other after every step. As both starts and both streams are equally likely, whatever training
    finds, it finds as often in the mirrored form: nothing prefers a network over its mirror image.

    Args:
        model: a network of images; a copy is trained.
        data: images and labels, one step for each batch.
        symmetry: a name, a space with its group, or a :class:`Symmetry`.
        element: the element τ of its group.
        mirrored: whether the second network sees mirrored images; if not, the argument does not hold.
        lr: of stochastic gradient descent.
        momentum: the same.
        loss: of outputs and labels.
        batch_size: for data given as one pair of tensors.

    Returns:
        The gap, and how far Φ itself moved from its start; both the largest over parameters of ‖difference‖ / ‖value‖.

    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)).double()
    >>> x, labels = torch.randn(20, 1, 6, 6, dtype=torch.float64), torch.arange(20) % 3
    >>> gap, way = mirrored_training_gap(net, (x, labels), batch_size=5)
    >>> gap < 1e-13 < 1e-2 < way
    True
    """
    if not (lr >= 0 and momentum >= 0):
        raise InputError(
            "mirrored_training_gap", expected="lr and momentum of 0 or more", got=f"lr={lr}, momentum={momentum}"
        )
    group = parse_symmetry(symmetry)
    shape = tuple(next(iter(batches(data, caller="mirrored_training_gap")))[0].shape[1:])
    graph = channel_graph(copy.deepcopy(model).eval(), shape)
    pair = [copy.deepcopy(model), transform_network(model, group, element, input_shape=shape, graph=graph)]
    optimizers = [torch.optim.SGD(m.parameters(), lr=lr, momentum=momentum) for m in pair]
    for batch in batches(data, caller="mirrored_training_gap", batch_size=batch_size):
        if len(batch) < 2:
            raise InputError(
                "mirrored_training_gap", expected="images and labels", got="images only", fix="Give (images, labels)."
            )
        x, labels = batch
        for m, images, optimizer in zip(pair, (x, group.apply(element, x) if mirrored else x), optimizers, strict=True):
            optimizer.zero_grad()
            loss(as_tensor(m(images), caller="mirrored_training_gap"), labels).backward()
            optimizer.step()
    with torch.no_grad():
        wanted = transformed_state(graph, full_state(pair[0]), group, element, shape)
        names = [name for name, _ in model.named_parameters()]
        start, end, other = full_state(model), full_state(pair[0]), full_state(pair[1])
        return (
            max(_relative(other[name], wanted[name]) for name in names),
            max(_relative(end[name], start[name]) for name in names),
        )


def _relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm().clamp_min(1e-300))
