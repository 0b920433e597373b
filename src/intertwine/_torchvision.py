"""torchvision with a CPU build of torch.

The wheel on PyPI is built for CUDA. With a CPU build of torch, its import fails because some operations on boxes are
missing. Once they are declared, everything else can be imported: networks, transforms, data sets.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch


@cache
def declare_missing_operations() -> object:
    """Declare the missing operations; call this before importing torchvision or a package that imports it."""
    if find_spec("torchvision") is None or torch.backends.cuda.is_built():
        return None
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library  # cached, because the declarations live only as long as this object
