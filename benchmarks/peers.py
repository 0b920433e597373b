"""Our convolutions and those of escnn and e3nn, over the plain convolution of the same width, in one run.

Run as ``python benchmarks/peers.py`` in an environment that has the peers; those that are missing are left out. escnn
needs numpy below 2, and a Fortran compiler or ``pip install --no-deps escnn`` with lie_learn, joblib, pymanopt and
autograd beside it. CPU seconds on one thread; plain, ours and theirs in turn, median of the ratios to plain in each
round. Construction is timed once, in this process, with empty caches of ours and whatever escnn kept on its disk.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec

os.environ["INTERTWINE_CACHE"] = "off"

import torch
from _timing import cpu_seconds, write_result

from intertwine.groups import SO3, Cyclic, Dihedral, FiniteGroup, Icosahedral, Octahedral, direct_sum
from intertwine.nn import Conv2d, Conv3d
from intertwine.spaces import Grid2d, Grid3d

Maker = Callable[[], Callable[[torch.Tensor], torch.Tensor]]


def planar(group: FiniteGroup, k: int) -> dict[str, Maker]:
    """64 channels of regular fields."""
    n = 64 // group.order

    def ours() -> torch.nn.Module:
        field = Grid2d(group).field(n * group.regular)
        return Conv2d(field, field, k, padding=k // 2)

    def escnn() -> Callable[[torch.Tensor], torch.Tensor]:
        from escnn import gspaces, nn

        turns = group.order if isinstance(group, Cyclic) else group.order // 2
        space = gspaces.rot2dOnR2(turns) if isinstance(group, Cyclic) else gspaces.flipRot2dOnR2(turns)
        field = nn.FieldType(space, n * [space.regular_repr])
        return wrapped(nn.R2Conv(field, field, k, padding=k // 2), field)

    return {"plain": lambda: torch.nn.Conv2d(64, 64, k, padding=k // 2), "ours": ours, "escnn": escnn}


def spatial(group: FiniteGroup, n: int, k: int) -> dict[str, Maker]:
    """n regular fields of a finite group of rotations."""
    channels = n * group.order

    def ours() -> torch.nn.Module:
        field = Grid3d(group).field(n * group.regular)
        return Conv3d(field, field, k, padding=k // 2)

    def escnn() -> Callable[[torch.Tensor], torch.Tensor]:
        from escnn import gspaces, nn

        space = gspaces.octaOnR3() if isinstance(group, Octahedral) else gspaces.icoOnR3()
        field = nn.FieldType(space, n * [space.regular_repr])
        return wrapped(nn.R3Conv(field, field, k, padding=k // 2), field)

    return {"plain": lambda: torch.nn.Conv3d(channels, channels, k, padding=k // 2), "ours": ours, "escnn": escnn}


def irreducible(n: int, k: int) -> dict[str, Maker]:
    """n copies of degrees 0, 1 and 2 of SO(3)."""

    def ours() -> torch.nn.Module:
        group = SO3()
        rho = direct_sum([n * group.irrep(l) for l in range(3)])
        field = Grid3d(group).field(rho)
        return Conv3d(field, field, k, padding=k // 2)

    def escnn() -> Callable[[torch.Tensor], torch.Tensor]:
        from escnn import gspaces, nn

        space = gspaces.rot3dOnR3()
        field = nn.FieldType(space, [space.irrep(l) for l in range(3) for _ in range(n)])
        return wrapped(nn.R3Conv(field, field, k, padding=k // 2), field)

    def e3nn() -> torch.nn.Module:
        from e3nn.nn.models.v2104.voxel_convolution import Convolution

        irreps = f"{n}x0e + {n}x1o + {n}x2e"
        return Convolution(irreps, irreps, "0e + 1o + 2e", diameter=k, num_radial_basis=k // 2 + 1, steps=(1, 1, 1))

    return {
        "plain": lambda: torch.nn.Conv3d(9 * n, 9 * n, k, padding=k // 2),
        "ours": ours,
        "escnn": escnn,
        "e3nn": e3nn,
    }


def wrapped(layer: torch.nn.Module, field: object) -> Callable[[torch.Tensor], torch.Tensor]:
    """A layer of escnn as a function of plain tensors, with its own wrapper in the time."""
    from escnn.nn import GeometricTensor

    return lambda x: layer(GeometricTensor(x, field)).tensor


def cases() -> list[tuple[str, dict[str, Maker], tuple[int, ...]]]:
    cases = []
    for group in (Cyclic(4), Dihedral(4), Cyclic(8), Cyclic(16)):
        for shape in ((16, 64, 32, 32), (1, 64, 32, 32), (16, 64, 8, 8)):
            cases.append((f"{group.name} k=5, {shape[0]} x {shape[2]}²", planar(group, 5), shape))
    for n, k in ((1, 3), (2, 3), (2, 5)):
        cases.append((f"octahedral x{n} k={k}", spatial(Octahedral(), n, k), (2, 24 * n, 16, 16, 16)))
    cases.append(("icosahedral x1 k=3", spatial(Icosahedral(), 1, 3), (2, 60, 12, 12, 12)))
    cases.append(("SO(3) 4 x (0+1+2) k=5", irreducible(4, 5), (2, 36, 16, 16, 16)))
    return cases


def step(layer: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Callable[[], None]:
    return lambda: layer(x).sum().backward()


def forward(layer: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Callable[[], object]:
    return lambda: layer(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--only", help="a part of the name of the cases to run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    present = {"plain", "ours", *(name for name in ("escnn", "e3nn") if find_spec(name))}
    print(f"over plain, median (quartiles) of {options.repeats} rounds, 1 thread: forward in training, training step")
    rows = []
    for name, makers, shape in cases():
        if options.only and options.only not in name:
            continue
        made, seconds = {}, {}
        for side, make in makers.items():
            if side in present:
                start = time.process_time()
                made[side] = make()
                seconds[side] = time.process_time() - start
        x = torch.randn(*shape, requires_grad=True)
        row: dict[str, object] = {"case": name, "construction": seconds}
        for what, run in (("forward", forward), ("step", step)):
            rounds = [
                {side: cpu_seconds(run(layer, x)) for side, layer in made.items()} for _ in range(options.repeats + 1)
            ][1:]
            for side in made.keys() - {"plain"}:
                ratios = sorted(r[side] / r["plain"] for r in rounds)
                quartiles = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
                row[f"{what} {side}"] = [statistics.median(ratios), *quartiles]
        rows.append(row)
        for side in sorted(made.keys() - {"plain"}, key=list(makers).index):
            (f, f1, f2), (s, s1, s2) = row[f"forward {side}"], row[f"step {side}"]  # type: ignore[misc]
            figures = f"{f:6.2f} ({f1:.2f}–{f2:.2f}) {s:6.2f} ({s1:.2f}–{s2:.2f})"
            print(f"  {name:<26}{side:<7}{figures}   made in {seconds[side]:.2f} s", flush=True)
    write_result("peers", {"peers": sorted(present), "rows": rows})


if __name__ == "__main__":
    main()
