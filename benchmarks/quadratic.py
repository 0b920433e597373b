"""Are products of fields and Fourier nonlinearities as fast without gradients as with, and as fast as e3nn's?

Run as ``python benchmarks/quadratic.py``. Values without space, ``(N, d)``, as a graph network has them. The first part
is the time of a call without gradients over that of a call that records them, both forward only: a layer that takes
longer to do less is at fault. The second is a training step of ``TensorProduct`` from n (0 + 1 + 2) of SO(3) to the
same over one of ``e3nn.o3.TensorSquare``, if e3nn is installed. CPU seconds on one thread, interleaved, median and
quartiles of the ratio of pairs.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

import torch
from _timing import Comparison, compare, write_result

from intertwine import nn
from intertwine.groups import SO3, direct_sum
from intertwine.spaces import FieldType, Grid3d

BATCH = 2000


def field(copies: int) -> FieldType:
    group = SO3()
    return Grid3d(group).field(direct_sum(copies * group.irrep(degree) for degree in range(3)))


def forward(layer: torch.nn.Module, x: torch.Tensor, gradients: bool) -> None:
    with torch.set_grad_enabled(gradients):
        layer(x)


def step(layer: torch.nn.Module, x: torch.Tensor) -> None:
    layer.zero_grad(set_to_none=True)
    layer(x).square().mean().backward()


def shown(what: str, found: Comparison) -> list[float]:
    print(f"{what}: {found.ratio:.2f} ({found.spread[0]:.2f}-{found.spread[1]:.2f})", flush=True)
    return [found.ratio, *found.spread]


def main() -> None:
    torch.set_num_threads(1)
    result: dict[str, object] = {}
    functions = Grid3d(SO3()).field(4 * nn.band_limited_quotient(SO3(), 2))
    layers = {f"TensorProduct {n}": nn.TensorProduct(field(n), field(n)) for n in (2, 4)}
    layers |= {"TensorSquare 8": nn.TensorSquare(field(8)), "FourierNonlinearity": nn.FourierNonlinearity(functions)}
    layers |= {"Disentangle": nn.Disentangle(Grid3d(SO3()).field(8 * (SO3().irrep(1) @ SO3().irrep(1))))}
    for name, layer in layers.items():
        x = torch.randn(BATCH, layer.in_type.dim)
        y = x.clone().requires_grad_()
        found = compare(partial(forward, layer.eval(), y, True), partial(forward, layer.eval(), x, False), repeats=9)
        result[name] = shown(f"{name}, without gradients over with", found)
    if find_spec("e3nn") is not None:
        from e3nn import o3

        for copies in (2, 4, 8):
            irreps = o3.Irreps(f"{copies}x0e + {copies}x1e + {copies}x2e")
            theirs, ours = o3.TensorSquare(irreps, irreps), nn.TensorProduct(field(copies), field(copies))
            x = torch.randn(500, irreps.dim, requires_grad=True)
            found = compare(partial(step, theirs, x), partial(step, ours, x), repeats=9)
            result[f"e3nn {copies}"] = shown(f"TensorProduct, {copies} copies, step over e3nn's", found)
    write_result("quadratic", result)


if __name__ == "__main__":
    main()
