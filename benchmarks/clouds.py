"""How fast are convolutions on point clouds, and how much memory do they take, next to e3nn?

Run as ``python benchmarks/clouds.py [--channels 32] [--edges 1000] [--degrees 1 2 3 4 5 6]``. For each degree L, the
fields are n copies of every degree up to L, with 20 edges per point and radial networks of equal shape. The layers:

- ``tw.nn.PointConv``: in the frame of each edge;
- e3nn's ``FullyConnectedTensorProduct`` with the harmonics up to L, one set of weights per edge from the radial
  network: it mixes all copies on every edge. Left out where the weights of one pass would exceed ``--limit`` bytes;
- e3nn's ``TensorProduct`` copy by copy ("uvu"), followed by ``Linear`` on the points, as interatomic potentials use it.

Time is CPU seconds on one thread of a training step and of a forward pass without gradients, harmonics and Wigner
matrices included; interleaved, median and quartiles of the ratio of pairs (above 1: ours is faster). Memory is the peak
of allocations during one training step, from torch's profiler.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import torch
from _timing import compare, write_result
from e3nn import o3
from torch import Tensor

from intertwine.nn import PointConv
from intertwine.spaces import Cloud3d

HIDDEN, FUNCTIONS = 64, 8


class E3nnConv(torch.nn.Module):
    """A convolution in e3nn. ``depthwise``: copy by copy on the edges, mixed on the points."""

    def __init__(self, degree: int, channels: int, *, depthwise: bool) -> None:
        super().__init__()
        fields = o3.Irreps([(channels, (l, 1)) for l in range(degree + 1)])
        self.harmonics = o3.Irreps([(1, (l, 1)) for l in range(degree + 1)])
        self.mix: torch.nn.Module = torch.nn.Identity()
        if depthwise:
            paths = [
                (i, j, k) for i, (_, a) in enumerate(fields) for j, (_, b) in enumerate(self.harmonics) for k in a * b
            ]
            paths = [(i, j, k) for i, j, k in paths if k.l <= degree]
            products = o3.Irreps([(channels, k) for _, _, k in paths])
            rules = [(i, j, number, "uvu", True) for number, (i, j, _) in enumerate(paths)]
            self.product = o3.TensorProduct(
                fields, self.harmonics, products, rules, shared_weights=False, internal_weights=False
            )
            self.mix = o3.Linear(products, fields)
        else:
            self.product = o3.FullyConnectedTensorProduct(
                fields, self.harmonics, fields, shared_weights=False, internal_weights=False
            )
        self.radial = torch.nn.Sequential(
            torch.nn.Linear(FUNCTIONS, HIDDEN), torch.nn.SiLU(), torch.nn.Linear(HIDDEN, self.product.weight_numel)
        )

    def forward(self, x: Tensor, positions: Tensor, edges: Tensor) -> Tensor:
        vectors = positions[edges[0]] - positions[edges[1]]
        harmonics = o3.spherical_harmonics(self.harmonics, vectors, True, "component")
        centers = torch.linspace(0, 1, FUNCTIONS)
        basis = torch.exp(-(vectors.norm(dim=1)[:, None] - centers).square() * FUNCTIONS**2)
        sent = self.product(x[edges[0]], harmonics, self.radial(basis))
        return self.mix(sent.new_zeros(len(x), sent.shape[1]).index_add(0, edges[1], sent))


def step(layer: Callable[..., Tensor], x: Tensor, positions: Tensor, edges: Tensor) -> None:
    layer(x, positions, edges).square().mean().backward()


@torch.no_grad()
def forward(layer: Callable[..., Tensor], x: Tensor, positions: Tensor, edges: Tensor) -> None:
    layer(x, positions, edges)


def peak_bytes(action: Callable[[], None]) -> int:
    """The largest amount of memory that tensors made during ``action`` held at one time."""
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        action()
    held = peak = 0
    for event in profile.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--edges", type=int, default=1000)
    parser.add_argument("--degrees", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--limit", type=float, default=1.5e9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    n, count = options.channels, options.edges
    rows = []
    print(f"{n} copies of each degree, {count} edges; ratio of e3nn over ours: step, forward, memory of a step")
    for degree in options.degrees:
        space = Cloud3d("SO(3)")
        field = space.field(" + ".join(f"{n}*irrep{l}" for l in range(degree + 1)))
        ours = PointConv(field, field, radius=1.0, hidden=(HIDDEN,), functions=FUNCTIONS)
        points = max(2, count // 20)
        positions, edges = torch.rand(points, 3), torch.randint(points, (2, count))
        x = torch.randn(points, field.dim, requires_grad=True)
        case = x, positions, edges
        memory = peak_bytes(partial(step, ours, *case))
        print(f"degree {degree}: ours {memory / 1e6:.0f} MB", flush=True)
        for name, depthwise in (("fully connected", False), ("copy by copy", True)):
            peer = E3nnConv(degree, n, depthwise=depthwise)
            if 3 * 4 * count * peer.product.weight_numel > options.limit:
                print(f"  {name}: {peer.product.weight_numel} weights per edge, left out", flush=True)
                continue
            theirs = peak_bytes(partial(step, peer, *case))
            times = {
                kind.__name__: compare(partial(kind, ours, *case), partial(kind, peer, *case), repeats=options.repeats)
                for kind in (step, forward)
            }
            text = ", ".join(f"{k} {c.ratio:.2f} ({c.spread[0]:.2f}-{c.spread[1]:.2f})" for k, c in times.items())
            print(f"  {name}: {text}, memory {theirs / memory:.2f}", flush=True)
            figures = {k: [c.ratio, *c.spread] for k, c in times.items()}
            rows.append({"degree": degree, "peer": name, **figures, "memory": theirs / memory, "ours_bytes": memory})
    write_result(f"clouds-{n}-{count}", {"channels": n, "edges": count, "rows": rows})


if __name__ == "__main__":
    main()
