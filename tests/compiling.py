"""Compiled layers, whatever the worker compiled before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def compiled(model: nn.Module, backend: str = "eager") -> Callable[..., Any]:
    """The model as one graph, from a clean slate.

    Otherwise, versions that other tests compiled of the same code would count toward torch's limit, and torch would
    leave sizes open that differed between them.
    """
    torch._dynamo.reset()
    return torch.compile(model, fullgraph=True, backend=backend)
