"""What do whole networks of soft and partial layers cost beside strict ones, and was it so in the paper?

Run as ``python benchmarks/soft_networks.py``. The residual network of the experiments ``soft...`` at its published size
on images of 32 x 32: a training step (loss, gradients and the step of Adam, new samples drawn) and an evaluation, soft
translations against strict ones, then soft and partial rotations against strict ones with 4, 8 and 16 samples. CPU
seconds on one thread, interleaved, median and quartiles of the ratio of pairs. The published numbers (table 6: one GPU,
batches of 64) are given as ratios, since their unit cannot be right. Batches are smaller the more samples there are;
kernels are made once for a batch, so that small ones pay more for them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from _timing import Comparison, compare, write_result
from torch import Tensor, nn

from intertwine.models import SOFT_RESNETS, SoftResNet

BATCHES = {1: 64, 4: 4, 8: 2, 16: 1}
# Table 6, training and inference: samples, then strict, partial, soft; the first has no partial network.
PUBLISHED: dict[int, dict[str, tuple[float, float]]] = {
    1: {"strict": (3.5, 0.2), "soft": (20.9, 1.0)},
    4: {"strict": (12.0, 0.6), "partial": (12.1, 0.6), "soft": (12.2, 0.6)},
    8: {"strict": (29.1, 1.3), "partial": (29.9, 1.4), "soft": (29.4, 1.4)},
    16: {"strict": (85.8, 3.7), "partial": (86.9, 3.8), "soft": (86.4, 3.7)},
}


def network(samples: int, kind: str, width: int) -> SoftResNet:
    group = "T(2)" if samples == 1 else "SE(2)"
    options = {"samples": samples, **SOFT_RESNETS[f"{group} {kind}"]}
    return SoftResNet(3, 10, width=width, **options)


def training(net: nn.Module, x: Tensor, labels: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)

    def run() -> None:
        net.train()
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(net(x), labels).backward()
        optimizer.step()

    return run


def evaluation(net: nn.Module, x: Tensor) -> Callable[[], None]:
    def run() -> None:
        net.eval()
        with torch.no_grad():
            net(x)

    return run


def measured(samples: int, kind: str, width: int, repeats: int) -> tuple[Comparison, Comparison]:
    """Training and evaluation of a network beside the strict one with as many samples."""
    batch = BATCHES[samples]
    x, labels = torch.randn(batch, 3, 32, 32), torch.arange(batch) % 10
    strict, other = (network(samples, which, width) for which in ("strict", kind))
    step = compare(training(strict, x, labels), training(other, x, labels), repeats=repeats)
    return step, compare(evaluation(strict, x), evaluation(other, x), repeats=repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--samples", type=int, nargs="+", default=sorted(PUBLISHED))
    parser.add_argument("--width", type=int, default=32, help="channels of the first block")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows: list[dict[str, object]] = []
    print("network, batch, step, CPU seconds of the strict network, ratio, quartiles, published ratio")
    for samples in options.samples:
        for kind in (name for name in PUBLISHED[samples] if name != "strict"):
            name = f"{'T(2)' if samples == 1 else f'SE(2)/{samples}'} {kind}"
            both = measured(samples, kind, options.width, options.repeats)
            for at, (what, timing) in enumerate(zip(("training", "evaluation"), both, strict=True)):
                published = PUBLISHED[samples][kind][at] / PUBLISHED[samples]["strict"][at]
                low, high = timing.spread
                print(
                    f"{name:<16}{BATCHES[samples]:>4}  {what:<11}{timing.first:>8.3f}{timing.ratio:>8.2f}   "
                    f"{low:.2f}–{high:.2f}   published {published:.2f}",
                    flush=True,
                )
                rows.append(
                    {
                        "network": name,
                        "step": what,
                        "batch": BATCHES[samples],
                        "strict_seconds": timing.first,
                        "ratio": timing.ratio,
                        "quartiles": [low, high],
                        "published": published,
                    }
                )
    write_result("soft_networks", {"width": options.width, "rows": rows})


if __name__ == "__main__":
    main()
