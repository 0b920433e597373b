"""Filters of a layer at several rotations: a strict layer rotates them, a soft layer also changes them."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor

from ...groups import SO2
from ...models import SoftResNet
from ...relaxed import Orientations, SoftGroupConv2d

ANGLES = 8
SIZE = 17


def filter_bank(model: SoftResNet) -> dict[str, Tensor]:
    """Filters of the second group convolution of the first block at eight angles, on a grid fine enough for a picture.

    Returns ``bank/strict`` with ω' = 0 and ``bank/soft`` with the ω' of the layer, each ``(angles, size, size)``, and
    ``bank/angles``; nothing if rotations are not relaxed. All are between the first channels, at relative angle 0.
    """
    layer = model.blocks[0].second
    if not isinstance(layer, SoftGroupConv2d) or layer.soft != ("rotation",):
        return {}
    strict = copy.deepcopy(layer).to_equivariant_()
    angles = 2 * math.pi / ANGLES * torch.arange(ANGLES, dtype=torch.float64)
    return {"bank/strict": filters(strict, angles), "bank/soft": filters(layer, angles), "bank/angles": angles}


@torch.no_grad()
def filters(layer: SoftGroupConv2d, angles: Tensor, *, size: int = SIZE) -> Tensor:
    """k(R_θ⁻¹δ, 0, θ) between the first channels for each angle θ: ``(angles, size, size)``, zero outside the disk.

    The kernel is a function on the plane, sampled here on a finer grid than that of the layer. The response to a single
    1 is the kernel, mirrored at that pixel.
    """
    options = {"rotation_softness": 1.0, "domain": layer.domain} if "rotation" in layer.soft else {}
    names = {"JointSine": "joint", "FourierFeatures": "fourier"}
    fine = SoftGroupConv2d(
        layer.in_fields,
        layer.out_fields,
        kernel_size=size,
        samples=1,
        hidden=layer.net.hidden,
        net=names[type(layer.net).__name__],  # type: ignore[arg-type]
        activation=getattr(layer.net, "activation", "cos"),
        frequency=layer.frequency,
        rotation_frequency=layer.rotation_frequency,
        angles=layer.angles,
        bias=False,
        **options,  # type: ignore[arg-type]
    )
    fine.load_state_dict({name: value for name, value in layer.state_dict().items() if name != "bias"})
    point = torch.zeros(1, layer.in_fields, size, size)
    point[0, 0, size // 2, size // 2] = 1
    kernels = []
    for angle in angles:
        orientation = Orientations(SO2().exp(angle[None, None]))
        kernels.append(fine(point, orientation, orientation)[0, 0].flip(0, 1))
    return torch.stack(kernels)
