"""torchvision beside a CPU build of torch.

The wheel on PyPI is built for CUDA; beside a CPU build of torch its import stops at operations for boxes that are not
there. Declaring them lets everything else be imported: networks, transforms, data sets.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch


@cache
def declare_missing_operations() -> object:
    """Call it before ``import torchvision`` or a package that imports it; does nothing where nothing is missing."""
    if find_spec("torchvision") is None or torch.backends.cuda.is_built():
        return None
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library  # kept by the cache: the declarations live as long as this object
