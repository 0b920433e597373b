"""What does mixed precision with bfloat16 save in the long experiments?

Run as ``python benchmarks/precision.py``. One training step (loss, gradients and the step of Adam) of the networks that
the experiments train at scale ``small``, in float32 and under autocast to bfloat16: CPU seconds on one thread,
interleaved, median and quartiles of the ratio of pairs (above 1: bfloat16 is faster). It saves time on processors with
instructions for bfloat16, and costs time on others, so ``precision="auto"`` asks the processor.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from _timing import compare, write_result
from torch import Tensor, nn

from intertwine.experiments import experiment_named
from intertwine.models import GVGG11, VGG11, SimpleNet, SoftResNet
from intertwine.train import has_bfloat16

BATCH = 128


def vgg(kind: type[VGG11 | GVGG11]) -> Callable[[], nn.Module]:
    width = experiment_named("relu-symmetry").scales["small"]["width"]
    return lambda: kind(width=width, init="he")


def lrlc(row: str) -> Callable[[], nn.Module]:
    settings = experiment_named("lrlc").settings(row, "small")
    names = ("layer", "where", "width", "strides", "normalize", "sharing", "init", "lc_init")
    rank = settings["rank"][2] if isinstance(settings["rank"], list) else settings["rank"]
    return lambda: SimpleNet(3, 32, 10, rank=rank, **{name: settings[name] for name in names})


def soft(row: str) -> Callable[[], nn.Module]:
    settings = experiment_named("soft").settings(row, "small")
    names = ("samples", "partial", "learn", "width", "growth", "kernel_size", "hidden", "pooled", "sampling")
    return lambda: SoftResNet(
        3,
        10,
        rotation_softness=settings["rotation"],
        translation_softness=settings["translation"],
        **{name: settings[name] for name in names},
    )


# The network, and the size of its images.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "relu-symmetry: CNN": (vgg(VGG11), 32),
    "relu-symmetry: GCNN": (vgg(GVGG11), 32),
    "lrlc: convolution": (lrlc("conv"), 32),
    "lrlc: LRLC, layer 3, rank 4": (lrlc("lrlc-l3"), 32),
    "lrlc: locally connected, layer 3": (lrlc("lc-l3"), 32),
    "soft: SE(2)/4 strict": (soft("se2-4-strict"), 24),
    "soft: SE(2)/4 soft": (soft("se2-4-lambda-0.1"), 24),
    "soft: T(2) soft": (soft("t2-lambda-0.1"), 32),
}


def step(net: nn.Module, x: Tensor, labels: Tensor, *, mixed: bool) -> Callable[[], None]:
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)

    def run() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss = nn.functional.cross_entropy(net(x), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return run


def main() -> None:
    """Print one line per network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"instructions for bfloat16: {'yes' if has_bfloat16() else 'no'}; float32 over bfloat16, batch {BATCH}")
    rows = []
    for name, (make, size) in NETWORKS.items():
        x = torch.randn(BATCH, 3, size, size).contiguous(memory_format=torch.channels_last)
        labels = torch.arange(BATCH) % 10
        mixed, full = (step(make(), x, labels, mixed=each) for each in (True, False))
        ratio = compare(mixed, full, repeats=options.repeats)
        print(f"{name:36} {ratio.ratio:.2f} ({ratio.spread[0]:.2f}-{ratio.spread[1]:.2f})", flush=True)
        rows.append({"network": name, "ratio": ratio.ratio, "quartiles": list(ratio.spread)})
    write_result("precision", {"bfloat16": has_bfloat16(), "batch": BATCH, "rows": rows})


if __name__ == "__main__":
    main()
