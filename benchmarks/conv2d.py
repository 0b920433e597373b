"""What does equivariance cost in 2D, over ``torch.nn.Conv2d`` of the same width?

Run as ``python benchmarks/conv2d.py``. Regular → regular fields, the filter made from the weights in every training
step; CPU seconds on one thread, interleaved with the plain layer, median and quartiles of the ratio of pairs. Wide
layers on little work are the worst case: the filter has more entries than the output. Then the time to make a layer,
without any cache and again, and to initialize a wide one.
"""

from __future__ import annotations

import argparse
import os
import statistics

os.environ["INTERTWINE_CACHE"] = "off"

import torch
from _timing import Comparison, compare, cpu_seconds, evaluation, write_result

from intertwine.groups import Cyclic, Dihedral, FiniteGroup
from intertwine.kernels import clear_cache
from intertwine.nn import Conv2d
from intertwine.nn.filters._blocks import block_table
from intertwine.spaces import Grid2d

TRAIN, EVAL, SMALL, WIDE, COLD, INIT = 1.05, 1.02, 1.10, 1.5, 0.5, 0.1
CHANNELS = 64


def layers(group: FiniteGroup, k: int, channels: int = CHANNELS) -> tuple[Conv2d, torch.nn.Conv2d]:
    field = Grid2d(group).field(channels // group.order * group.regular)
    return Conv2d(field, field, k, padding=k // 2), torch.nn.Conv2d(channels, channels, k, padding=k // 2)


def step(layer: torch.nn.Module, x: torch.Tensor):
    def run() -> None:
        layer.zero_grad(set_to_none=True)
        layer(x).sum().backward()

    return run


def row(name: str, timing: Comparison, goal: float) -> dict[str, object]:
    low, high = timing.spread
    mark = "" if timing.ratio <= goal else "   above the goal"
    times = f"{1e3 * timing.first:>9.2f}{1e3 * timing.second:>9.2f}"
    print(f"  {name:<34}{times}{timing.ratio:>8.3f}   {low:.3f}–{high:.3f}{mark}")
    return {"case": name, "ratio": timing.ratio, "quartiles": [low, high], "goal": goal}


def ratios(repeats: int) -> list[dict[str, object]]:
    print(f"{CHANNELS} channels, {torch.get_num_threads()} thread (CPU milliseconds: plain, ours; ratio; quartiles)")
    rows = []
    for group in (Cyclic(4), Dihedral(4), Cyclic(8), Cyclic(16)):
        for k in (3, 5, 7):
            ours, plain = layers(group, k)
            x = torch.randn(16, CHANNELS, 32, 32, requires_grad=True)
            name = f"{group.name} k={k}"
            rows.append(
                row(f"{name} step, batch 16, 32x32", compare(step(plain, x), step(ours, x), repeats=repeats), TRAIN)
            )
            for batch, size in ((1, 32), (16, 8)):
                y = torch.randn(batch, CHANNELS, size, size, requires_grad=True)
                timing = compare(step(plain, y), step(ours, y), repeats=4 * repeats)
                rows.append(row(f"{name} step, batch {batch}, {size}x{size}", timing, SMALL))
            timing = compare(evaluation(plain, x), evaluation(ours, x), repeats=repeats)
            rows.append(row(f"{name} evaluation", timing, EVAL))
    return rows


def wide(repeats: int) -> list[dict[str, object]]:
    print("1024 channels, batch 2, 8x8")
    rows = []
    for group in (Cyclic(4), Dihedral(4), Cyclic(8), Cyclic(16)):
        for k in (3, 5):
            ours, plain = layers(group, k, 1024)
            x = torch.randn(2, 1024, 8, 8, requires_grad=True)
            timing = compare(step(plain, x), step(ours, x), repeats=min(repeats, 5))
            rows.append(row(f"{group.name} k={k} step, 1024 channels", timing, WIDE))
    return rows


def construction(repeats: int) -> dict[str, float]:
    print("making a layer (CPU seconds)")

    def cold(order: int) -> float:
        clear_cache()
        block_table.cache_clear()
        return cpu_seconds(lambda: layers(Dihedral(order), 5, 2 * 2 * order))

    results = {f"D{n} cold": statistics.median(cold(n) for _ in range(repeats)) for n in (4, 8)}
    group = Dihedral(8)
    results["D8 again"] = statistics.median(cpu_seconds(lambda: layers(group, 5, 32)) for _ in range(repeats))
    for wide in (Cyclic(8), Cyclic(16)):
        layer, _ = layers(wide, 5, 1024)
        name = f"{wide.name}, 1024 channels, k=5, initialization"
        results[name] = statistics.median(cpu_seconds(layer.reset_parameters) for _ in range(repeats))
    for name, value in results.items():
        print(f"  {name:<50}{value:.4f}")
    print(f"  goals: cold {COLD} s, initialization {INIT} s")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    torch.manual_seed(0)
    made = construction(min(repeats, 5))
    write_result("conv2d", {"construction": made, "ratios": ratios(repeats), "wide": wide(repeats)})


if __name__ == "__main__":
    main()
