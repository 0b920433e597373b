"""Do capsules move with their input? Metrics of latent sequences ``(sequences, time, capsules, length)``.

The entries of a capsule are indexed by the elements of a group, and a time step multiplies it by rho(s), where rho is
the regular representation. Capsules are equivariant if rho(s)^δ t_l ≈ t_{l+δ}. By default the group is cyclic, and
rho(1) rolls a capsule by one entry.

Compare each metric with its null, the same metric on latents that learned nothing: see :func:`capsule_null`. Neighbors
share their variance, so much of what these metrics show is there without any learning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

from ..._checked import checked, describe
from ...errors import InputError
from ...groups import FiniteGroup
from .._estimate import Estimate
from ._capsule_motion import CapsuleMotion, capsule_group, only_generator
from ._metric import define

define(
    "capsule_equivariance_error",
    "Σ_{l<l'} Σ_capsules ‖rho(s)^(l'−l) t_l/‖t_l‖ − t_l'/‖t_l'‖‖₁",
    "",
    "lower",
    "how far capsules are from moving with time; each capsule of each frame has norm 1",
)
define(
    "capsule_correlation",
    "correlation over sequences of the roll seen between two frames with the true step of a factor",
    "",
    "higher",
    "whether the roll of the capsules tells how far a factor has moved",
)

Unit = Literal["capsule", "frame"]
Choice = Literal["published", "circular", "disjoint", "pairs"]


@checked
def capsule_equivariance_error(
    t: Tensor,
    *,
    unit: Unit = "capsule",
    centered: bool = False,
    group: FiniteGroup | str | None = None,
    moving: int | Tensor | None = None,
) -> Estimate:
    """E = Σ_{l<l'} Σ_c ‖rho(s)^(l'−l) t̂_{l,c} − t̂_{l',c}‖₁ for each sequence, t̂ with norm 1 in each capsule and frame.

    Args:
        t: ``(sequences, time, capsules, length)``.
        unit: what has norm 1: each ``capsule`` of each frame, as in the published code and its numbers; or all capsules
            of a ``frame`` together, as the published equation reads.
        centered: subtract the mean of each capsule first. A large common value makes all capsules look alike, and the
            error small whatever they do.
        group: the group whose elements index the entries of a capsule, or its name; cyclic by default.
        moving: s, the element by which a time step moves capsules, for all sequences or one per sequence; by default
            the generator, if there is only one.

    For independent normal t with 18 frames, capsules and entries it is about 13275, and 3108 with frames as units.

    >>> roll = torch.eye(5).view(1, 5, 1, 5)  # frame l has its one at position l
    >>> float(capsule_equivariance_error(roll))
    0.0
    >>> still = torch.eye(6).view(1, 6, 1, 6)[:, :3]  # in C2 x C3 the element 1 goes round 0, 1, 2
    >>> float(capsule_equivariance_error(still, group="C2 x C3", moving=1))
    0.0
    """
    units = _units(t, unit, centered)
    motion = CapsuleMotion.of("capsule_equivariance_error", units, group, moving)
    total = units.new_zeros(len(units))
    for d in range(1, units.shape[1]):
        total += (motion.moved(units[:, :-d], d) - units[:, d:]).abs().flatten(1).sum(1)
    return Estimate("capsule_equivariance_error", total.cpu())


@checked
def capsule_equivariance_error_by_pairs(
    t: Tensor,
    *,
    unit: Unit = "capsule",
    centered: bool = False,
    group: FiniteGroup | str | None = None,
    moving: int | Tensor | None = None,
) -> Estimate:
    """The same, computed pair by pair from the definition: the reference for the fast version."""
    units = _units(t, unit, centered)
    motion = CapsuleMotion.of("capsule_equivariance_error", units, group, moving)
    totals = []
    for sequence, s in zip(units, motion.moving.tolist(), strict=True):
        total = units.new_zeros(())
        for first in range(len(sequence)):
            moved = sequence[first]
            for second in range(first + 1, len(sequence)):
                moved = torch.empty_like(moved).index_copy_(-1, motion.group.table[s].to(moved.device), moved)
                total += (moved - sequence[second]).abs().sum()
        totals.append(total)
    return Estimate("capsule_equivariance_error", torch.stack(totals).cpu())


def _units(t: Tensor, unit: Unit, centered: bool) -> Tensor:
    if t.ndim != 4:
        raise InputError(
            "capsule metric", expected="latents (sequences, time, capsules, length)", got=f"shape {tuple(t.shape)}"
        )
    if not bool(torch.isfinite(t).all()):
        raise InputError("capsule metric", expected="finite latents", got="NaN or infinity", fix="Check the encoder.")
    t = t.detach().double()
    if centered:
        t = t - t.mean(3, keepdim=True)
    dims = 3 if unit == "capsule" else (2, 3)
    return t / t.norm(dim=dims, keepdim=True).clamp_min(1e-300)


@checked
def observed_roll(
    first: Tensor, second: Tensor, *, group: FiniteGroup | str | None = None, moving: int | None = None
) -> Tensor:
    """For each capsule the element g with first ≈ rho(g) second: the one with the largest inner product.

    Args:
        first: ``(..., length)``.
        second: the same shape.
        group: the group whose elements index the entries, or its name; cyclic by default, and rho(1) rolls.
        moving: s, to search only its powers; the result is then the k with first ≈ rho(s)^k second.

    >>> x = torch.rand(1, 7)
    >>> observed_roll(x.roll(3, -1), x)
    tensor([3])
    """
    if first.shape != second.shape or not first.ndim or first.is_complex():
        raise InputError(
            "observed_roll",
            expected="two real tensors of the same shape (..., length)",
            got=f"{describe(first)}, {describe(second)}",
        )
    a, b = first.double(), second.double()
    capsules = capsule_group("observed_roll", a.shape[-1], group)
    if moving is not None:
        return _observed_power(a, b, capsules.cycles(moving))
    if len(capsules.generators) < 2:
        cycles = capsules.cycles(only_generator("observed_roll", capsules))
        return cycles[0].to(a.device)[_observed_power(a, b, cycles)]
    return torch.einsum("...gx,...x->...g", a[..., capsules.table.to(a.device)], b).argmax(-1)


def _observed_power(first: Tensor, second: Tensor, cycles: Tensor) -> Tensor:
    """The k with first ≈ rho(s)^k second."""
    # Along each cycle of s this is a circular correlation, so one FFT tries all k at once; the cycles add up.
    a, b = (torch.fft.rfft(x[..., cycles.to(x.device)]) for x in (first, second))
    return torch.fft.irfft((a * b.conj()).sum(-2), n=cycles.shape[1]).argmax(-1)


@checked
def capsule_correlation(
    t: Tensor,
    factor: Tensor,
    *,
    variant: Choice = "published",
    shared: Callable[[int, int], bool] | None = None,
    group: FiniteGroup | str | None = None,
    moving: int | Tensor | None = None,
) -> float:
    """CapCorr: does the roll between the first frame and the frame where a factor is 0 reveal the factor?

    In each sequence the capsules vote on the power r with t_0 ≈ rho(s)^r t_l, for the frames l where the moving factor
    is zero. The most frequent vote is the candidate; if there are several such frames, the candidate nearest to the
    truth counts. The result is the correlation between candidates and true values over sequences.

    Args:
        t: ``(sequences, time, capsules, length)``.
        factor: ``(sequences, time)``, the value of the moving factor in each frame: an integer 0, 1, …
        variant: ``published``: Pearson's correlation, as in the paper. ``circular``: the correlation of the angles
            2πr/n, where n is the order of s; it treats the last entry as a neighbor of the first. ``disjoint``: the
            published one, only on sequences whose two frames share no latent variable, so that nothing is compared with
            itself. ``pairs``: our reading of the published equation, over all pairs of frames l < l' of all sequences:
            the vote r with t_l' ≈ rho(s)^r t_l against the number of steps from l to l'.
        shared: for ``disjoint``: whether two frames (l, l') share latent variables.
        group: the group whose elements index the entries of a capsule, or its name; cyclic by default.
        moving: s, the element by which a step of the factor moves capsules, for all sequences or one per sequence; by
            default the generator, if there is only one. For ``circular``, all elements must have the same order.

    References: Keller, Welling, *Topographic VAEs learn equivariant capsules*, 2021.
    """
    if t.ndim != 4 or t.shape[:2] != factor.shape:
        raise InputError(
            "capsule_correlation",
            expected="latents (sequences, time, capsules, length) and a factor (sequences, time)",
            got=f"{tuple(t.shape)} and {tuple(factor.shape)}",
        )
    motion = CapsuleMotion.of("capsule_correlation", t, group, moving)
    cycles = {s: motion.group.cycles(s) for s in motion.moving.unique().tolist()}
    t = t.double()
    if variant == "pairs":
        return _correlation_over_pairs(t, motion, cycles)
    candidates, truths = [], []
    for latents, values, s in zip(t, factor, motion.moving.tolist(), strict=True):
        frames = [int(frame) for frame in (values == 0).nonzero()]
        if variant == "disjoint":
            if shared is None:
                raise InputError(
                    "capsule_correlation",
                    expected="shared=, which says whether two frames share variables",
                    got="none",
                    fix="For a topology: lambda a, b: bool(reach(a) & reach(b)).",
                )
            frames = [frame for frame in frames if frame and not shared(0, frame)]
        if frames:
            start = int(values[0])
            rolls = [_observed_power(latents[0], latents[frame], cycles[s]) for frame in frames]
            votes = [int(roll.mode().values) for roll in rolls]
            candidates.append(min(votes, key=lambda vote: abs(vote - start)))
            truths.append(start)
    matching, true = torch.tensor(candidates).double(), torch.tensor(truths).double()
    if len(matching) < 2:
        return float("nan")
    return _circular(matching, true, _common_order(motion)) if variant == "circular" else _pearson(matching, true)


def _correlation_over_pairs(t: Tensor, motion: CapsuleMotion, cycles: Mapping[int, Tensor]) -> float:
    votes, steps = [], []
    for latents, s in zip(t, motion.moving.tolist(), strict=True):
        for d in range(1, len(latents)):
            rolls = _observed_power(latents[d:], latents[:-d], cycles[s])
            votes.append(rolls.mode(1).values)
            steps.append(torch.full_like(votes[-1], d % cycles[s].shape[1]))
    return _pearson(torch.cat(votes).double(), torch.cat(steps).double()) if votes else float("nan")


def _common_order(motion: CapsuleMotion) -> int:
    orders = motion.group.element_orders[motion.moving].unique().tolist()
    if len(orders) > 1:
        raise InputError(
            "capsule_correlation",
            expected="elements of the same order for the correlation of angles",
            got=f"orders {', '.join(map(str, orders))}",
            fix="Measure the sequences of each element separately.",
        )
    return int(orders[0])


def _pearson(a: Tensor, b: Tensor) -> float:
    a, b = a - a.mean(), b - b.mean()
    size = float(a.norm() * b.norm())
    return float(a @ b) / size if size > 0 else float("nan")


def _circular(a: Tensor, b: Tensor, length: int) -> float:
    """The circular correlation of Jammalamadaka and Sarma, from pairwise differences, so no mean angle is needed."""
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
    """A metric evaluated on latents that learned nothing, once per draw.

    Args:
        measure: maps latents to a number.
        sample: draws latents from the prior, or from an untrained network.
        draws: the number of draws.
        seed: the seed of the first draw.

    >>> capsule_null(lambda t: float(t.mean()), sample=lambda g: torch.zeros(2, 3, 1, 3), draws=2)
    [0.0, 0.0]
    """
    return [float(measure(sample(torch.Generator().manual_seed(seed + k)))) for k in range(draws)]
