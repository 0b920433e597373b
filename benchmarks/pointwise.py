"""Are pointwise equivariant maps cheaper than plain ones of the same width?

Run as ``python benchmarks/pointwise.py``. Training steps (forward, gradients of input and weights, the blocks made from
the weights) and evaluation of ``Conv2d(kernel_size=1)`` against ``torch.nn.Conv2d(C, C, 1)``, between regular fields
and between fields that are sums of the same irreducibles; then the ConvNeXt block against the plain one. CPU seconds on
one thread, interleaved, median and quartiles of the ratio of pairs. ``path`` says how the layer multiplies: it chooses
by ``PointMap.pays``, and ``--force`` measures the irreducible basis everywhere, which is how its constants were found.
Peak memory is that of a child process during three training steps, over what it used before (Linux only).
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import torch
from _memory import peak_megabytes
from _timing import Comparison, compare, evaluation, training_step, write_result

from intertwine import _cost_rules
from intertwine.groups import Cyclic, Dihedral, FiniteGroup, direct_sum
from intertwine.nn import Conv2d, ConvNeXtBlock
from intertwine.nn.pointwise._point_map import PointMap
from intertwine.spaces import FieldType, Grid2d

GROUPS: tuple[FiniteGroup, ...] = (Dihedral(1), Cyclic(4), Cyclic(8), Dihedral(4))
GOALS = {
    ("D1", 1024): 0.65,
    ("C4", 1024): 0.60,
    ("D4", 1024): 0.40,
    ("D1", 512): 0.80,
    ("C4", 512): 0.80,
    ("D4", 512): 0.60,
}
SIZES = ((8, 16), (16, 14), (4, 14))


class PlainBlock(torch.nn.Module):
    """The ConvNeXt block as it is usually written, channels last between the permutations."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = torch.nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = torch.nn.LayerNorm(channels, eps=1e-6)
        self.expand = torch.nn.Linear(channels, 4 * channels)
        self.contract = torch.nn.Linear(4 * channels, channels)
        self.scale = torch.nn.Parameter(torch.full((channels,), 1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.contract(torch.nn.functional.gelu(self.expand(y)))
        return x + y.permute(0, 3, 1, 2)


def regular(group: FiniteGroup, channels: int) -> FieldType:
    return Grid2d(group).field(channels // group.order * group.regular)


def irreducible(group: FiniteGroup, channels: int) -> FieldType:
    """The irreducibles of the same number of regular fields, sorted."""
    pieces = (channels // group.order * group.regular).decompose()
    return Grid2d(group).field(direct_sum(pieces.irreps))


def row(name: str, timing: Comparison, path: str, goal: float | None = None) -> dict[str, object]:
    low, high = timing.spread
    mark = "" if goal is None else f"   goal {goal:.2f}" + ("" if timing.ratio <= goal else " missed")
    times = f"{1e3 * timing.first:>9.2f}{1e3 * timing.second:>9.2f}"
    print(f"  {name:<46}{path:<13}{times}{timing.ratio:>8.3f}   {low:.3f}–{high:.3f}{mark}", flush=True)
    return {"case": name, "path": path, "ratio": timing.ratio, "quartiles": [low, high], "goal": goal}


def points(repeats: int, widths: list[int]) -> list[dict[str, object]]:
    print("1x1 maps (path; CPU milliseconds: plain, ours; ratio; quartiles)")
    rows = []
    for channels in widths:
        for group in GROUPS:
            for kind, make in (("regular", regular), ("irreducible", irreducible)):
                field = make(group, channels)
                ours, plain = Conv2d(field, field, 1), torch.nn.Conv2d(channels, channels, 1)
                for batch, size in SIZES:
                    x = torch.randn(batch, channels, size, size, requires_grad=True)
                    g = torch.randn(batch, channels, size, size)
                    path = "irreducible" if ours.point is not None and ours.point.pays(x) else "dense"
                    name = f"{group.name} {channels} {kind}, {batch} x {size}²"
                    times = repeats if channels >= 512 else 3 * repeats
                    timing = compare(
                        training_step(plain.train(), x, g), training_step(ours.train(), x, g), repeats=times
                    )
                    goal = GOALS.get((group.name, channels)) if (batch, size) != SIZES[-1] else None
                    rows.append(row(f"{name} step", timing, path, goal))
                    timing = compare(evaluation(plain, x), evaluation(ours, x), repeats=times)
                    rows.append(row(f"{name} evaluation", timing, path))
    return rows


def blocks(repeats: int) -> list[dict[str, object]]:
    print("ConvNeXt block, batch 4, 14 x 14")
    rows = []
    for channels in (256, 512):
        for group in (Dihedral(1), Cyclic(4), Dihedral(4)):
            ours, plain = ConvNeXtBlock(regular(group, channels)), PlainBlock(channels)
            x = torch.randn(4, channels, 14, 14, requires_grad=True)
            g = torch.randn(4, channels, 14, 14)
            point = ours.expand.point
            path = "irreducible" if point is not None and point.pays(x) else "dense"
            timing = compare(training_step(plain, x, g), training_step(ours, x, g), repeats=repeats)
            rows.append(row(f"{group.name} {channels} step", timing, path))
            timing = compare(evaluation(plain, x), evaluation(ours, x), repeats=repeats)
            rows.append(row(f"{group.name} {channels} evaluation", timing, path))
    return rows


def switches() -> list[dict[str, object]]:
    print("from how many samples on the irreducible basis is chosen, regular fields")
    rows = []
    for group in GROUPS:
        results: dict[str, object] = {"group": group.name}
        for channels in (64, 128, 192, 256, 384, 512, 1024):
            gain = PointMap(regular(group, channels), regular(group, channels)).gain
            results[str(channels)] = -(-_cost_rules.START // gain) if gain > 0 else "never"
        print("  " + ", ".join(f"{key} {value}" for key, value in results.items()))
        rows.append(results)
    return rows


def child(case: str, channels: int) -> None:
    """Print how far three training steps raise the peak over what is in use before."""
    torch.set_num_threads(1)
    layer: torch.nn.Module = torch.nn.Conv2d(channels, channels, 1)
    if case != "plain":
        group = next(group for group in GROUPS if group.name == case)
        layer = Conv2d(regular(group, channels), regular(group, channels), 1)

    def steps() -> None:
        for _ in range(3):
            x = torch.randn(16, channels, 14, 14, requires_grad=True)
            layer(x).sum().backward()

    print(peak_megabytes(steps))


def memory() -> list[dict[str, object]]:
    print("peak memory of training steps, batch 16, 14 x 14 (MB)")
    rows = []
    for channels in (512, 1024):
        for case in ("plain", *(group.name for group in GROUPS)):
            command = [sys.executable, __file__, "--child", case, str(channels)]
            used = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
            print(f"  {case} {channels}: {used:.0f}", flush=True)
            rows.append({"case": case, "channels": channels, "megabytes": used})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--widths", type=int, nargs="+", default=[128, 256, 512, 1024])
    parser.add_argument("--force", action="store_true", help="multiply in the irreducible basis everywhere")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], int(options.child[1]))
        return
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if options.force:
        _cost_rules.TURN = _cost_rules.MOVE = 0
        _cost_rules.START = -1
        points(options.repeats, options.widths)
        return
    results = {"switches": switches(), "blocks": blocks(options.repeats), "memory": memory()}
    write_result("pointwise", {"points": points(options.repeats, options.widths), **results})


if __name__ == "__main__":
    main()
