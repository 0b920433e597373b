"""What ``precision="auto"`` means on this machine."""

from __future__ import annotations

from functools import cache
from typing import Literal

Precision = Literal["auto", "32", "64", "bf16-mixed", "16-mixed"]


@cache
def has_bfloat16() -> bool:
    """Whether the processor has instructions for bfloat16; False if torch can't say."""
    import torch

    # Older versions of torch have no such function.
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name) is True for name in ("avx512_bf16", "amx_bf16", "bf16"))


def chosen_precision(precision: Precision, device: str) -> Precision:
    """The precision to compute in, ``auto`` resolved.

    >>> chosen_precision("32", "cpu"), chosen_precision("auto", "mps")
    ('32', '32')
    >>> chosen_precision("auto", "cpu") == ("bf16-mixed" if has_bfloat16() else "32")
    True
    """
    if precision != "auto":
        return precision
    return "bf16-mixed" if device == "cpu" and has_bfloat16() else "32"
