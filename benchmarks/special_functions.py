"""How fast are spherical harmonics and Wigner matrices, against e3nn, in the dtype of their input?

On one thread. The two sides are interleaved and counted in CPU seconds; each figure is the median of the ratios of
neighboring runs, with the range of the middle half. Wigner matrices start from rotation matrices on both sides. The
values are compared first. Run as ``python benchmarks/special_functions.py``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from math import ceil

import e3nn
import torch
from _timing import compare, cpu_seconds, write_result
from e3nn import o3

from intertwine.groups import SO3, spherical_harmonics, wigner_d

ORDER = [1, 2, 0]  # e3nn's coordinates are ours in this order
POINTS = (1_000, 100_000)
ROTATIONS = 1_000
DEGREES = (1, 2, 4, 8)


def with_gradient(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Callable[[], object]:
    def step() -> None:
        leaf = x.detach().requires_grad_()
        function(leaf).sum().backward()

    return step


def several(run: Callable[[], object], calls: int) -> Callable[[], None]:
    """As many runs as the clock needs."""

    def runs() -> None:
        for _ in range(calls):
            run()

    return runs


Sides = tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor], torch.Tensor]


def harmonics(l: int, x: torch.Tensor) -> Sides:
    """Both functions, and the input of theirs."""
    degrees = list(range(l + 1))
    theirs = partial(o3.spherical_harmonics, degrees, normalize=True, normalization="integral")
    return partial(spherical_harmonics, l), theirs, x[:, ORDER].contiguous()


def matrices(l: int, R: torch.Tensor) -> Sides:
    """Both functions, and the input of theirs."""
    return (
        partial(wigner_d, l),
        lambda R: o3.wigner_D(l, *o3.matrix_to_angles(R)),
        R[:, ORDER][:, :, ORDER].contiguous(),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=11)
    options = parser.parse_args()
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(0)
    results: dict[str, object] = {"e3nn": e3nn.__version__}
    print(f"{'':44}ours / e3nn {e3nn.__version__}")
    for dtype in (torch.float32, torch.float64):
        points = {f"{n} points": torch.randn(n, 3, generator=random).to(dtype) for n in POINTS}
        turns = {f"{ROTATIONS} rotations": SO3().sample(ROTATIONS, random).to(dtype)}
        for make, inputs in ((harmonics, points), (matrices, turns)):
            for what, x in inputs.items():
                for l in DEGREES:
                    ours, theirs, y = make(l, x)
                    error = float((ours(x) - theirs(y)).abs().max())
                    sides = {
                        "": (partial(ours, x), partial(theirs, y)),
                        ", with gradient": (with_gradient(ours, x), with_gradient(theirs, y)),
                    }
                    for kind, (a, b) in sides.items():
                        name = f"{make.__name__} l <= {l}, {what}, {str(dtype)[6:]}{kind}"
                        b()
                        calls = max(1, ceil(0.005 / max(cpu_seconds(b), 1e-6)))
                        result = compare(several(b, calls), several(a, calls), repeats=options.repeats)
                        results[name] = {"ratio": result.ratio, "spread": result.spread, "error": error}
                        print(f"{name:62} {result.ratio:.2f} ({result.spread[0]:.2f}-{result.spread[1]:.2f})")
    write_result("special_functions", results)


if __name__ == "__main__":
    main()
