"""How much faster is the double-coset solver than the null space of the full commutation constraint?

Run as ``python benchmarks/kernel_solver.py``. Both sides solve the same problem from the same field types, without any
cache; then the cost of ours as the group and the representations grow.
"""

from __future__ import annotations

import argparse
import os
import statistics

os.environ["INTERTWINE_CACHE"] = "off"

import torch
from _timing import compare, cpu_seconds, write_result

from intertwine.groups import Alternating, Cyclic, Dihedral, Icosahedral, Symmetric
from intertwine.kernels import KernelBasis, brute_force, clear_cache, solve
from intertwine.spaces import FieldType, HomogeneousSpace

GOAL = 50.0


def cold(in_type: FieldType, out_type: FieldType) -> KernelBasis:
    clear_cache()
    return solve(in_type, out_type)


def types(group, name, rho_in, rho_out):
    h = group.find_subgroup(name)
    space = HomogeneousSpace(group, h)
    return space.field(rho_in(h)), space.field(rho_out(h))


def against_brute_force(repeats: int) -> list[dict[str, object]]:
    print("double cosets against brute force, H1 = H2 = S3, trivial → regular (CPU seconds)")
    print(f"  {'G':<4}{'|G|':>5}{'unknowns':>10}{'dim':>5}{'brute force':>13}{'ours':>10}{'ratio':>9}   quartiles")
    rows = []
    for group in (Symmetric(4), Alternating(5), Symmetric(5)):
        pair = types(group, "S3", lambda h: h.trivial, lambda h: h.regular)
        unknowns = pair[0].total_dim * pair[1].total_dim
        ours, oracle = cold(*pair), brute_force(*pair)
        if ours.dim != len(oracle):
            raise SystemExit(f"{group}: {ours.dim} kernels against {len(oracle)}")
        timing = compare(lambda p=pair: cold(*p), lambda p=pair: brute_force(*p), repeats=repeats)
        spread = f"{timing.spread[0]:.0f}–{timing.spread[1]:.0f}"
        print(
            f"  {group.name:<4}{group.order:>5}{unknowns:>10}{ours.dim:>5}{timing.second:>13.4f}{timing.first:>10.4f}"
            f"{timing.ratio:>8.0f}x   {spread}"
        )
        rows.append({"group": group.name, "order": group.order, "unknowns": unknowns, "ratio": timing.ratio})
    print(f"  goal at order 120: at least {GOAL:.0f}x")
    return rows


def seconds(in_type: FieldType, out_type: FieldType, repeats: int) -> float:
    return statistics.median(cpu_seconds(lambda: cold(in_type, out_type)) for _ in range(repeats))


def growth(repeats: int) -> dict[str, list[dict[str, float]]]:
    print("cost of ours as the group grows: D_n over a mirror, regular → regular")
    by_order = []
    for n in (6, 12, 30, 60):
        group = Dihedral(n)
        h = group.subgroup([n])
        space = HomogeneousSpace(group, h)
        field = space.field(h.regular)
        _ = space.cocycle_table
        taken = seconds(field, field, repeats)
        by_order.append({"order": group.order, "seconds": taken})
        print(f"  |G| = {group.order:<4} {len(solve(field, field).double_cosets):>4} double cosets  {taken:.4f} s")
    print("cost of ours as the representations grow: a point of C_n, regular → regular (n x n matrices)")
    by_dim = []
    for n in (8, 16, 32, 64):
        group = Cyclic(n)
        field = HomogeneousSpace(group, group).field(group.regular)
        taken = seconds(field, field, repeats)
        by_dim.append({"dim": n, "seconds": taken})
        print(f"  dim = {n:<4} {taken:.4f} s")
    print("copies of a summand share one solution: A5 over C2, k copies of regular → k copies of regular")
    by_copies = []
    group = Icosahedral()
    h = group.find_subgroup("C2")
    space = HomogeneousSpace(group, h)
    for k in (1, 4, 16, 64):
        field = space.field(k * h.regular)
        taken = seconds(field, field, repeats)
        by_copies.append({"copies": k, "seconds": taken})
        print(f"  k = {k:<4} {taken:.4f} s")
    return {"order": by_order, "dim": by_dim, "copies": by_copies}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = against_brute_force(options.repeats)
    write_result("kernel_solver", {"question": __doc__.splitlines()[0], "rows": rows, **growth(options.repeats)})


if __name__ == "__main__":
    main()
