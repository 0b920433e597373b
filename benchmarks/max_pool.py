"""How long do maxima over overlapping windows take, compared with torch's max pooling in the layout that it gets?

Run as ``python benchmarks/max_pool.py``. ``MaxPool2d`` on regular fields of C16, forward only and as a training step,
over the same with :func:`intertwine.nn.cost_rules` off, which is ``torch.nn.MaxPool2d``. Below 1, ours is faster. CPU
seconds on one thread, interleaved, median and quartiles of the ratio of pairs.
"""

from __future__ import annotations

import torch
from _timing import rules_over_plain, write_result

from intertwine import nn
from intertwine.spaces import Grid2d


def main() -> None:
    torch.set_num_threads(1)
    result: dict[str, object] = {}
    for copies, size, kernel_size, stride in ((4, 28, 3, 1), (8, 14, 3, 1), (4, 28, 2, 1), (4, 29, 3, 2)):
        layer = nn.MaxPool2d(
            Grid2d("C16").field(f"{copies}*regular"), kernel_size, stride=stride, padding=(kernel_size - 1) // 2
        )
        x = torch.randn(64, 16 * copies, size, size, requires_grad=True)
        name = f"{16 * copies} channels, {size} x {size}, window {kernel_size}, stride {stride}"
        result |= rules_over_plain(name, layer, x)
    write_result("max_pool", result)


if __name__ == "__main__":
    main()
