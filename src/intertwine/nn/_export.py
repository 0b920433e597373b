"""Export of layers with types to an ordinary torch network."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch import nn as torch_nn

from .._checked import checked
from .._plain_form import register_plain_form
from ._layer import Layer


@checked
def to_plain(model: torch_nn.Module) -> torch_nn.Module:
    """The same map built from ordinary torch modules, in evaluation mode: for inference, ``torch.export`` and ONNX.

    Replaces layers wherever they occur in ``model`` and copies everything else. The result shares nothing with the
    model and needs this package neither to load nor to run.

    >>> from intertwine.groups import Cyclic
    >>> from intertwine.nn import Conv2d, ReLU, Sequential
    >>> from intertwine.spaces import Grid2d
    >>> C4 = Cyclic(4); field = Grid2d(C4).field(2 * C4.regular)
    >>> to_plain(Sequential(Conv2d(field, field, 3), ReLU(field)))
    Sequential(
      (0): Conv2d(8, 8, kernel_size=(3, 3), stride=(1, 1))
      (1): ReLU()
    )
    """
    return _plain(deepcopy(model)).eval()


@register_plain_form
def _plain_form(model: torch_nn.Module) -> torch_nn.Module | None:
    return to_plain(model) if any(isinstance(module, Layer) for module in model.modules()) else None


def filled(
    kind: type[torch_nn.Module], *sizes: Any, weight: Tensor, bias: Tensor | None, **options: Any
) -> torch_nn.Module:
    """A torch module, such as ``torch.nn.Conv2d``, with copies of this weight and bias."""
    plain = torch_nn.utils.skip_init(
        kind, *sizes, bias=bias is not None, device=weight.device, dtype=weight.dtype, **options
    )
    with torch.no_grad():
        plain.weight.copy_(weight)
        if bias is not None:
            plain.bias.copy_(bias)
    return plain


def _plain(model: torch_nn.Module) -> torch_nn.Module:
    if isinstance(model, Layer):
        return model.to_plain()
    for name, child in model.named_children():
        setattr(model, name, _plain(child))
    return model
