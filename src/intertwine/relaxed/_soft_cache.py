"""What a layer computes from its weights alone, kept in evaluation until a weight changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Kept = tuple[Tensor, ...]


class TableCache:
    """Keeps the last result of ``make`` under its key; made anew when the key or a weight is another.

    A change is seen by address and version counter, and on the CPU, where changes through ``weight.data`` count in
    neither, by comparison as well. It is no part of the layer's state: neither saved nor copied.
    """

    def __init__(self) -> None:
        self._stamp: tuple[object, ...] | None = None
        self._weights: list[Tensor] = []
        self._kept: Kept | None = None

    def get(self, key: tuple[object, ...], weights: Sequence[Tensor], make: Callable[[], Kept]) -> Kept:
        """The result; made with gradients, and not kept, where a gradient could be wanted."""
        if torch.compiler.is_compiling() or torch.is_autocast_enabled(weights[0].device.type):
            return make()
        if torch.is_grad_enabled() and any(weight.requires_grad for weight in weights):
            return make()
        try:
            stamp = (key, *((w.data_ptr(), w._version, w.dtype, w.device) for w in weights))
        except RuntimeError:  # functional transforms and inference tensors have no address or version
            return make()
        if self._kept is None or stamp != self._stamp or not self._same(weights):
            # A tensor made under inference_mode could not be used for gradients of the input later.
            with torch.inference_mode(False), torch.no_grad():
                self._kept = make()
                self._weights = [weight.detach().clone() for weight in weights if weight.device.type == "cpu"]
            self._stamp = stamp
        return self._kept

    def _same(self, weights: Sequence[Tensor]) -> bool:
        return all(torch.equal(a, b) for a, b in zip(self._weights, weights, strict=False))

    def __deepcopy__(self, memo: dict[int, object]) -> TableCache:
        return TableCache()

    def __reduce__(self) -> tuple[type[TableCache], tuple[()]]:
        return TableCache, ()
