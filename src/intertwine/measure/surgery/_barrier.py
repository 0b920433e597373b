"""How much accuracy is lost halfway between two networks, or between a network and its mirror image."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked
from ...errors import InputError
from .._batches import Fitting, Images, as_tensor, batches, measuring
from .._estimate import TAILS, resampled_means
from .._symmetry import SymmetryLike
from ..graph._channel_graph import module_of
from ..graph._permute import axis_index, full_state, permuted_state, with_state
from ..graph._transform import transformed_state
from ..matching._match import Matching, match
from ._merge import batch_norms, merge, reset_batch_norms, with_batch_norms
from ._repair import Statistics, channel_axis, restored, restored_layers, statistics

Score = Callable[[nn.Module], float]


@checked
@dataclass(frozen=True)
class Barrier:
    """Scores (higher is better) of two networks and of their average.

    Attributes:
        first: the score of the first network.
        second: the score of the second network.
        merged: the score of their average.
        interval: the 95 % interval of the relative barrier, from resampling the images; None without images.

    >>> b = Barrier(0.761, 0.746, 0.725)
    >>> round(b.absolute, 4), round(b.relative, 3)
    (0.0285, 0.038)
    """

    first: float
    second: float
    merged: float
    interval: tuple[float, float] | None = None

    @property
    def absolute(self) -> float:
        """½(ζ₁ + ζ₂) − ζ(½(θ₁ + θ₂)): 0 if nothing is lost, negative if the average is better."""
        return (self.first + self.second) / 2 - self.merged

    @property
    def relative(self) -> float:
        """The absolute barrier divided by the mean score of the two networks."""
        mean = (self.first + self.second) / 2
        return self.absolute / mean if mean else float("nan")

    @staticmethod
    def of_hits(first: Tensor, second: Tensor, merged: Tensor) -> Barrier:
        """The barrier and its interval, from whether each network is right on each image (1 or 0).

        >>> Barrier.of_hits(torch.ones(50), torch.ones(50), torch.arange(50) % 2.0)
        Barrier(first=1.0, second=1.0, merged=0.5, interval=(0.36..., 0.62...))
        """
        hits = torch.stack([first, second, merged]).double()
        # The same images for all three networks, so that what is hard for all of them cancels.
        a, b, m = resampled_means(hits).T
        relative = 1 - m / ((a + b) / 2)
        ends = relative[relative.isfinite()]
        low, high = ends.quantile(TAILS).tolist() if len(ends) else (math.nan, math.nan)
        means = [float(each.mean()) for each in hits]
        return Barrier(means[0], means[1], means[2], (low, high) if len(first) > 1 and len(ends) else None)


@checked
def accuracy(model: nn.Module, data: Images, *, batch_size: Positive = 500) -> float:
    """The fraction of images whose label has the highest score.

    >>> images, labels = torch.eye(3).view(3, 1, 1, 3), torch.arange(3)
    >>> accuracy(nn.Flatten(), (images, labels))
    1.0
    """
    return float(hits(model, data, batch_size=batch_size).double().mean())


def hits(model: nn.Module, data: Images, *, batch_size: Positive = 500) -> Tensor:
    """For each image whether its label has the highest score."""
    right: list[Tensor] = []
    with measuring(model) as device:

        def hit(x: Tensor, labels: Tensor) -> Tensor:
            out = as_tensor(model(x), caller="accuracy")
            if out.ndim != 2:
                raise InputError(
                    "accuracy",
                    expected="class scores (n, classes)",
                    got=f"shape {tuple(out.shape)}",
                    fix="For outputs that are images, use equivariance_error.",
                )
            return (out.argmax(1) == labels).cpu()

        fit = Fitting("accuracy", device)
        for batch in batches(data, caller="accuracy", batch_size=batch_size):
            if len(batch) < 2:
                raise InputError(
                    "accuracy", expected="images and labels", got="images only", fix="Give (images, labels)."
                )
            right += fit(hit, *batch)
    return torch.cat(right)


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
        untouched: the barrier of the plain average, with its batch norms averaged too; None if it was not asked for.
        after_reset: as ``plain``, against both networks with recomputed batch norms too. It leaves out what recomputing
            does to any network. None without batch norms.
        unmatched: the control: as ``repaired``, with every channel as its own partner; None if it was not asked for.
        matching: the matching that was used.
    """

    plain: Barrier
    repaired: Barrier
    untouched: Barrier | None
    after_reset: Barrier | None
    unmatched: Barrier | None
    matching: Matching

    @property
    def reset(self) -> tuple[float, float] | None:
        """The scores of both networks with recomputed batch norms; None without batch norms."""
        return None if self.after_reset is None else (self.after_reset.first, self.after_reset.second)


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
    control: bool = True,
    untouched: bool = True,
    right: Tensor | None = None,
) -> GcnnBarrier:
    """The barrier between Φ and Φ̂, the network with moved filters and matched channels: 0 for a GCNN.

    Args:
        model: the network Φ.
        data: training images, for matching and statistics.
        symmetry: a name, a space with its group, or a :class:`Symmetry`.
        test: other images, with labels, for the accuracy. On the images that the matching has seen, the barrier comes
            out too small.
        element: the element of the group.
        matching: a matching, if it is already computed.
        constrained: whether the matching must be a representation; the paper's is not.
        batch_size: images per batch, for data given as one tensor.
        max_images: the maximum number of images to use.
        score: another score than the accuracy; higher is better. The barriers then have no intervals.
        control: whether to compute the barrier with every channel as its own partner too.
        untouched: whether to compute the barrier of the plain average too.
        right: whether Φ is right on each test image, if that is already known.

    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    >>> images, test, labels = torch.randn(20, 1, 6, 6), torch.randn(20, 1, 6, 6), torch.arange(20) % 2
    >>> result = gcnn_barrier(net, images, "hflip", (test, labels))
    >>> result.repaired.first == accuracy(net, (test, labels))
    True
    """
    options: dict[str, Any] = {"batch_size": batch_size, "max_images": max_images}
    matching = matching or match(model, data, symmetry, constrained=constrained, **options)
    other = moved_and_matched(model, matching, element)
    middle = merge([model, other])
    judge = _Judge(test, score, batch_size)
    ends = judge(model) if right is None else right.cpu(), judge(other)
    merged = judge(reset_batch_norms(middle, data, **options))
    # One pass per network serves REPAIR, with and without matching, and the reset.
    names = restored_layers(model, data, matching.graph.blocks)
    first, second = (statistics(each, data, names, **options) for each in (model, other))

    def repaired(average: nn.Module, copied: Statistics) -> Barrier:
        fixed = restored(average, [first, copied], data, names, shares=[0.5, 0.5], **options)
        return judge.barrier(*ends, judge(fixed))

    after_reset = unmatched = None
    if batch_norms(model):
        fresh = (judge(with_batch_norms(model, first.norms)), judge(with_batch_norms(other, second.norms)))
        after_reset = judge.barrier(*fresh, merged)
    if control:
        # Permuting channels preserves the function of the moved network, so the score of this end is the same.
        copy = moved_and_matched(model, _unmatched(matching), element)
        known = _without_matching(model, second, matching, element)
        unmatched = repaired(merge([model, copy]), known or statistics(copy, data, names, **options))
    return GcnnBarrier(
        plain=judge.barrier(*ends, merged),
        repaired=repaired(middle, second),
        untouched=judge.barrier(*ends, judge(middle) if batch_norms(model) else merged) if untouched else None,
        after_reset=after_reset,
        unmatched=unmatched,
        matching=matching,
    )


def _without_matching(model: nn.Module, seen: Statistics, matching: Matching, element: int) -> Statistics | None:
    """The statistics of the moved network from those of the moved and matched one, whose channels are permuted.

    None if a layer is not followed by the channel graph: then the moved network must run.
    """
    graph = matching.graph
    outputs = {module_of(node): node.name for node in graph.program.graph.nodes}  # the last node of each module
    channels = {}
    for name, each in seen.channels.items():
        label = graph.labels.get(outputs.get(name, ""), ())
        if len(label) < 2:
            return None
        axis = channel_axis(model.get_submodule(name), len(label))
        index = axis_index(graph, label[axis], matching.permutations[element])
        if index is not None and len(index) != len(each[0]):
            return None
        channels[name] = each if index is None else (each[0][index.argsort()], each[1][index.argsort()])
    return Statistics(channels, {})


def _unmatched(matching: Matching) -> Matching:
    """The same with every channel as its own partner."""
    still = {group.name: torch.arange(group.size) for group in matching.graph.groups}
    return replace(matching, permutations=dict.fromkeys(matching.permutations, still), method="identity")


@dataclass(frozen=True)
class _Judge:
    """Scores networks: by a function of the user, or by which test images they classify correctly."""

    test: Images
    score: Score | None
    batch_size: Positive

    def __call__(self, model: nn.Module) -> Tensor:
        if self.score is None:
            return hits(model, self.test, batch_size=self.batch_size)
        return torch.tensor(self.score(model), dtype=torch.float64)

    def barrier(self, first: Tensor, second: Tensor, merged: Tensor) -> Barrier:
        if self.score is None:
            return Barrier.of_hits(first, second, merged)
        return Barrier(float(first), float(second), float(merged))


@checked
def kernel_residuals(model: nn.Module, matching: Matching, *, element: int = 1) -> dict[str, float]:
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
def filter_pairs(model: nn.Module, matching: Matching, parameter: str, *, element: int = 1) -> tuple[Tensor, Tensor]:
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
