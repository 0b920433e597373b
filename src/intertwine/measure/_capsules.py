"""Do capsules roll as their input moves? Measures of latent sequences ``(sequences, time, capsules, length)``.

A capsule is equivariant if a step of the transformation rolls it by one place: Roll_δ(t_l) ≈ t_{l+δ}. Each measure has
a null, the same measure on latents that learned nothing: see :func:`capsule_null`. Much of what such measures show is
there without any learning, by the way in which neighbors share their variance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from .._checked import checked, describe
from ..errors import InputError
from ._estimate import Estimate
from ._metrics import define

define(
    "capsule_equivariance_error",
    "Σ_{l<l'} Σ_capsules ‖Roll_{l'−l}(t_l/‖t_l‖) − t_l'/‖t_l'‖‖₁",
    "",
    "lower",
    "how far capsules are from rolling with time; each capsule of each frame has norm 1",
)
define(
    "capsule_correlation",
    "correlation over sequences of the roll seen between two frames with the true step of a factor",
    "",
    "higher",
    "whether the roll of the capsules tells how far a factor has moved",
)


@checked
def capsule_equivariance_error(t: Tensor, *, centered: bool = False) -> Estimate:
    """E = Σ_{l<l'} Σ_c ‖Roll_{l'−l}(t̂_{l,c}) − t̂_{l',c}‖₁ for each sequence, t̂ with norm 1 in each capsule and frame.

    Args:
        t: ``(sequences, time, capsules, length)``.
        centered: take the mean off each capsule first. A large common value makes all capsules alike, and the error
            small whatever they do.

    For independent normal t and 15 frames, capsules and positions it is about 6936.

    >>> roll = torch.eye(5).view(1, 5, 1, 5)  # frame l has its one at position l
    >>> float(capsule_equivariance_error(roll))
    0.0
    """
    unit = _unit(t, centered)
    time, length = unit.shape[1], unit.shape[3]
    total = unit.new_zeros(len(unit))
    if time == length:
        # Pairs that are d apart, and pairs time − d apart the other way round, are the same set of differences.
        for d in range(1, time):
            moved = unit.roll((d, d), (1, 3))
            total += 0.5 * (moved - unit).abs().flatten(1).sum(1)
    else:
        for d in range(1, time):
            total += (unit[:, : time - d].roll(d, 3) - unit[:, d:]).abs().flatten(1).sum(1)
    return Estimate("capsule_equivariance_error", total.cpu())


@checked
def capsule_equivariance_error_by_pairs(t: Tensor, *, centered: bool = False) -> Estimate:
    """The same, pair by pair as it is written."""
    unit = _unit(t, centered)
    total = unit.new_zeros(len(unit))
    for first in range(unit.shape[1]):
        for second in range(first + 1, unit.shape[1]):
            moved = unit[:, first].roll(second - first, -1)
            total += (moved - unit[:, second]).abs().flatten(1).sum(1)
    return Estimate("capsule_equivariance_error", total.cpu())


def _unit(t: Tensor, centered: bool) -> Tensor:
    if t.ndim != 4:
        raise InputError(
            "capsule measure",
            expected="latents (sequences, time, capsules, length)",
            got=f"shape {tuple(t.shape)}",
            fix="View the latents as frames and capsules.",
        )
    if not bool(torch.isfinite(t).all()):
        raise InputError(
            "capsule measure", expected="finite latents", got="NaN or infinity", fix="Look at the encoder."
        )
    t = t.detach().double()
    if centered:
        t = t - t.mean(3, keepdim=True)
    return t / t.norm(dim=3, keepdim=True).clamp_min(1e-300)


Choice = Literal["published", "circular", "disjoint"]


@checked
def observed_roll(first: Tensor, second: Tensor) -> Tensor:
    """For each capsule the r with first ≈ Roll_r(second): the place of the largest circular correlation.

    >>> x = torch.rand(1, 7)
    >>> observed_roll(x.roll(3, -1), x)
    tensor([3])
    """
    if first.shape != second.shape or not first.ndim or first.is_complex():
        raise InputError(
            "observed_roll",
            expected="two real tensors of one shape (..., length)",
            got=f"{describe(first)}, {describe(second)}",
        )
    a, b = torch.fft.rfft(first.double()), torch.fft.rfft(second.double())
    return torch.fft.irfft(a * b.conj(), n=first.shape[-1]).argmax(-1)


@checked
def capsule_correlation(
    t: Tensor, factor: Tensor, *, variant: Choice = "published", shared: Callable[[int, int], bool] | None = None
) -> float:
    """CapCorr: does the roll between the first frame and the frame at which a factor is 0 tell the factor?

    For each sequence the capsules vote on the roll r between frame 0 and the frames where the moving factor is zero;
    the most frequent vote is the candidate, of several frames the candidate nearest to the truth is kept. The result is
    the correlation of candidates and true values over sequences.

    Args:
        t: ``(sequences, time, capsules, length)``.
        factor: ``(sequences, time)``, the moving factor's value as an integer, 0, 1, …, in each frame.
        variant: ``published`` as in the paper, with Pearson's correlation; ``circular`` with the correlation of angles
            2πr/length, which knows that the last place is beside the first; ``disjoint`` the published one on the
            sequences for which the two frames share no latent variable, so that nothing is compared with itself.
        shared: for ``disjoint``: whether two frames (l, l') have variables in common.

    References: Keller, Welling, *Topographic VAEs learn equivariant capsules*, 2021.
    """
    if t.ndim != 4 or t.shape[:2] != factor.shape:
        raise InputError(
            "capsule_correlation",
            expected="latents (sequences, time, capsules, length) and a factor (sequences, time)",
            got=f"{tuple(t.shape)} and {tuple(factor.shape)}",
        )
    candidates, truths = [], []
    for latents, values in zip(t, factor, strict=True):
        frames = [int(frame) for frame in (values == 0).nonzero()]
        if variant == "disjoint":
            if shared is None:
                raise InputError(
                    "capsule_correlation",
                    expected="shared=, which frames have variables in common",
                    got="none",
                    fix="For a topology: lambda a, b: bool(reach(a) & reach(b)).",
                )
            frames = [frame for frame in frames if frame and not shared(0, frame)]
        if frames:
            start = int(values[0])
            votes = [int(observed_roll(latents[0], latents[frame]).mode().values) for frame in frames]
            candidates.append(min(votes, key=lambda vote: abs(vote - start)))
            truths.append(start)
    found, true = torch.tensor(candidates).double(), torch.tensor(truths).double()
    if len(found) < 2:
        return float("nan")
    return _circular(found, true, t.shape[3]) if variant == "circular" else _pearson(found, true)


def _pearson(a: Tensor, b: Tensor) -> float:
    a, b = a - a.mean(), b - b.mean()
    size = float(a.norm() * b.norm())
    return float(a @ b) / size if size > 0 else float("nan")


def _circular(a: Tensor, b: Tensor, length: int) -> float:
    """The correlation of angles of Jammalamadaka and Sarma, from pairwise differences, which needs no mean angle."""
    a, b = (2 * torch.pi * x / length for x in (a, b))
    da, db = (torch.sin(x[:, None] - x[None]) for x in (a, b))
    size = float(da.norm() * db.norm())
    return float((da * db).sum()) / size if size > 0 else float("nan")


@checked
def capsule_null(
    measure: Callable[[Tensor], float],
    *,
    sample: Callable[[torch.Generator], Tensor],
    draws: int = 3,
    seed: int = 0,
) -> list[float]:
    """The measure on latents that learned nothing, some times.

    Args:
        measure: latents to a number.
        sample: draws latents from the prior, or from a network that was not trained.
        draws: how many times.
        seed: of the draws.

    >>> capsule_null(lambda t: float(t.mean()), sample=lambda g: torch.zeros(2, 3, 1, 3), draws=2)
    [0.0, 0.0]
    """
    return [float(measure(sample(torch.Generator().manual_seed(seed + k)))) for k in range(draws)]
