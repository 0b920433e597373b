"""What does a loosened convolution cost beside the strict one that it started from?

Run as ``python benchmarks/relax.py``. CPU seconds on one thread, each relaxed layer in turn with its strict layer; the
median of the ratios of pairs, with quartiles, for a call in evaluation and a training step, at batches of 1, 16 and 64.
"""

from __future__ import annotations

import argparse

import torch
from _timing import compare, evaluation, training_step, write_result
from torch import nn

from intertwine import nn as tnn
from intertwine.relaxed import relax
from intertwine.spaces import Grid2d

METHODS = (
    ("low-rank", {"rank": 2}),
    ("low-rank", {"rank": 4}),
    ("orientation", {"rank": 2}),
    ("soft", {"frequencies": 1}),
    ("residual", {}),
)
BATCHES = (1, 16, 64)
SIZE = 16


def strict_layers() -> dict[str, nn.Module]:
    plane = Grid2d("D4")
    regular = plane.field("8*regular")
    return {
        "torch Conv2d, 64 channels": nn.Conv2d(64, 64, 3, padding=1),
        "D4, 8 regular fields (64 channels)": tnn.Conv2d(regular, regular, 3, padding=1),
    }


def main(repeats: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = []
    for name, strict in strict_layers().items():
        for how, options in METHODS:
            if how == "orientation" and isinstance(strict, nn.Conv2d):
                continue  # there are no orientations
            if how == "residual" and isinstance(strict, nn.Conv2d):
                continue  # a kernel at every position; benchmarks/low_rank.py has the locally connected layer
            loose = relax(strict, torch.randn(1, 64, SIZE, SIZE), how, **options)  # type: ignore[arg-type]
            for batch in BATCHES:
                x = torch.randn(batch, 64, SIZE, SIZE)
                g = torch.randn(batch, 64, SIZE, SIZE)
                strict.train(), loose.train()
                step = compare(training_step(strict, x, g), training_step(loose, x, g), repeats=repeats)
                call = compare(evaluation(strict, x), evaluation(loose, x), repeats=repeats)
                label = ", ".join([how, *(f"{key} {value}" for key, value in options.items())])
                rows.append(
                    {
                        "layer": name,
                        "how": label,
                        "batch": batch,
                        "call": call.ratio,
                        "call_quartiles": list(call.spread),
                        "step": step.ratio,
                        "step_quartiles": list(step.spread),
                    }
                )
                print(
                    f"{name:36} {label:20} batch {batch:3}  call {call.ratio:5.2f} "
                    f"({call.spread[0]:.2f}-{call.spread[1]:.2f})  step {step.ratio:5.2f} "
                    f"({step.spread[0]:.2f}-{step.spread[1]:.2f})"
                )
    write_result("relax", {"size": SIZE, "repeats": repeats, "rows": rows})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    main(parser.parse_args().repeats)
