"""How long does a convolution take whose filters cover the whole map, compared with torch's convolution?

Run as ``python benchmarks/whole_map.py``. ``Conv2d`` between regular fields on maps as large as its filters, forward
only and as a training step, over the same with :func:`intertwine.nn.cost_rules` off, which calls torch's convolution.
Both build their filters. Below 1, ours is faster. CPU seconds on one thread, interleaved, median
and quartiles of the ratio of pairs.
"""

from __future__ import annotations

import torch
from _timing import rules_over_plain, write_result

from intertwine import nn
from intertwine.spaces import Grid2d


def main() -> None:
    torch.set_num_threads(1)
    result: dict[str, object] = {}
    for group, before, after, size in (("C16", 16, 64, 7), ("C8", 8, 48, 7), ("C4", 10, 10, 4), ("C4", 16, 16, 16)):
        plane = Grid2d(group)
        layer = nn.Conv2d(plane.field(f"{before}*regular"), plane.field(f"{after}*regular"), size, bias=False)
        channels = layer.in_type.dim
        for layout in (torch.contiguous_format, torch.channels_last):
            x = torch.randn(64, channels, size, size).contiguous(memory_format=layout).requires_grad_()
            last = ", channels last" if layout is torch.channels_last else ""
            name = f"{channels} to {layer.out_type.dim} channels, {size} x {size}{last}"
            result |= rules_over_plain(name, layer, x)
    write_result("whole_map", result)


if __name__ == "__main__":
    main()
