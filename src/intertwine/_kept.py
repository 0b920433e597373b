"""Caches for what a layer computes from its weights alone; valid until a weight changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Generic, ParamSpec, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
P = ParamSpec("P")


class Kept(Generic[T]):
    """Caches the result of ``make`` and recomputes it after a weight was changed, replaced, moved or cast.

    The address and version counter of a tensor reveal most changes. In-place changes through ``weight.data`` affect
    neither, so on the CPU the weights are also compared with a copy. That is cheap, because they are several times
    smaller than what is computed from them. The cache is not part of the layer's state: it is neither saved nor
    copied.
    """

    def __init__(self) -> None:
        self._stamp: tuple[object, ...] | None = None
        self._weights: list[Tensor] = []
        self._value: T | None = None

    def get(self, make: Callable[[], T], weights: Sequence[Tensor], *, key: tuple[object, ...] = ()) -> T:
        """The value for this key. If a weight could need a gradient, it is computed with gradients and not cached."""
        if torch.compiler.is_compiling():
            return make()
        if torch.is_grad_enabled() and any(weight.requires_grad for weight in weights):
            return make()
        stamp = _stamp(weights, key)
        if stamp is None:
            return make()
        if self._value is None or stamp != self._stamp or not self._same(weights):
            # A tensor made under inference_mode could not take part in gradients with respect to the input later.
            with torch.inference_mode(False), torch.no_grad():
                self._value = make()
                self._weights = [weight.detach().clone() for weight in weights if weight.device.type == "cpu"]
            self._stamp = stamp
        return self._value

    def _same(self, weights: Sequence[Tensor]) -> bool:
        return all(torch.equal(a, b) for a, b in zip(self._weights, weights, strict=False))

    def forget(self) -> None:
        """Drop the cached value."""
        self._stamp, self._weights, self._value = None, [], None

    def __deepcopy__(self, memo: dict[int, object]) -> Kept[T]:
        return Kept()

    def __reduce__(self) -> tuple[type[Kept[T]], tuple[()]]:
        return Kept, ()


def kept_table(maxsize: int) -> Callable[[Callable[P, Tensor]], Callable[P, Tensor]]:
    """``lru_cache`` for functions that return a tensor, switched off while torch traces a program.

    Traced tensors have no content. A table first computed under ``torch.export`` would otherwise stay cached without
    its values, for every layer in the process.
    """

    def decorate(make: Callable[P, Tensor]) -> Callable[P, Tensor]:
        kept = lru_cache(maxsize)(make)

        @wraps(make)
        def table(*args: P.args, **kwargs: P.kwargs) -> Tensor:
            if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0:
                return make(*args, **kwargs)
            return kept(*args, **kwargs)  # type: ignore[arg-type]

        return table

    return decorate


def _stamp(weights: Sequence[Tensor], key: tuple[object, ...]) -> tuple[object, ...] | None:
    """A tuple that changes when the weights do; None for tensors without address or version (functional transforms)."""
    try:
        return (key, *((w.data_ptr(), w._version, w.dtype, w.device) for w in weights))
    except RuntimeError:
        return None
