"""The filter of a layer in evaluation, kept until a weight changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Expanded = tuple[Tensor, Tensor | None]


class CachedFilter:
    """Keeps what ``expand`` returned, and makes it anew when a weight was changed, replaced, moved or cast.

    A change is seen by the tensor's address and version counter. In-place changes through ``weight.data`` count in
    neither, so on the CPU the weights are compared as well: they are several times smaller than the filter. The copy
    is no part of the layer's state: it is neither saved nor copied.
    """

    def __init__(self) -> None:
        self._stamp: tuple[object, ...] | None = None
        self._weights: list[Tensor] = []
        self._kept: Expanded | None = None

    def get(self, expand: Callable[[], Expanded], weights: Sequence[Tensor]) -> Expanded:
        """The filter and bias; made with gradients where a gradient could be wanted."""
        if torch.compiler.is_compiling():
            return expand()
        if torch.is_grad_enabled() and any(weight.requires_grad for weight in weights):
            return expand()
        stamp = _stamp(weights)
        if stamp is None:
            return expand()
        if self._kept is None or stamp != self._stamp or not self._same(weights):
            # A tensor made under inference_mode could not be used for gradients of the input later.
            with torch.inference_mode(False), torch.no_grad():
                self._kept = expand()
                self._weights = [weight.detach().clone() for weight in weights if weight.device.type == "cpu"]
            self._stamp = stamp
        return self._kept

    def _same(self, weights: Sequence[Tensor]) -> bool:
        return all(torch.equal(a, b) for a, b in zip(self._weights, weights, strict=False))

    def forget(self) -> None:
        """Drop the filter."""
        self._stamp, self._weights, self._kept = None, [], None

    def __deepcopy__(self, memo: dict[int, object]) -> CachedFilter:
        return CachedFilter()

    def __reduce__(self) -> tuple[type[CachedFilter], tuple[()]]:
        return CachedFilter, ()


def _stamp(weights: Sequence[Tensor]) -> tuple[object, ...] | None:
    """What changes with the weights; None for tensors without address or version (functional transforms)."""
    try:
        return tuple((w.data_ptr(), w._version, w.dtype, w.device) for w in weights)
    except RuntimeError:
        return None
