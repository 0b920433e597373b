"""What does topography cost in training, over the same networks without it?

Run as ``python benchmarks/topographic.py``. A training step of the published fully connected autoencoders: t made by a
topology, over t = (z + shift) / √(u² + ε) with the same two encoders and no neighbors; and over the plain VAE, which
has one encoder less. CPU seconds on one thread, interleaved, median and quartiles of the ratio of pairs. Then capsules
of a product of two cycles over a cyclic group of the same order, with the element that moves sequences stated or
inferred; and the sums over neighborhoods alone, by shifts and by a dense product.
"""

from __future__ import annotations

import argparse
import warnings

import torch
from _timing import compare, write_result

from intertwine.models import VAE, NotCyclicWarning, TopographicVAE
from intertwine.topographic import OffsetTopology, shifting_topology, stationary_topology
from intertwine.topographic._topology import _matrix

GOAL = 1.15


def step(model: torch.nn.Module, x: torch.Tensor, **options: object):
    def run() -> None:
        model.zero_grad(set_to_none=True)
        (-model(x, **options).elbo).backward()

    return run


def networks(repeats: int) -> list[dict[str, object]]:
    rows = []
    for name, image, size, topologies in (
        (
            "sprites 64 x 64, 15 x 15",
            (1, 64, 64),
            15,
            {
                "window 15": shifting_topology(15),
                "window 5": shifting_topology(5),
                "bubble 5 x 5": stationary_topology(5, 5),
            },
        ),
        (
            "digits 28 x 28, 18 x 18",
            (3, 28, 28),
            18,
            {"window 18, band 1": shifting_topology(18, band=1), "window 5, band 1": shifting_topology(5, band=1)},
        ),
        (
            "sprites 32 x 32, 12 x 12",
            (1, 32, 32),
            12,
            {"window 12": shifting_topology(12), "window 4": shifting_topology(4)},
        ),
    ):
        x = torch.rand(8, size, *image).round()
        shape = {"capsules": size, "length": size}
        alone = TopographicVAE(image, **shape, topology=stationary_topology(1, 1))
        plain = VAE(image, **shape)
        print(f"{name}, 8 sequences (CPU ms: without, with; ratio; quartiles; ratio to the VAE with one encoder)")
        for title, topology in topologies.items():
            model = TopographicVAE(image, **shape, topology=topology)
            timing = compare(step(alone, x), step(model, x), repeats=repeats)
            other = compare(step(plain, x), step(model, x), repeats=max(3, repeats // 3))
            low, high = timing.spread
            mark = "" if timing.ratio <= GOAL else "   above the goal"
            print(
                f"  {title:<20}{1e3 * timing.first:>8.1f}{1e3 * timing.second:>8.1f}{timing.ratio:>8.3f}"
                f"   {low:.3f}–{high:.3f}   {other.ratio:.2f}{mark}"
            )
            rows.append(
                {"case": f"{name}, {title}", "ratio": timing.ratio, "quartiles": [low, high], "to_vae": other.ratio}
            )
    return rows


def products(repeats: int) -> list[dict[str, object]]:
    image, rows = (3, 28, 28), []
    x = torch.rand(8, 9, *image)
    cyclic = TopographicVAE(image, capsules=2, length=81, window=6)
    both = TopographicVAE(image, capsules=2, group="C9 x C9", window=6)
    each = torch.tensor([1, 9] * 4)
    print("digits 28 x 28, 2 capsules of 81, C9 x C9 over C81 (CPU ms: C81, C9 x C9; ratio; quartiles)")
    for title, moving in (("one element", 9), ("one for each sequence", each), ("inferred", None)):
        timing = compare(step(cyclic, x), step(both, x, moving=moving), repeats=repeats)
        low, high = timing.spread
        times = f"{1e3 * timing.first:>8.1f}{1e3 * timing.second:>8.1f}"
        print(f"  {title:<24}{times}{timing.ratio:>8.3f}   {low:.3f}–{high:.3f}")
        rows.append({"case": title, "ratio": timing.ratio, "quartiles": [low, high]})
    return rows


def sums(repeats: int) -> list[dict[str, object]]:
    print("sums over neighborhoods, 8 sequences, forward and backward (CPU ms: shifts, dense product; ratio)")
    rows = []
    for size in (12, 18, 32):
        for topology in (
            shifting_topology(3),
            shifting_topology(size // 2),
            shifting_topology(size),
            shifting_topology(size, band=1),
        ):
            timing = _both(topology, size, repeats)
            share = len(topology.offsets)
            print(
                f"  {size} x {size}, {share:>3} neighbors{1e3 * timing.first:>10.2f}{1e3 * timing.second:>8.2f}"
                f"{timing.ratio:>8.2f}"
            )
            rows.append({"case": f"{size} x {size}, {share} neighbors", "dense_over_shifts": timing.ratio})
    return rows


def _both(topology: OffsetTopology, size: int, repeats: int):
    x = torch.randn(8, size, size, size, requires_grad=True)
    matrix = _matrix(topology, size, size).float()

    def shifts() -> None:
        x.grad = None
        topology.rolled(x.square()).sum().backward()

    def dense() -> None:
        x.grad = None
        flat = x.square().transpose(1, 2).flatten(2)
        (flat @ matrix.T).sum().backward()

    return compare(shifts, dense, repeats=repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", NotCyclicWarning)
    write_result("topographic", {"networks": networks(repeats), "products": products(repeats), "sums": sums(repeats)})


if __name__ == "__main__":
    main()
