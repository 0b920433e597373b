"""What does matching all channels of a network cost against the two forward passes that it needs?

Run as ``python benchmarks/matching.py``. A network of the size of ResNet-18 is matched with its mirror image: one pass
over the images with both sets of weights side by side, correlations at every group of channels, then the assignments.
Beside it, two plain forward passes of the networks on the same images. CPU seconds on one thread, interleaved, median
and quartiles of the ratio of pairs; tracing the network happens once and is given apart, like the assignments alone.
Then how the ratio grows with the width, and how far memory rises in a child process, for one batch and for eight
(Linux only).
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import torch
from _memory import peak_megabytes
from _timing import compare, cpu_seconds, write_result
from torch import Tensor, nn

from intertwine.measure import channel_graph, match
from intertwine.measure.graph import transform_network
from intertwine.measure.matching._assignment import best_involution, best_permutation

GOAL = 1.25


class Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        plain = stride == 1 and before == after
        self.down = nn.Identity() if plain else nn.Sequential(
            nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.down(x))


def resnet18(width: int = 64) -> nn.Module:
    """11.7 million parameters at width 64 and 1000 classes, as the well-known one."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    layers += [nn.MaxPool2d(3, 2, 1)]
    before = width
    for stage in range(4):
        after = width * 2**stage
        layers += [Block(before, after, 2 if stage else 1), Block(after, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000)).eval()


def row(width: int, size: int, images: int, batch: int, repeats: int) -> dict[str, object]:
    model = resnet18(width)
    shape = (3, size, size)
    tracing = cpu_seconds(lambda: channel_graph(model, shape))
    graph = channel_graph(model, shape)
    moved = transform_network(model, "hflip", 1, input_shape=shape, graph=graph)
    x = torch.randn(images, *shape)

    def plain() -> None:
        with torch.no_grad():
            for part in x.split(batch):
                model(part), moved(part)

    rows: dict[str, object] = {"width": width, "size": size, "images": images, "tracing seconds": tracing}
    for kind in (False, True):
        timing = compare(
            plain,
            lambda kind=kind: match(
                model, x, "hflip", graph=graph, check=False, constrained=kind, batch_size=batch, input_shape=shape
            ),
            repeats=repeats,
        )
        low, high = timing.spread
        name = "involutions" if kind else "permutations"
        mark = f"   goal {GOAL}" + ("" if timing.ratio <= GOAL else " missed") if (width, size) == (64, 224) else ""
        print(
            f"  width {width:>3}, {images} images of {size}², {name:<13}{timing.first:>7.2f}{timing.second:>7.2f}"
            f"{timing.ratio:>7.3f}   {low:.3f}–{high:.3f}{mark}   (tracing once {tracing:.1f} s)",
            flush=True,
        )
        rows[name] = {"ratio": timing.ratio, "quartiles": [low, high], "seconds": [timing.first, timing.second]}
    return rows


def assignments() -> list[dict[str, object]]:
    print("assignments alone (CPU milliseconds: permutation, involution; noise, and planted pairs under noise)")
    rows: list[dict[str, object]] = []
    for n in (64, 128, 256, 512, 1024, 2048):
        noise = 0.1 * torch.randn(n, n, dtype=torch.float64)
        pairs = noise.clone()
        pairs[torch.arange(n), torch.arange(n).view(-1, 2).flip(1).reshape(-1)] += 0.25
        times = [
            1e3 * cpu_seconds(lambda f=f, k=k: f(k))
            for f in (best_permutation, best_involution)
            for k in (noise, pairs)
        ]
        print(f"  {n:>5} channels" + "".join(f"{t:>10.1f}" for t in times), flush=True)
        rows.append({"channels": n, "milliseconds": times})
    return rows


def child(batches: int) -> None:
    """Print how far matching on this many batches raises the peak."""
    torch.set_num_threads(1)
    model = resnet18(32)
    shape = (3, 64, 64)
    graph = channel_graph(model, shape)
    options = {"graph": graph, "check": False, "input_shape": shape}
    match(model, [torch.randn(16, *shape)], "hflip", **options)  # type: ignore[arg-type]
    data = (torch.randn(16, *shape) for _ in range(batches))
    print(peak_megabytes(lambda: match(model, data, "hflip", **options)))  # type: ignore[arg-type]


def memory() -> list[dict[str, object]]:
    print("peak memory of matching, batches of 16 images (MB above what was in use)")
    rows: list[dict[str, object]] = []
    for batches in (1, 8, 32):
        command = [sys.executable, __file__, "--child", str(batches)]
        used = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
        print(f"  {batches:>3} batches: {used:.0f}", flush=True)
        rows.append({"batches": batches, "megabytes": used})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("matching against two forward passes (CPU seconds: two passes, matching; ratio; quartiles)")
    rows = [row(width, size, images, 16, options.repeats) for width, size, images in CASES]
    write_result("matching", {"matching": rows, "assignments": assignments(), "memory": memory()})


CASES = ((64, 224, 64), (16, 128, 64), (32, 128, 64), (64, 128, 64))


if __name__ == "__main__":
    main()
