"""Numerics shared by all packages: tolerances, the memory guard, and bases for the range of a projector."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from .errors import IntertwineError, SizeLimitError

LAW_TOLERANCE = 1e-10
"""A law (homomorphism, cocycle, kernel constraint) counts as satisfied if its residual is at most this."""

RANK_TOLERANCE = 1e-6
"""A projected unit vector counts as zero if its squared length is at most this. Projectors have spectrum {0, 1}, so
squared lengths are either as small as rounding errors or far above this."""

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def memory_limit() -> int:
    """Maximum size of a single result in bytes: ``INTERTWINE_MEMORY_LIMIT`` (such as ``4G``), else half of all memory.

    >>> memory_limit() > 0
    True
    """
    text = os.environ.get("INTERTWINE_MEMORY_LIMIT", "").strip().upper().removesuffix("B")
    if text:
        unit = text[-1] if text[-1] in "KMG" else ""
        return int(float(text.removesuffix(unit)) * _UNITS[unit])
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return 8 * 2**30


def require_memory(elements: int, *, caller: str, what: str, fix: str, itemsize: int = 8) -> None:
    """Raise an error if ``elements`` numbers would not fit in memory, before anything is allocated."""
    size, limit = elements * itemsize, memory_limit()
    if size > limit:
        raise SizeLimitError(
            caller,
            expected=f"a result of at most {_readable(limit)}",
            got=f"{what}, which needs {_readable(size)}",
            fix=f"{fix} (INTERTWINE_MEMORY_LIMIT sets the limit.)",
        )


def _readable(size: int) -> str:
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1024:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} TB"


def projector_range(projector: Tensor) -> Tensor:
    """Orthonormal basis, as rows, of the range of an orthogonal projector.

    The basis vectors are the projections of the coordinate vectors, taken in order and orthogonalized. This rule has
    no ties or arbitrary signs, so two machines agree on the basis up to rounding. Subtracting v vᵀ, for a unit vector
    v in the range, leaves a projector, whose diagonal holds the squared lengths that remain.

    >>> projector_range(torch.full((2, 2), 0.5, dtype=torch.float64))
    tensor([[0.7071, 0.7071]], dtype=torch.float64)
    """
    rest = projector.clone()
    vectors: list[Tensor] = []
    for k in range(rest.shape[0]):
        if rest[k, k] <= RANK_TOLERANCE:
            continue
        v = rest[:, k].clone()
        if vectors:  # a second pass keeps vectors orthogonal to rounding, even after a short vector was normalized
            basis = torch.stack(vectors)
            v -= basis.T @ (basis @ v)
        v /= torch.linalg.vector_norm(v)
        vectors.append(v)
        rest -= torch.outer(v, v)
    return torch.stack(vectors) if vectors else rest.new_zeros((0, rest.shape[0]))


_MEMORY = (
    "out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory", "alloc_failed",
    "failed to allocate", "bad_alloc", "bad allocation",
)  # fmt: skip


def is_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out. Torch has no single class for this on all devices."""
    if isinstance(error, IntertwineError):
        return False
    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(words in text for words in _MEMORY)
