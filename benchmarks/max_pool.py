"""How long do maxima over overlapping windows take, compared with torch's max pooling in the layout that it gets?

Run as ``python benchmarks/max_pool.py``. ``MaxPool2d`` on regular fields of C16, forward only and as a training step,
over the same with :func:`intertwine.nn.cost_rules` off, which is ``torch.nn.MaxPool2d``. Below 1, ours is faster. CPU
seconds on one thread, interleaved, median and quartiles of the ratio of pairs.
"""

from __future__ import annotations

from functools import partial

import torch
from _timing import compare, write_result

from intertwine import nn
from intertwine.spaces import Grid2d


def run(layer: nn.MaxPool2d, x: torch.Tensor, *, rules: bool, gradients: bool) -> None:
    with nn.cost_rules(enabled=rules), torch.set_grad_enabled(gradients):
        y = layer(x)
    if gradients:
        y.backward(torch.ones_like(y))


def main() -> None:
    torch.set_num_threads(1)
    result: dict[str, object] = {}
    for copies, size, kernel_size, stride in ((4, 28, 3, 1), (8, 14, 3, 1), (4, 28, 2, 1), (4, 29, 3, 2)):
        layer = nn.MaxPool2d(
            Grid2d("C16").field(f"{copies}*regular"), kernel_size, stride=stride, padding=(kernel_size - 1) // 2
        )
        x = torch.randn(64, 16 * copies, size, size, requires_grad=True)
        for what, gradients in (("forward", False), ("training step", True)):
            call = partial(run, layer, x, gradients=gradients)
            timing = compare(partial(call, rules=False), partial(call, rules=True), repeats=9)
            name = f"{16 * copies} channels, {size} x {size}, window {kernel_size}, stride {stride}, {what}"
            print(f"{name}: {timing.ratio:.2f} ({timing.spread[0]:.2f}-{timing.spread[1]:.2f})", flush=True)
            result[name] = [timing.ratio, *timing.spread]
    write_result("max_pool", result)


if __name__ == "__main__":
    main()
