"""The norm of a sampled kernel, from its table and mixture, without building the kernel."""

from __future__ import annotations

from torch import Tensor


def sampled_norm(table: Tensor, mixture: Tensor, entries: int) -> Tensor:
    """‖k‖ of k = Σ_j h_j V_j over taps, samples and channels; the root mean square over positions if there are several.

    With the products G_ij = ⟨V_i, V_j⟩, ‖k‖² = Σ hᵀ G h, a sum over the table only.

    Args:
        table: h, ``(..., hidden + 1)``; axes that it does not depend on may have size 1.
        mixture: V, ``(hidden + 1, in_channels, out_channels)``.
        entries: the number of pairs of samples and taps at one position.

    >>> import torch
    >>> h, v = torch.rand(5, 3, dtype=torch.float64), torch.rand(3, 2, 4, dtype=torch.float64)
    >>> kernel = torch.einsum("tj,jco->tco", h, v)
    >>> torch.allclose(sampled_norm(h, v, 5), kernel.norm())
    True
    """
    flat = mixture.flatten(1)
    squares = ((table @ (flat @ flat.T)) * table).sum(-1).clamp_min(0)
    return (squares.mean() * entries).clamp_min(1e-30).sqrt()
