"""A penalty on sampled kernels, for layers whose kernel is a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from ..._checked import checked
from ._soft_layer import KernelLayer


@checked
@contextmanager
def kernel_norms(model: nn.Module) -> Iterator[list[Tensor]]:
    """Collect ‖k‖₂ of the sampled kernel of each soft or partial layer while the model runs inside the block.

    The norm is over the taps inside the support, the samples of input and output, and the channels. For a
    position-dependent kernel it is the root mean square over positions, so ω' = 0 gives the norm of the strict layer.
    Gradients flow through it. Layers that use a kept kernel in evaluation contribute nothing.

    >>> import torch
    >>> from intertwine.relaxed import SoftGroupConv2d
    >>> layer = SoftGroupConv2d(3, 4, samples=4, lifting=True)
    >>> with kernel_norms(layer) as norms:
    ...     loss = layer(torch.randn(2, 3, 9, 9)).square().mean()
    >>> (loss + 1e-4 * sum(norms)).backward()
    >>> len(norms)
    1
    """
    norms: list[Tensor] = []
    layers = [module for module in model.modules() if isinstance(module, KernelLayer)]
    for layer in layers:
        layer._norms = norms
    try:
        yield norms
    finally:
        for layer in layers:
            layer._norms = None
