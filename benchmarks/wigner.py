"""How fast are the real Wigner matrices, against e3nn and against one matrix product?

1000 rotations in float64 on one thread. The runs are interleaved and counted in CPU seconds, so that other work on
the machine disturbs all of them alike; each figure is the median of the ratios of neighboring runs. e3nn starts from
Euler angles, ours from rotation matrices; ``e3nn, from matrices`` adds the angles. The values are compared first.
Run as ``python benchmarks/wigner.py``.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import e3nn
import torch
from e3nn import o3

from intertwine.groups import SO3, wigner_d, wigner_ds

DEGREES = (1, 2, 4, 6, 8)
ORDER = [1, 2, 0]  # e3nn's coordinates are ours in this order


def cpu_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def backward(l: int, R: torch.Tensor) -> None:
    R = R.detach().requires_grad_()
    wigner_d(l, R).sum().backward()


def contenders(l: int, R: torch.Tensor) -> dict[str, Callable[[], object]]:
    turned = R[:, ORDER][:, :, ORDER]
    angles = o3.matrix_to_angles(turned)
    D = wigner_d(l, R)
    return {
        "ours": lambda: wigner_d(l, R),
        "e3nn": lambda: o3.wigner_D(l, *angles),
        "e3nn, from matrices": lambda: o3.wigner_D(l, *o3.matrix_to_angles(turned)),
        "one matrix product": lambda: D @ D,
        "ours, all degrees to l": lambda: wigner_ds(l, R),
        "e3nn, all degrees to l": lambda: [o3.wigner_D(k, *angles) for k in range(l + 1)],
        "ours, with gradient": lambda: backward(l, R),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--rotations", type=int, default=1000)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "wigner.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # e3nn computes in the default type
    R = SO3().sample(options.rotations, torch.Generator().manual_seed(0))

    rows = []
    print(f"{options.rotations} rotations, medians of {options.repeats} interleaved runs; e3nn {e3nn.__version__}")
    print("  l  ours ms   e3nn/ours  from matrices  all degrees   ours/product  gradient/ours   difference")
    for l in DEGREES:
        calls = contenders(l, R)
        difference = float((calls["ours"]() - calls["e3nn"]()).abs().max())  # type: ignore[operator]
        if difference > 1e-12:
            raise SystemExit(f"degree {l}: ours and e3nn differ by {difference:.2g}")
        for call in calls.values():
            call()
        runs = [{name: cpu_seconds(call) for name, call in calls.items()} for _ in range(options.repeats)]

        def ratio(a: str, b: str, runs: list[dict[str, float]] = runs) -> float:
            return statistics.median(run[a] / run[b] for run in runs)

        row = {
            "l": l,
            "ours_ms": 1e3 * statistics.median(run["ours"] for run in runs),
            "e3nn_over_ours": ratio("e3nn", "ours"),
            "e3nn_from_matrices_over_ours": ratio("e3nn, from matrices", "ours"),
            "e3nn_over_ours_all_degrees": ratio("e3nn, all degrees to l", "ours, all degrees to l"),
            "ours_over_product": ratio("ours", "one matrix product"),
            "gradient_over_ours": ratio("ours, with gradient", "ours"),
            "largest_difference": difference,
        }
        rows.append(row)
        print(
            f"{l:3d} {row['ours_ms']:8.2f} {row['e3nn_over_ours']:10.1f}x {row['e3nn_from_matrices_over_ours']:12.1f}x"
            f" {row['e3nn_over_ours_all_degrees']:11.1f}x {row['ours_over_product']:13.1f}x"
            f" {row['gradient_over_ours']:13.1f}x {difference:13.1e}"
        )

    result = {
        "question": __doc__.splitlines()[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
        "e3nn": e3nn.__version__,
        "rotations": options.rotations,
        "repeats": options.repeats,
        "degrees": rows,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
