"""How much accuracy is lost halfway between two networks, or between a network and its mirror image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ...errors import InputError
from .._batches import Fitting, Images, as_tensor, batches, measuring
from .._symmetry import SymmetryLike
from ..graph._permute import full_state, permuted_state, with_state
from ..graph._transform import transformed_state
from ..matching._match import Matching, match
from ._merge import merge, reset_batch_norms
from ._repair import repair

Score = Callable[[nn.Module], float]


@checked
@dataclass(frozen=True)
class Barrier:
    """Scores (higher is better) of two networks and of their average.

    >>> b = Barrier(0.761, 0.746, 0.725)
    >>> round(b.absolute, 4), round(b.relative, 3)
    (0.0285, 0.038)
    """

    first: float
    second: float
    merged: float

    @property
    def absolute(self) -> float:
        """½(ζ₁ + ζ₂) − ζ(½(θ₁ + θ₂)): 0 if nothing is lost, negative if the average is better."""
        return (self.first + self.second) / 2 - self.merged

    @property
    def relative(self) -> float:
        """The absolute barrier divided by the mean score of the two networks."""
        mean = (self.first + self.second) / 2
        return self.absolute / mean if mean else float("nan")


@checked
def accuracy(model: nn.Module, data: Images, *, batch_size: Positive = 500) -> float:
    """The fraction of images whose label has the highest score.

    >>> images, labels = torch.eye(3).view(3, 1, 1, 3), torch.arange(3)
    >>> accuracy(nn.Flatten(), (images, labels))
    1.0
    """
    right = count = 0
    with measuring(model) as device:

        def hits(x: Tensor, labels: Tensor) -> int:
            out = as_tensor(model(x), caller="accuracy")
            if out.ndim != 2:
                raise InputError(
                    "accuracy",
                    expected="class scores (n, classes)",
                    got=f"shape {tuple(out.shape)}",
                    fix="For outputs that are images, use equivariance_error.",
                )
            return int((out.argmax(1) == labels).sum())

        fit = Fitting("accuracy", device)
        for batch in batches(data, caller="accuracy", batch_size=batch_size):
            if len(batch) < 2:
                raise InputError(
                    "accuracy", expected="images and labels", got="images only", fix="Give (images, labels)."
                )
            right += sum(fit(hits, *batch))
            count += len(batch[0])
    return right / count


@checked
def barrier(
    first: nn.Module, second: nn.Module, score: Score, *, finish: Callable[[nn.Module], nn.Module] | None = None
) -> Barrier:
    """The barrier between two networks with matched channels: how far their average scores below the mean of the two.

    Args:
        first: a network.
        second: a network of the same architecture.
        score: maps a network to a score, such as its accuracy; higher is better.
        finish: applied to the average before it is scored, such as :func:`repair`.

    >>> a, b = nn.Linear(2, 1), nn.Linear(2, 1)
    >>> abs(barrier(a, b, lambda net: net.bias.item()).absolute) < 1e-6  # the score is linear in the weights
    True
    """
    middle = merge([first, second])
    return Barrier(score(first), score(second), score(finish(middle) if finish else middle))


@checked
def interpolation_curve(
    first: nn.Module,
    second: nn.Module,
    score: Score,
    *,
    points: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
    finish: Callable[[nn.Module], nn.Module] | None = None,
) -> list[tuple[float, float]]:
    """Scores on the line (1 − λ)θ₁ + λθ₂; at the ends, the networks are not changed by ``finish``."""
    curve = []
    for share in points:
        if share in (0.0, 1.0):
            curve.append((share, score(second if share else first)))
            continue
        middle = merge([first, second], weights=[1 - share, share])
        curve.append((share, score(finish(middle) if finish else middle)))
    return curve


@checked
@dataclass(frozen=True)
class GcnnBarrier:
    """The barrier between a network and the network with moved filters.

    Attributes:
        plain: the barrier without REPAIR, but with recomputed batch norms.
        repaired: the barrier after REPAIR.
        untouched: the barrier of the plain average, with its batch norms averaged too.
        reset: the scores of both networks with recomputed batch norms, to see what that alone does; None without batch
            norms.
        matching: the matching that was used.
    """

    plain: Barrier
    repaired: Barrier
    untouched: Barrier
    reset: tuple[float, float] | None
    matching: Matching


@checked
def moved_and_matched(model: nn.Module, matching: Matching, element: int) -> nn.Module:
    """The network with filters moved by τ_g and channels permuted to match the original network."""
    with torch.no_grad():
        state = transformed_state(matching.graph, full_state(model), matching.symmetry, element, matching.input_shape)
        return with_state(model, permuted_state(matching.graph, state, matching.permutations[element]))


@checked
def gcnn_barrier(
    model: nn.Module,
    data: Images,
    symmetry: SymmetryLike,
    test: Images,
    *,
    element: int = 1,
    matching: Matching | None = None,
    constrained: bool = False,
    batch_size: Positive = 200,
    max_images: Positive | None = None,
    score: Score | None = None,
) -> GcnnBarrier:
    """The barrier between Φ and Φ̂, the network with moved filters and matched channels: 0 for a GCNN.

    Args:
        model: the network Φ.
        data: training images, for matching and statistics.
        symmetry: a name, a space with its group, or a :class:`Symmetry`.
        test: images and labels for the accuracy.
        element: the element of the group.
        matching: a matching, if it is already computed.
        constrained: whether the matching must be a representation; the paper's is not.
        batch_size: images per batch, for data given as one tensor.
        max_images: the maximum number of images to use.
        score: another score than the accuracy; higher is better.

    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    >>> x, labels = torch.randn(20, 1, 6, 6), torch.arange(20) % 2
    >>> result = gcnn_barrier(net, x, "hflip", (x, labels))
    >>> result.repaired.first == accuracy(net, (x, labels))
    True
    """
    options: dict[str, Any] = {"batch_size": batch_size, "max_images": max_images}
    matching = matching or match(model, data, symmetry, constrained=constrained, **options)
    other = moved_and_matched(model, matching, element)
    rate: Score = score or (lambda m: accuracy(m, test))
    middle = merge([model, other])
    ends = rate(model), rate(other)
    reset = reset_batch_norms(middle, data, **options)
    fixed = repair(middle, [model, other], data, blocks=matching.graph.blocks, **options)
    has_norms = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())
    again = None
    if has_norms:
        again = tuple(rate(reset_batch_norms(m, data, **options)) for m in (model, other))
    return GcnnBarrier(
        plain=Barrier(*ends, rate(reset)),
        repaired=Barrier(*ends, rate(fixed)),
        untouched=Barrier(*ends, rate(middle)),
        reset=again,  # type: ignore[arg-type]
        matching=matching,
    )


@checked
def kernel_residuals(model: nn.Module, matching: Matching, element: int = 1) -> dict[str, float]:
    """For each parameter with two or more axes, ‖ψ − P τ(ψ) P'ᵀ‖ / ‖ψ‖: 0 if the kernel constraint holds."""
    state = {n: v.double() if v.is_floating_point() else v for n, v in full_state(model).items()}
    with torch.no_grad():
        moved = transformed_state(matching.graph, state, matching.symmetry, element, matching.input_shape)
        moved = permuted_state(matching.graph, moved, matching.permutations[element])
    return {
        name: float((state[name] - moved[name]).norm() / state[name].norm().clamp_min(1e-300))
        for name, p in model.named_parameters()
        if p.dim() > 1 and name in matching.graph.axes
    }


@checked
def filter_pairs(model: nn.Module, matching: Matching, parameter: str, element: int = 1) -> tuple[Tensor, Tensor]:
    """The filters of a layer, and the moved and matched filters in the same slots; they are equal in a GCNN.

    Args:
        model: the network.
        matching: its matching.
        parameter: the name of a weight, such as ``"0.weight"``.
        element: the element of the group.

    >>> from intertwine.measure import match
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    >>> first, second = filter_pairs(net, match(net, torch.randn(20, 1, 6, 6), "hflip"), "0.weight")
    >>> first.shape == second.shape
    True
    """
    state = full_state(model)
    with torch.no_grad():
        moved = transformed_state(matching.graph, state, matching.symmetry, element, matching.input_shape)
        moved = permuted_state(matching.graph, moved, matching.permutations[element])
    return state[parameter].clone(), moved[parameter]


@checked
def variance_collapse(
    merged: nn.Module,
    models: Sequence[nn.Module],
    data: Images,
    *,
    batch_size: Positive = 200,
    max_images: Positive | None = None,
) -> dict[str, float]:
    """For each hidden layer, the mean channel variance of the merged network divided by that of the original networks.

    Values below 1 that fall with depth mean that averaging destroys the signal.

    Args:
        merged: the average of the networks.
        models: the networks.
        data: images distributed as in training.
        batch_size: images per batch, for data given as one tensor.
        max_images: the maximum number of images to use.

    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    >>> variance_collapse(net, [net], torch.randn(20, 1, 6, 6))
    {'0': 1.0}
    """
    from ._repair import channel_statistics, filter_layers

    if not models:
        raise InputError("variance_collapse", expected="at least one network to compare with", got="none")
    with measuring(merged):
        names = filter_layers(merged, data)
        ours = channel_statistics(merged, data, names, batch_size=batch_size, max_images=max_images)
    others = []
    for m in models:
        with measuring(m):
            others.append(channel_statistics(m, data, names, batch_size=batch_size, max_images=max_images))
    return {
        name: float((ours[name][1] ** 2).mean() / torch.stack([(o[name][1] ** 2).mean() for o in others]).mean())
        for name in names
    }
