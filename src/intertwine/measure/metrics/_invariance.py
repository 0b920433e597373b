"""How much the output of a network changes when its input is transformed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..._checked import Positive, checked, describe
from ...errors import InputError
from .._batches import Fitting, Images, as_tensor, batches, measuring, require_finite
from .._estimate import Estimate, estimate
from .._symmetry import SymmetryLike
from .._transformation import Transformation, name_of, rank_of, transformations
from ._metric import define

define(
    "invariance_error",
    "‖Φ(x) − Φ(τx)‖ / (½‖Φ(x)‖ + ½‖Φ(τx)‖), mean over τ ≠ 1",
    "",
    "lower",
    "relative change of the output when the input is transformed; 0 for an invariant network, at most 2",
)
define(
    "agreement",
    "1 if argmax Φ(x) = argmax Φ(τx), else 0; mean over τ ≠ 1",
    "",
    "higher",
    "share of images whose predicted class survives the transformation",
)


@checked
def relative_difference(a: Tensor, b: Tensor) -> Tensor:
    """‖a − b‖ / (½‖a‖ + ½‖b‖) for each sample; 0 if both are zero.

    >>> relative_difference(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([1.4142, 0.0000], dtype=torch.float64)
    """
    if a.shape != b.shape or not a.ndim:
        raise InputError(
            "relative_difference",
            expected="two batches of the same shape",
            got=f"{tuple(a.shape)} and {tuple(b.shape)}",
        )
    a, b = (x.reshape(len(x), -1).double() for x in (a, b))
    size = 0.5 * (a.norm(dim=1) + b.norm(dim=1))
    return torch.where(size > 0, (a - b).norm(dim=1) / size.clamp_min(torch.finfo(torch.float64).tiny), 0.0)


@checked
def invariance_error(
    model: nn.Module,
    data: Images,
    symmetry: SymmetryLike | Transformation = "hflip",
    *,
    batch_size: Positive = 128,
    max_images: Positive | None = None,
) -> Estimate:
    """The invariance error e(x) = ‖Φ(x) − Φ(τx)‖ / (½‖Φ(x)‖ + ½‖Φ(τx)‖), averaged over images.

    Works with any module that maps images to one tensor. The norms are over all outputs of an image. If a
    transformation resamples, the estimate has a ``floor``: the same error with τ⁻¹τx instead of τx, which is how much
    the network reacts to resampling alone.

    Args:
        model: any network; it is measured in evaluation mode, and its mode is restored.
        data: images ``(n, c, h, w)``, or batches of images, or of images and labels; or signals, volumes, sets or
            vectors if the symmetry moves those.
        symmetry: a name (hflip, D4, C8, …), a space with its group, a field type, a :class:`Symmetry` or one
            :class:`Transformation`.
        batch_size: images per batch, for data given as one tensor; halved when memory runs out.
        max_images: the maximum number of images to use.

    References: Bökman, Kahl, *Investigating how ReLU-networks encode symmetries*, 2023, section 4.

    >>> mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> invariance_error(mean, torch.rand(4, 3, 8, 8, dtype=torch.float64)).mean < 1e-12
    True
    >>> invariance_error(nn.Flatten(), torch.rand(4, 3, 8, 8)).mean > 0.1
    True
    """
    return _measured("invariance_error", relative_difference, model, data, symmetry, batch_size, max_images)


@checked
def agreement(
    model: nn.Module,
    data: Images,
    symmetry: SymmetryLike | Transformation = "hflip",
    *,
    batch_size: Positive = 128,
    max_images: Positive | None = None,
) -> Estimate:
    """The share of images whose predicted class stays the same; arguments as for :func:`invariance_error`.

    >>> mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> agreement(mean, torch.rand(4, 3, 8, 8)).mean
    1.0
    """
    return _measured("agreement", same_class, model, data, symmetry, batch_size, max_images)


def same_class(a: Tensor, b: Tensor) -> Tensor:
    """For each sample 1 if the highest of the scores ``(n, classes)`` is the same in a and b, else 0."""
    if a.ndim != 2:
        raise InputError(
            "agreement",
            expected="class scores (n, classes)",
            got=f"shape {tuple(a.shape)}",
            fix="For outputs that are images, use equivariance_error.",
        )
    return (a.argmax(1) == b.argmax(1)).double()


def _measured(
    metric: str,
    compare: Callable[[Tensor, Tensor], Tensor],
    model: nn.Module,
    data: Images,
    symmetry: SymmetryLike | Transformation,
    batch_size: int,
    max_images: Positive | None,
) -> Estimate:
    maps = transformations(symmetry)
    resampled = [t for t in maps if not t.exact and t.inverse is not None]
    values: list[Tensor] = []
    floors: list[Tensor] = []
    with measuring(model) as device:

        def run(x: Tensor) -> tuple[Tensor, Tensor | None]:
            def out(images: Tensor) -> Tensor:
                return require_finite(as_tensor(model(images), caller=metric), caller=metric)

            base = out(x)
            value = torch.stack([compare(base, out(t(x))) for t in maps]).mean(0)
            if not resampled:
                return value, None
            back = [compare(base, out(t.inverse(t(x)))) for t in resampled if t.inverse is not None]
            return value, torch.stack(back).mean(0)

        fit = Fitting(metric, device)
        for images, *_ in batches(
            data, caller=metric, batch_size=batch_size, max_images=max_images, rank=rank_of(symmetry)
        ):
            for value, floor in fit(run, images):
                values.append(value)
                if floor is not None:
                    floors.append(floor)
    return estimate(metric, values, floor=floors or None, of=name_of(symmetry))


@checked
def invariance_loss(
    model: Callable[[Tensor], Tensor],
    x: Tensor,
    symmetry: SymmetryLike | Transformation = "hflip",
    *,
    base: Tensor | None = None,
) -> Tensor:
    """‖Φ(x) − Φ(τx)‖, mean over the batch and over τ ≠ 1: add it to the loss to train an invariant network.

    Gradients flow through both branches. Where both outputs are equal the norm has no derivative; it is taken as 0.

    Args:
        model: any network.
        x: a batch of images.
        symmetry: as for :func:`invariance_error`.
        base: Φ(x), if it is already computed.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    >>> invariance_loss(net, torch.rand(5, 3, 2, 2)).backward()
    """
    if x.ndim < 2 or not x.is_floating_point():
        raise InputError("invariance_loss", expected="a batch of floating point images", got=describe(x))
    base = as_tensor(model(x) if base is None else base, caller="invariance_loss")
    moved = [as_tensor(model(t(x)), caller="invariance_loss") for t in transformations(symmetry)]
    if moved[0].shape != base.shape:
        raise InputError(
            "invariance_loss",
            expected=f"outputs of the same shape, {tuple(moved[0].shape)}",
            got=f"{tuple(base.shape)}",
            fix="Leave out base=, or pass the output for x.",
        )
    return torch.stack([_safe_norm(base - other).mean() for other in moved]).mean()


def _safe_norm(difference: Tensor) -> Tensor:
    """The norm of each sample, with gradient 0 at 0."""
    squares = difference.flatten(1).square().sum(1)
    positive = squares > 0
    # The inner where keeps sqrt away from 0: its infinite derivative times 0 would be NaN, even where not selected.
    return torch.where(positive, torch.where(positive, squares, 1.0).sqrt(), 0.0)
