"""What does an audit cost against the forward passes that it needs?

Run as ``python benchmarks/audit.py``. A ResNet-20 for images of 32² pixels is audited under the mirror, with every
step: outputs, layers, shifts, small motions, channels and barriers. Beside it, the two plain passes that no audit can
do without: all images as they are, and all images mirrored. CPU seconds on one thread, interleaved, median and
quartiles of the ratio of pairs. The last column is the ratio to as many plain passes as the audit does in all, with
those for shifts, motions, resets and scores of merged networks: what comparing and bookkeeping add. The network is
random and so are the images: neither changes the cost.
"""

from __future__ import annotations

import argparse

import torch
from _timing import compare, write_result
from matching import Block
from torch import Tensor, nn

from intertwine.measure import audit

GOAL = 1.5


def resnet20() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    before = 16
    for stage, after in enumerate((16, 32, 64)):
        for block in range(3):
            layers.append(Block(before, after, 2 if stage and not block else 1))
            before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).eval()


def passes(model: nn.Module, x: Tensor, labels: Tensor) -> int:
    """How many images an audit sends through the network and its merged copies, which inherit the hook."""
    seen: list[int] = []
    # Tracing sends tensors without values, which are of another type.
    handle = model.register_forward_pre_hook(lambda _, args: seen.append(len(args[0]) * (type(args[0]) is Tensor)))
    audit(model, (x, labels), "hflip", max_images=len(x))
    handle.remove()
    return sum(seen)


def row(images: int, repeats: int) -> dict[str, object]:
    model = resnet20()
    x, labels = torch.randn(images, 3, 32, 32), torch.arange(images) % 10

    def plain() -> None:
        with torch.no_grad():
            for part in x.split(64):
                model(part), model(part.flip(3))

    needed = passes(model, x, labels) / (2 * images)
    timing = compare(plain, lambda: audit(model, (x, labels), "hflip", max_images=images), repeats=repeats)
    low, high = timing.spread
    inner = timing.ratio / needed
    mark = f"   goal {GOAL}" + ("" if timing.ratio <= GOAL else " missed") if images >= 10_000 else ""
    times = f"{timing.first:>9.1f}{timing.second:>9.1f}{timing.ratio:>8.3f}"
    print(f"  {images:>6} images{times}   {low:.3f}–{high:.3f}{inner:>8.3f}{mark}", flush=True)
    seconds = [timing.first, timing.second]
    return {
        "images": images,
        "ratio": timing.ratio,
        "ratio to all passes": inner,
        "quartiles": [low, high],
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--images", type=int, nargs="*", default=[512, 2_000, 10_000])
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("a whole audit against two forward passes (CPU seconds: two passes, audit; ratio; quartiles; to all passes)")
    write_result("audit", {"goal": GOAL, "rows": [row(images, options.repeats) for images in options.images]})


if __name__ == "__main__":
    main()
