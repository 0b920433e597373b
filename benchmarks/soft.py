"""What does soft equivariance cost against the strict layer of the same shape?

Run as ``python benchmarks/soft.py``. Soft convolution against ``torch.nn.Conv2d`` with kernels of size 7: training
steps (forward, gradients of input, kernel network and ω', the tables recomputed; with 3 channels the input is an image
and has no gradient) and evaluation (tables kept), at batches 64, 16 and 1; growth with places and with channels; soft
group convolution against the strict one, and the variant that the layer chooses against the dense one, as samples and
channels grow. CPU seconds on one thread, interleaved, median and quartiles of the ratio of pairs. Peak memory is that
of a child process during three training steps, over what it used before (Linux only). ``--force`` measures both
variants of the soft convolution everywhere.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import torch
from _memory import peak_megabytes
from _timing import Comparison, compare, evaluation, training_step, write_result

from intertwine.relaxed import SoftConv2d, SoftGroupConv2d
from intertwine.relaxed.soft._soft_variants import cheapest

GOALS = {(64, "step"): 2.0, (16, "step"): 4.0, (64, "evaluation"): 1.9}


def row(name: str, timing: Comparison, path: str, goal: float | None = None) -> dict[str, object]:
    low, high = timing.spread
    mark = "" if goal is None else f"   goal {goal:.2f}" + ("" if timing.ratio <= goal else " missed")
    times = f"{1e3 * timing.first:>9.1f}{1e3 * timing.second:>9.1f}"
    print(f"  {name:<52}{path:<9}{times}{timing.ratio:>8.2f}   {low:.2f}–{high:.2f}{mark}", flush=True)
    return {"case": name, "variant": path, "ratio": timing.ratio, "quartiles": [low, high], "goal": goal}


def planar(
    repeats: int, batch: int, channels: tuple[int, int], size: int, domain: str, variant: str | None, goals: bool
) -> list[dict[str, object]]:
    plain = torch.nn.Conv2d(*channels, 7, padding=3)
    soft = SoftConv2d(*channels, kernel_size=7, softness=0.5, learn=True, domain=domain, variant=variant)
    x = torch.randn(batch, channels[0], size, size, requires_grad=channels[0] > 3)
    g = torch.randn(batch, channels[1], size, size)
    name = f"{batch} x {channels[0]} → {channels[1]}, {size}², {domain} side"
    rows = []
    for what, training in (("step", True), ("evaluation", False)):
        path = variant or cheapest(soft._sizes(x[:, :, None], 1, True, training))
        if training:
            timing = compare(training_step(plain, x, g), training_step(soft, x, g), repeats=repeats)
        else:
            timing = compare(evaluation(plain, x), evaluation(soft, x), repeats=repeats)
        goal = GOALS.get((batch, what)) if goals else None
        rows.append(row(f"{name}, {what}", timing, path, goal))
    return rows


def plane(repeats: int, force: bool) -> dict[str, list[dict[str, object]]]:
    print("soft convolution against Conv2d (variant; CPU milliseconds: plain, soft; ratio; quartiles)")
    variants: list[str | None] = ["window", "rank"] if force else [None]
    results: dict[str, list[dict[str, object]]] = {"batches": [], "places": [], "channels": []}
    for variant in variants:
        for batch in (64, 16, 1):
            for domain in ("input", "output"):
                results["batches"] += planar(repeats, batch, (32, 32), 32, domain, variant, not force)
        print(" growth with places")
        for size in (16, 24, 48):
            results["places"] += planar(repeats, 16, (32, 32), size, "input", variant, False)
        print(" growth with channels")
        for channels, size in (((3, 32), 32), ((16, 16), 16), ((64, 64), 16), ((128, 128), 8)):
            results["channels"] += planar(repeats, 64, channels, size, "input", variant, False)
    return results


def group(repeats: int) -> list[dict[str, object]]:
    print("group convolution, training steps, batch 8 (variant; CPU milliseconds: first, second; ratio; quartiles)")
    rows = []
    for channels, samples, size in ((32, 4, 16), (32, 8, 16), (64, 8, 16), (64, 16, 8), (128, 8, 8), (128, 16, 8)):
        x = torch.randn(8, channels, samples, size, size, requires_grad=True)
        g = torch.randn(8, channels, samples, size, size)
        options = {"samples": samples, "kernel_size": 7}
        strict = SoftGroupConv2d(channels, channels, variant="dense", **options)
        soft = SoftGroupConv2d(channels, channels, rotation_softness=1.0, learn=True, variant="dense", **options)
        name = f"{channels} channels, {samples} samples, {size}²"
        times = repeats if channels < 128 else max(1, repeats // 2)
        timing = compare(training_step(strict, x, g), training_step(soft, x, g), repeats=times)
        rows.append(row(f"{name}, soft against strict", timing, "dense", 1.05))
        path = cheapest(soft._sizes(x, samples, False, True))
        if path != "dense":
            soft.variant = None
            timing = compare(training_step(strict, x, g), training_step(soft, x, g), repeats=times)
            goal = 0.5 if (channels, samples) == (128, 16) else None
            rows.append(row(f"{name}, soft as chosen against strict", timing, path, goal))
    return rows


def child(case: str, size: int) -> None:
    """Print how far three training steps raise the peak over what is in use before."""
    torch.set_num_threads(1)
    layer: torch.nn.Module = torch.nn.Conv2d(32, 32, 7, padding=3)
    if case != "plain":
        layer = SoftConv2d(32, 32, softness=0.5, learn=True, variant=case)
    layer(torch.zeros(1, 32, 8, 8)).sum().backward()

    def steps() -> None:
        for _ in range(3):
            x = torch.randn(16, 32, size, size, requires_grad=True)
            layer(x).sum().backward()

    print(peak_megabytes(steps))


def memory() -> list[dict[str, object]]:
    print("peak memory of training steps, batch 16, 32 → 32 (MB; beside them, kernels for all places)")
    rows: list[dict[str, object]] = []
    for case in ("plain", "window", "rank"):
        for size in (16, 32, 64):
            command = [sys.executable, __file__, "--child", case, str(size)]
            used = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
            kernels = size**2 * 29 * 1024 * 4 / 2**20
            print(f"  {case} {size}²: {used:.0f} (kernels {kernels:.0f})", flush=True)
            rows.append({"case": case, "size": size, "megabytes": used, "all kernels": kernels})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--force", action="store_true", help="measure both variants everywhere, and write nothing")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], int(options.child[1]))
        return
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results: dict[str, object] = dict(plane(options.repeats, options.force))
    if not options.force:
        write_result("soft", {**results, "group": group(options.repeats), "memory": memory()})


if __name__ == "__main__":
    main()
