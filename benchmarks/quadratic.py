"""Are products of fields and Fourier nonlinearities as fast without gradients as with, and as fast as e3nn's?

Run as ``python benchmarks/quadratic.py``. Values without space, ``(N, d)``, as a graph network has them. The first part
is the time of a call without gradients over that of a call that records them, both forward only: a layer that takes
longer to do less is at fault. The second is a training step of ``TensorProduct`` from n fields of each degree of SO(3)
to the same, over the same step with one filter on all products instead of path by path, and over those of
``e3nn.o3.TensorSquare`` and ``e3nn.o3.FullyConnectedTensorProduct(x, x)`` if e3nn is installed. CPU seconds on one
thread, interleaved, median and quartiles of the ratio of pairs.
"""

from __future__ import annotations

import copy
from functools import partial
from importlib.util import find_spec

import torch
from _timing import Comparison, compare, write_result

from intertwine import nn
from intertwine.groups import SO3, direct_sum
from intertwine.spaces import FieldType, Grid3d

BATCH = 2000


def field(copies: int, degrees: int = 3) -> FieldType:
    group = SO3()
    return Grid3d(group).field(direct_sum(copies * group.irrep(degree) for degree in range(degrees)))


def with_a_filter(layer: nn.TensorProduct) -> nn.TensorProduct:
    """The same layer, one filter on all products."""
    twin = copy.deepcopy(layer)
    twin.paths.paths = torch.nn.ModuleDict()
    return twin


def forward(layer: torch.nn.Module, x: torch.Tensor, gradients: bool) -> None:
    with torch.set_grad_enabled(gradients):
        layer(x)


def step(layer: torch.nn.Module, x: torch.Tensor) -> None:
    layer.zero_grad(set_to_none=True)
    layer(x).square().mean().backward()


def shown(what: str, timing: Comparison) -> list[float]:
    print(f"{what}: {timing.ratio:.2f} ({timing.spread[0]:.2f}-{timing.spread[1]:.2f})", flush=True)
    return [timing.ratio, *timing.spread]


def main() -> None:
    torch.set_num_threads(1)
    result: dict[str, object] = {}
    functions = Grid3d(SO3()).field(4 * nn.band_limited_quotient(SO3(), 2))
    layers = {f"TensorProduct {n}": nn.TensorProduct(field(n), field(n)) for n in (2, 4)}
    layers |= {"TensorSquare 8": nn.TensorSquare(field(8)), "FourierNonlinearity": nn.FourierNonlinearity(functions)}
    layers |= {"ToIrreps": nn.ToIrreps(Grid3d(SO3()).field(8 * (SO3().irrep(1) @ SO3().irrep(1))))}
    for name, layer in layers.items():
        x = torch.randn(BATCH, layer.in_type.dim)
        y = x.clone().requires_grad_()
        timing = compare(partial(forward, layer.eval(), y, True), partial(forward, layer.eval(), x, False), repeats=9)
        result[name] = shown(f"{name}, without gradients over with", timing)
    for degrees, copies in ((2, 8), (2, 16), (2, 32), (3, 2), (3, 4), (3, 8), (3, 16)):
        ours = nn.TensorProduct(field(copies, degrees), field(copies, degrees))
        x = torch.randn(500, ours.in_type.dim, requires_grad=True)
        title = f"TensorProduct, {copies} copies of degrees below {degrees}, step over"
        for name, other in others(ours, copies, degrees).items():
            timing = compare(partial(step, other, x), partial(step, ours, x), repeats=9)
            result[f"{copies} x {degrees} over {name}"] = shown(f"{title} {name}", timing)
    write_result("quadratic", result)


def others(ours: nn.TensorProduct, copies: int, degrees: int) -> dict[str, torch.nn.Module]:
    """What does the same as our layer."""
    results: dict[str, torch.nn.Module] = {"one filter": with_a_filter(ours)} if ours.paths.paths else {}
    if find_spec("e3nn") is not None:
        from e3nn import o3

        irreps = o3.Irreps(" + ".join(f"{copies}x{degree}e" for degree in range(degrees)))
        results["e3nn's square"] = o3.TensorSquare(irreps, irreps)
        results["e3nn's product"] = Twice(o3.FullyConnectedTensorProduct(irreps, irreps, irreps))
    return results


class Twice(torch.nn.Module):
    """A product of two inputs, of one with itself."""

    def __init__(self, product: torch.nn.Module) -> None:
        super().__init__()
        self.product = product

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.product(x, x)


if __name__ == "__main__":
    main()
