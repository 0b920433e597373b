"""An exponential moving average of the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..._checked import checked


class Ema:
    """After each step: average ← decay · average + (1 − decay) · weights.

    Floating-point buffers, such as the statistics of a batch norm, are averaged as well; integer ones are copied.

    Args:
        model: whose ``state_dict`` is averaged.
        decay: from 0 to 1.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.zeros_(layer.weight)
    >>> ema = Ema(layer, 0.75)
    >>> _ = nn.init.ones_(layer.weight)
    >>> ema.update()
    >>> ema.state["weight"].item()
    0.25
    """

    @checked
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        live = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
        self.state = {name: value.detach().clone() for name, value in live.items()}
        # state_dict gives views of the weights, which stay valid: training changes weights in place.
        self._moving = [(self.state[n], v) for n, v in live.items() if v.is_floating_point() or v.is_complex()]
        self._copied = [(self.state[n], v) for n, v in live.items() if not (v.is_floating_point() or v.is_complex())]

    @torch.no_grad()
    def update(self) -> None:
        """Take the present weights into the average."""
        if self._moving:
            averages, weights = zip(*self._moving, strict=True)
            torch._foreach_lerp_(averages, weights, 1 - self.decay)
        for copy, value in self._copied:
            copy.copy_(value)

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved average."""
        for name, value in self.state.items():
            value.copy_(state[name])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within the block, the model computes with the average."""
        pairs = (*self._moving, *self._copied)
        kept = [value.clone() for _, value in pairs]
        with torch.no_grad():
            for average, value in pairs:
                value.copy_(average)
        try:
            yield
        finally:
            with torch.no_grad():
                for before, (_, value) in zip(kept, pairs, strict=True):
                    value.copy_(before)
