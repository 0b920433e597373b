"""What does equivariance cost in 3D, over ``torch.nn.Conv3d`` of the same width?

Run as ``python benchmarks/conv3d.py``. The filter is made from the weights in every training step; CPU seconds on one
thread, interleaved with the plain layer, median and quartiles of the ratio of pairs. Beside it e3nn's convolution of
voxels in the same run, if e3nn is installed. Then the time to make a layer without any cache, the size of tables, peak
memory, and how all of it grows with the group, the kernel and the channels.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

os.environ["INTERTWINE_CACHE"] = "off"

import torch
from _timing import Comparison, compare, cpu_seconds, write_result

from intertwine.groups import SO3, Group, Icosahedral, Octahedral, Representation
from intertwine.nn import Conv3d
from intertwine.spaces import Grid3d

COLD, EVAL = 0.5, 1.02


@dataclass(frozen=True)
class Case:
    """A layer from fields to the same fields, and the goal for its training step."""

    name: str
    group: Group
    rho: Representation
    k: int
    size: int
    goal: float


def cases() -> Iterator[Case]:
    cube, ico, so3 = Octahedral(), Icosahedral(), SO3()
    for copies in (1, 2):
        for k in (3, 5):
            yield Case(f"O regular x{copies} k={k}", cube, copies * cube.regular, k, 16, 1.10)
    yield Case("I regular x1 k=3", ico, ico.regular, 3, 12, 1.20)
    degrees = so3.irrep(0) + so3.irrep(1) + so3.irrep(2)
    yield Case("SO(3) 4x(0+1+2) k=5", so3, 4 * degrees, 5, 16, 1.05)
    limited = so3.irrep(0) + 3 * so3.irrep(1) + 5 * so3.irrep(2)
    yield Case("SO(3) regular to degree 2, x2 k=5", so3, 2 * limited, 5, 16, 1.10)


def layers(case: Case) -> tuple[Conv3d, torch.nn.Conv3d]:
    field = Grid3d(case.group).field(case.rho)
    pad = case.k // 2
    return Conv3d(field, field, case.k, padding=pad), torch.nn.Conv3d(field.dim, field.dim, case.k, padding=pad)


def forward(layer: torch.nn.Module, x: torch.Tensor) -> Callable[[], object]:
    return lambda: layer(x)


def step(layer: torch.nn.Module, x: torch.Tensor) -> Callable[[], object]:
    def run() -> None:
        layer.zero_grad(set_to_none=True)
        layer(x).sum().backward()

    return run


def evaluation(layer: torch.nn.Module, x: torch.Tensor) -> Callable[[], object]:
    def run() -> None:
        with torch.no_grad():
            layer(x)

    return run


def cell(timing: Comparison, goal: float) -> str:
    low, high = timing.spread
    return f"{timing.ratio:>7.3f} ({low:.2f}–{high:.2f}){'*' if timing.ratio > goal else ' '}"


def table_bytes(layer: torch.nn.Module) -> int:
    return sum(b.numel() * b.element_size() for b in layer.buffers())


def measured(case: Case, repeats: int) -> dict[str, object]:
    ours, plain = layers(case)
    x = torch.randn(2, case.rho.dim, *[case.size] * 3, requires_grad=True)
    filter_bytes = 4 * plain.weight.numel()
    runs = {
        "forward": compare(forward(plain, x), forward(ours, x), repeats=repeats),
        "step": compare(step(plain, x), step(ours, x), repeats=repeats),
    }
    ours.eval()
    runs["evaluation"] = compare(evaluation(plain, x), evaluation(ours, x), repeats=repeats)
    goals = {"forward": case.goal, "step": case.goal, "evaluation": EVAL}
    ratio = table_bytes(ours.expansion) / filter_bytes
    columns = "".join(cell(results, goals[name]) for name, results in runs.items())
    print(f"  {case.name:<36}{1e3 * runs['step'].first:>8.1f}{columns}{ratio:>9.3f}")
    return {
        "case": case.name,
        "tables / filter": ratio,
        "filter bytes": filter_bytes,
        "parameters": sum(p.numel() for p in ours.parameters()),
        **{name: {"ratio": f.ratio, "quartiles": f.spread, "goal": goals[name]} for name, f in runs.items()},
    }


def ratios(repeats: int) -> list[dict[str, object]]:
    print("batch 2, 16³ (I: 12³); plain step in ms; ratios with quartiles, * above the goal; tables over filter")
    print(f"  {'':<36}{'ms':>8}{'forward':>16}{'step':>20}{'evaluation':>20}{'tables':>12}")
    return [measured(case, repeats) for case in cases()]


def against_e3nn(repeats: int) -> list[dict[str, object]]:
    """The same plain layer under both; e3nn has no cache in evaluation and adds a convolution of one tap."""
    try:
        from e3nn.nn.models.v2104.voxel_convolution import Convolution
        from e3nn.o3 import Irreps
    except ImportError:
        print("e3nn is not installed")
        return []
    so3, rows = SO3(), []
    print("e3nn's voxel convolution, irreducibles, batch 2, 16³ (ratio over torch: theirs, ours)")
    for counts, k in (((4, 4, 4), 5), ((8, 4, 2), 5), ((8, 4, 2), 3), ((32, 16, 8), 5)):
        pieces = [n * so3.irrep(l) for l, n in enumerate(counts)]
        case = Case("", so3, sum(pieces[1:], pieces[0]), k, 16, 1.05)
        ours, plain = layers(case)
        irreps = Irreps([(n, (l, (-1) ** l)) for l, n in enumerate(counts)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = Convolution(irreps, irreps, Irreps.spherical_harmonics(2), k, 3)
        x = torch.randn(2, case.rho.dim, 16, 16, 16, requires_grad=True)
        row: dict[str, object] = {"case": f"{'+'.join(f'{n}x{l}' for l, n in enumerate(counts))} k={k}"}
        text = ""
        for name, way in (("forward", forward), ("step", step)):
            a = compare(way(plain, x), way(theirs, x), repeats=repeats)
            b = compare(way(plain, x), way(ours, x), repeats=repeats)
            row[name] = {"e3nn": a.ratio, "ours": b.ratio}
            text += f"  {name} {a.ratio:.3f} {b.ratio:.3f}"
        print(f"  {row['case']:<24}{text}")
        rows.append(row)
    return rows


def fresh(what: str) -> dict[str, float]:
    """Run one task in a process of its own: nothing kept from before."""
    out = subprocess.run([sys.executable, __file__, "--only", what], check=True, capture_output=True, text=True)
    results: dict[str, float] = json.loads(out.stdout.splitlines()[-1])
    return results


def cold(name: str) -> dict[str, float]:
    """Group and layer from nothing, then a step; CPU seconds and the growth of the peak of memory in MB."""
    torch.nn.Conv3d(2, 2, 3)(torch.randn(1, 2, 4, 4, 4)).sum().backward()  # what torch itself has to start

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    before = peak()
    start: list[Conv3d] = []
    seconds = cpu_seconds(lambda: start.append(layers(next(c for c in cases() if c.name == name))[0]))
    made = peak() - before
    case = next(c for c in cases() if c.name == name)
    step(start[0], torch.randn(2, case.rho.dim, *[case.size] * 3, requires_grad=True))()
    return {"seconds": seconds, "made MB": made, "step MB": peak() - before}


def plain_step(name: str) -> dict[str, float]:
    """The same of the plain layer."""
    torch.nn.Conv3d(2, 2, 3)(torch.randn(1, 2, 4, 4, 4)).sum().backward()
    case = next(c for c in cases() if c.name == name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    plain = torch.nn.Conv3d(case.rho.dim, case.rho.dim, case.k, padding=case.k // 2)
    step(plain, torch.randn(2, case.rho.dim, *[case.size] * 3, requires_grad=True))()
    return {"step MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before}


def construction() -> list[dict[str, object]]:
    print("making group and layer in a new process, no cache (CPU seconds); growth of peak memory (MB)")
    print(f"  {'':<36}{'seconds':>9}{'made':>8}{'+ step':>8}{'plain step':>12}")
    rows = []
    for case in cases():
        results, plain = fresh(f"cold:{case.name}"), fresh(f"plain:{case.name}")
        mark = "  above the goal" if results["seconds"] > COLD else ""
        print(
            f"  {case.name:<36}{results['seconds']:>9.3f}{results['made MB']:>8.1f}{results['step MB']:>8.1f}"
            f"{plain['step MB']:>12.1f}{mark}"
        )
        rows.append({"case": case.name, **results, "plain step MB": plain["step MB"]})
    return rows


def growth(repeats: int) -> list[dict[str, object]]:
    """How long the filter takes, with its gradient, per entry of the filter."""
    rows = []
    print("filter and its gradient: ms, nanoseconds an entry, tables over filter")

    def row(name: str, group: Group, rho: Representation, k: int) -> None:
        field = Grid3d(group).field(rho)
        layer = Conv3d(field, field, k, bias=False)
        cotangent = torch.randn_like(layer.expand()[0])

        def run() -> None:
            layer.zero_grad(set_to_none=True)
            layer.expand()[0].backward(cotangent)

        seconds = sorted(cpu_seconds(run) for _ in range(2 * repeats + 1))[repeats]
        entries, held = cotangent.numel(), table_bytes(layer.expansion)
        print(f"  {name:<36}{1e3 * seconds:>9.2f}{1e9 * seconds / entries:>8.2f}{held / (4 * entries):>9.3f}")
        rows.append({"case": name, "seconds": seconds, "entries": entries, "tables / filter": held / (4 * entries)})

    cube = Octahedral()
    by_order = {c.representative.order: c.representative for c in cube.subgroup_classes()}
    for order in (1, 2, 4, 12, 24):
        row(f"|H|={order}, 24 channels k=3", by_order[order], 24 // order * by_order[order].regular, 3)
    whole = Octahedral(reflections=True)
    row("|H|=48, 48 channels k=3", whole, whole.regular, 3)
    for k in (3, 5, 7):
        row(f"O regular x1 k={k}", cube, cube.regular, k)
    for copies in (1, 2, 4, 8):
        row(f"O regular x{copies} k=3", cube, copies * cube.regular, 3)
    so3 = SO3()
    degrees = so3.irrep(0) + so3.irrep(1) + so3.irrep(2)
    for copies in (1, 2, 4, 8):
        row(f"SO(3) {copies}x(0+1+2) k=5", so3, copies * degrees, 5)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if chosen.only:
        task, _, name = chosen.only.partition(":")
        print(json.dumps({"cold": cold, "plain": plain_step}[task](name)))
        return
    result: dict[str, object] = {"construction": construction(), "ratios": ratios(chosen.repeats)}
    result["e3nn"] = against_e3nn(chosen.repeats)
    result["growth"] = growth(chosen.repeats)
    write_result("conv3d", result)


if __name__ == "__main__":
    main()
