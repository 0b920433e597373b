"""How does the cost of layers on sets and graphs grow with the number of elements?

Run as ``python benchmarks/sets.py``. CPU seconds on one thread of a training step of ``TupleLinear``, 16 channels, for
sets and for graphs of n, 2n, 4n, ... elements: the exponent is the slope between the largest two sizes. Next to it, the
ratio to what no layer can avoid, a plain matrix between the channels of the same tensors.
"""

from __future__ import annotations

from statistics import median

import torch
from _timing import compare, cpu_seconds, training_step, write_result

from intertwine.nn import TupleLinear
from intertwine.spaces import Tuples

CHANNELS = 16
SIZES = {1: (2000, 4000, 8000, 16000), 2: (32, 64, 128, 256)}


def main() -> None:
    """Print a table and write it to the results."""
    torch.set_num_threads(1)
    result: dict[str, object] = {}
    for order, sizes in SIZES.items():
        field = Tuples(order).field(f"{CHANNELS}*trivial")
        layer, plain = TupleLinear(field, field), torch.nn.Conv1d(CHANNELS, CHANNELS, 1)
        seconds = []
        for n in sizes:
            x = torch.randn(4, CHANNELS, *[n] * order, requires_grad=True)
            flat = x.detach().flatten(2).requires_grad_()
            step = training_step(layer, x, torch.randn_like(x))
            seconds.append(median(cpu_seconds(step) for _ in range(7)))
            ratio = compare(training_step(plain, flat, torch.randn_like(flat)), step, repeats=7)
            print(f"order {order}, {n} elements: {1e3 * seconds[-1]:.1f} ms, {ratio.ratio:.1f} times a plain matrix")
            result[f"{order}/{n}"] = {"seconds": seconds[-1], "over_plain": [ratio.ratio, *ratio.spread]}
        slope = torch.tensor(seconds[-1] / seconds[-2]).log2()
        print(f"order {order}: cost grows as n^{float(slope):.2f}")
        result[f"{order}/exponent"] = float(slope)
    write_result("sets", result)


if __name__ == "__main__":
    main()
