"""What do the irreducibles of cyclic and dihedral groups cost, in closed form and from the table?

CPU seconds for all irreducibles of a group that was just made, on one thread, medians of some runs. The way from the
table serves every other finite group. Run as ``python benchmarks/irreps.py``.
"""

from __future__ import annotations

import argparse
import statistics

import torch
from _timing import cpu_seconds, write_result

from intertwine.groups import Cyclic, Dihedral, FiniteGroup
from intertwine.groups.finite import _irreps

SOLVED = 400
"""Up to this order the way from the table is timed as well."""


def closed_form(group: type[Cyclic] | type[Dihedral], n: int) -> float:
    made: FiniteGroup = group(n)
    return cpu_seconds(lambda: made.irreps)


def from_table(group: type[Cyclic] | type[Dihedral], n: int) -> float:
    table = group(n).table.numpy()
    return cpu_seconds(lambda: _irreps._compute(table))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, object] = {}
    for group in (Cyclic, Dihedral):
        for n in (50, 100, 200, 400, 800, 2000):
            made = cpu_seconds(lambda group=group, n=n: group(n))
            closed = statistics.median(closed_form(group, n) for _ in range(options.repeats))
            table = from_table(group, n) if group(n).order <= SOLVED else None
            results[f"{group.__name__}({n})"] = {"made": made, "closed form": closed, "from the table": table}
            solved = f"{table:8.2f} s from the table, {table / closed:,.0f} times as much" if table is not None else ""
            print(f"{group.__name__}({n}): made in {made:.3f} s, irreducibles in {closed * 1e3:.2f} ms  {solved}")
    write_result("irreps", results)


if __name__ == "__main__":
    main()
