"""Give the modules of a network tensors of other sizes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def resized(model: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    """A copy of the network with these parameters and buffers, whatever their sizes.

    Convolutions, linear maps and norms are told their new numbers of channels. The code of the network stays the same,
    so it must not contain numbers of channels itself.
    """
    twin = copy.deepcopy(model)
    resize_(twin, state)
    return twin


def resize_(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """The same in place."""
    for path, module in model.named_modules():
        changed = False
        for table in (module._parameters, module._buffers):
            for name, old in table.items():
                value = state.get(f"{path}.{name}" if path else name)
                if old is None or value is None:
                    continue
                if old.shape == value.shape:
                    old.data.copy_(value)  # in place, because modules may share a tensor
                    continue
                changed = True
                value = value.detach().to(old.device, old.dtype).clone()
                table[name] = nn.Parameter(value, old.requires_grad) if isinstance(old, nn.Parameter) else value
        if changed:
            _tell(module)


def _tell(module: Any) -> None:
    """Set the attributes of a module that say how large its tensors are."""
    if isinstance(module, _CONVOLUTIONS):
        if module.groups == module.in_channels and module.groups > 1:
            module.groups = len(module.weight) // (module.out_channels // module.in_channels)
        module.out_channels, module.in_channels = len(module.weight), module.weight.shape[1] * module.groups
    elif isinstance(module, _TRANSPOSED):
        if module.groups == module.in_channels and module.groups > 1:
            module.groups = len(module.weight)
        module.in_channels, module.out_channels = len(module.weight), module.weight.shape[1] * module.groups
    elif isinstance(module, nn.Linear):
        module.out_features, module.in_features = module.weight.shape
    elif isinstance(module, nn.modules.batchnorm._NormBase):
        tensors = [*module._parameters.values(), *module._buffers.values()]
        module.num_features = next(len(t) for t in tensors if t is not None and t.dim())
    elif isinstance(module, nn.PReLU):
        module.num_parameters = len(module.weight)
