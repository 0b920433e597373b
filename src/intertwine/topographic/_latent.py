r"""Topographic Student-t variables, t = (z − μ) / √(W u² + ε), and exact samples from their prior."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._checked import Positive, checked
from ..errors import InputError
from ._topology import Topology


@checked
def student_t(z: Tensor, u: Tensor, topology: Topology, *, shift: Tensor | float = 0.0, eps: float = 1e-6) -> Tensor:
    """t = (z + shift) / √(W u² + ε) for tensors ``(batch, time, capsules, length)``.

    ``shift`` is −μ in the paper. A large positive shift makes t positive; its direction within a capsule is then that
    of (W u²)^(−½). Small u give large t.

    >>> from intertwine.topographic import stationary_topology
    >>> z, u = torch.zeros(1, 1, 1, 3), torch.ones(1, 1, 1, 3)
    >>> student_t(z, u, stationary_topology(1, 3), shift=3.0, eps=0.0)
    tensor([[[[1.7321, 1.7321, 1.7321]]]])
    """
    if z.shape != u.shape or z.ndim != 4:
        raise InputError(
            "student_t",
            expected="z and u of the same shape (batch, time, capsules, length)",
            got=f"{tuple(z.shape)} and {tuple(u.shape)}",
        )
    return (z + shift) / (topology.sums(u.square()) + eps).sqrt()


@checked
def student_t_moments(neighbors: Positive, *, shift: float = 0.0) -> tuple[float, float]:
    """The mean and the standard deviation of t = (z + shift) / √V under the prior.

    V is the sum of ``neighbors`` squares of standard normal variables. With fewer than three, t has no variance.

    >>> mean, deviation = student_t_moments(52, shift=30.0)
    >>> round(mean, 2), round(deviation, 2)
    (4.22, 0.45)
    """
    if neighbors < 3:
        raise InputError(
            "student_t_moments",
            expected="at least 3 neighbors",
            got=str(neighbors),
            fix="With fewer, t has no finite variance.",
        )
    inverse_root = math.exp(math.lgamma((neighbors - 1) / 2) - math.lgamma(neighbors / 2)) / math.sqrt(2)
    mean = shift * inverse_root
    return mean, math.sqrt((1 + shift**2) / (neighbors - 2) - mean**2)


@checked
def sample_topographic(
    topology: Topology,
    *,
    sequences: Positive,
    time: Positive,
    capsules: Positive,
    length: Positive,
    shift: float = 0.0,
    eps: float = 0.0,
    standard: bool = False,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Samples from the prior: z and u are standard normal, and t follows from :func:`student_t`.

    With ``standard``, each variable is scaled by √ν, where ν is the size of its neighborhood. For ``shift=0``, it then
    has exactly a Student-t distribution with ν degrees of freedom. Variables with common neighbors depend on each
    other.

    >>> from intertwine.topographic import shifting_topology
    >>> sample_topographic(shifting_topology(3), sequences=2, time=5, capsules=4, length=5).shape
    torch.Size([2, 5, 4, 5])
    """
    shape = sequences, time, capsules, length
    z, u = (torch.randn(shape, generator=generator, dtype=dtype) for _ in range(2))
    t = student_t(z, u, topology, shift=shift, eps=eps)
    if not standard:
        return t
    neighbors = topology.sums(torch.ones(sequences, time, 1, length, dtype=t.dtype))
    return t * neighbors.sqrt()
