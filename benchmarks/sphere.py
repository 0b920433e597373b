"""What does a convolution on the sphere cost, where does the time go, and how exact is it?

Run as ``python benchmarks/sphere.py``. CPU seconds on one thread, medians. The transform's share is measured against
the layer itself, interleaved. Where they are installed, torch-harmonics and e3nn run beside ours, on scalars: e3nn has
no vector fields, and torch-harmonics no convolutions of them. Rotation errors are relative, in float64 and float32.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from functools import partial
from importlib.util import find_spec

import torch
from _memory import peak_megabytes
from _timing import compare, cpu_seconds, write_result

from intertwine.groups import SO2, SO3
from intertwine.nn import SphereConv
from intertwine.spaces import FieldType, Sphere, SphereGrid, SpinTransform

SPHERE, H = Sphere(), SO2()
FIELDS = {"scalars": H.trivial, "vectors": H.irrep(1)}


def field(kind: str, channels: int) -> FieldType:
    rho = FIELDS[kind]
    return SPHERE.field(channels // rho.dim * rho)


def median_seconds(run, repeats: int) -> float:
    run()
    return statistics.median(cpu_seconds(run) for _ in range(repeats))


def training_step(layer: torch.nn.Module, x: torch.Tensor):
    def run() -> None:
        layer.zero_grad(set_to_none=True)
        layer(x).sum().backward()

    return run


def costs(repeats: int) -> list[dict[str, object]]:
    print("batch 8, Gauss-Legendre (CPU milliseconds: step, evaluation; the transforms' share of an evaluation)")
    rows = []
    for kind in FIELDS:
        for band_limit, channels in ((8, 16), (16, 16), (32, 16), (16, 32), (16, 64)):
            grid = SPHERE.grid("gauss-legendre", band_limit=band_limit)
            layer = SphereConv(field(kind, channels), field(kind, channels), grid)
            x = torch.randn(8, channels, *grid.shape, requires_grad=True)
            step = median_seconds(training_step(layer, x), repeats)
            timing = compare(partial(evaluation, layer, x), partial(transforms, layer, x), repeats=repeats)
            name = f"{kind}, L={band_limit}, {channels} channels"
            low, high = timing.spread
            print(
                f"  {name:<34}{1e3 * step:>9.2f}{1e3 * timing.first:>9.2f}{timing.ratio:>8.2f}   {low:.2f}–{high:.2f}"
            )
            rows.append({"case": name, "step": step, "evaluation": timing.first, "transform share": timing.ratio})
    return rows


@torch.no_grad()
def evaluation(layer: SphereConv, x: torch.Tensor) -> None:
    layer(x)


@torch.no_grad()
def transforms(layer: SphereConv, x: torch.Tensor) -> None:
    """Analysis and synthesis as the layer does them, without the matrices between."""
    layer.synthesis.tables().synthesis(layer.analysis.tables().analysis(x))


def errors() -> list[dict[str, object]]:
    print("relative rotation error by band limit (float64, float32), 3 rotations")
    rows = []
    for grid_kind in ("gauss-legendre", "equiangular"):
        for kind in FIELDS:
            for band_limit in (4, 8, 16, 32, 64):
                grid = SPHERE.grid(grid_kind, band_limit=band_limit)
                results = [rotation_error(field(kind, 2), grid, dtype) for dtype in (torch.float64, torch.float32)]
                print(f"  {grid_kind:<16}{kind:<10}L={band_limit:<4}{results[0]:.1e}  {results[1]:.1e}")
                rows.append({"grid": grid_kind, "fields": kind, "band limit": band_limit, "errors": results})
    return rows


@torch.no_grad()
def rotation_error(kind: FieldType, grid: SphereGrid, dtype: torch.dtype) -> float:
    layer = SphereConv(kind, kind, grid).to(dtype)
    transform = SpinTransform(grid, kind.rho)
    c = torch.randn(1, kind.dim, transform.size, dtype=torch.float64) * transform.exists
    worst = 0.0
    for g in SO3().sample(3):
        right = kind.transform(layer(transform.synthesis(c).to(dtype)).double(), g, grid=grid)
        left = layer(transform.synthesis(transform.rotate(c, g)).to(dtype)).double()
        worst = max(worst, float((left - right).norm() / right.norm()))
    return worst


def peers(repeats: int) -> list[dict[str, object]]:
    if find_spec("e3nn") is None:
        print("e3nn is not installed: no comparison")
        return []
    from e3nn.o3 import FromS2Grid, ToS2Grid

    print("scalar transform there and back, 128 signals: ours over e3nn's (equiangular, 2(L+1) x 2(L+1) points)")
    rows = []
    for band_limit in (8, 16, 32):
        n = 2 * (band_limit + 1)
        to, back = ToS2Grid(band_limit, (n, n - 1)), FromS2Grid((n, n - 1), band_limit)
        c = torch.randn(128, (band_limit + 1) ** 2)
        ours = SpinTransform(SPHERE.grid("equiangular", band_limit=band_limit), H.trivial)
        timing = compare(partial(_e3nn_there_and_back, to, back, c), partial(there_and_back, ours, c), repeats=repeats)
        print(f"  L={band_limit:<4}{1e3 * timing.first:>9.2f}{1e3 * timing.second:>9.2f}{timing.ratio:>8.2f}")
        rows.append({"band limit": band_limit, "ratio to e3nn": timing.ratio})
    return rows


def _e3nn_there_and_back(to: torch.nn.Module, back: torch.nn.Module, c: torch.Tensor) -> torch.Tensor:
    return back(to(c))


def there_and_back(transform: SpinTransform, c: torch.Tensor) -> torch.Tensor:
    return transform.analysis(transform.synthesis(c[:, None]))


def harmonics(repeats: int) -> list[dict[str, object]]:
    if find_spec("torch_harmonics") is None:
        print("torch-harmonics is not installed: no comparison")
        return []
    from torch_harmonics import InverseRealSHT, RealSHT

    print("scalars: ours over torch-harmonics' (transform there and back, its step, a step of a convolution)")
    rows = []
    for band_limit in (32, 64, 128, 256):
        grid = SPHERE.grid("gauss-legendre", band_limit=band_limit)
        sizes = {"lmax": band_limit + 1, "mmax": band_limit + 1, "grid": "legendre-gauss"}
        there, back = RealSHT(*grid.shape, **sizes), InverseRealSHT(*grid.shape, **sizes)
        ours = SpinTransform(grid, H.trivial)
        x = torch.randn(4, 4, *grid.shape, requires_grad=True)

        def theirs_transform(there=there, back=back, x=x):
            return back(there(x))

        def our_transform(ours=ours, x=x):
            return ours.synthesis(ours.analysis(x[:, :, None]))[:, :, 0]

        layer = SphereConv(field("scalars", 4), field("scalars", 4), grid, bias=False)

        def their_convolution(there=there, back=back, x=x, layer=layer):
            return back(torch.einsum("lij,bjlm->bilm", layer.matrices().to(torch.complex64), there(x)))

        def our_convolution(layer=layer, x=x):
            return layer(x)

        torch.testing.assert_close(their_convolution(), our_convolution(), atol=1e-3, rtol=1e-3)
        pairs = [(no_grad(theirs_transform), no_grad(our_transform)), (step(theirs_transform), step(our_transform))]
        pairs.append((step(their_convolution), step(our_convolution)))
        timings = [compare(*pair, repeats=repeats) for pair in pairs]
        shown = "".join(f"{t.ratio:>8.2f} ({t.spread[0]:.2f}–{t.spread[1]:.2f})" for t in timings)
        print(f"  L={band_limit:<4}{shown}")
        rows.append({"band limit": band_limit, "ratios": [[t.ratio, *t.spread] for t in timings]})
    return rows


def no_grad(run):
    def call() -> None:
        with torch.no_grad():
            run()

    return call


def step(run):
    def call() -> None:
        run().square().sum().backward()

    return call


def memory() -> list[dict[str, object]]:
    print("peak memory of a training step, batch 8, 16 channels (MB above layer and input)")
    rows = []
    for kind in FIELDS:
        for band_limit in (16, 32, 64):
            done = subprocess.run(
                [sys.executable, __file__, "--peak", kind, str(band_limit)], capture_output=True, text=True, check=True
            )
            peak = float(done.stdout)
            print(f"  {kind:<10}L={band_limit:<4}{peak:>8.0f}")
            rows.append({"fields": kind, "band limit": band_limit, "megabytes": peak})
    return rows


def peak(kind: str, band_limit: int) -> None:
    grid = SPHERE.grid("gauss-legendre", band_limit=band_limit)
    layer = SphereConv(field(kind, 16), field(kind, 16), grid)
    print(peak_megabytes(training_step(layer, torch.randn(8, 16, *grid.shape, requires_grad=True))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--peak", nargs=2, metavar=("FIELDS", "L"), help="used by the program itself")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if options.peak:
        return peak(options.peak[0], int(options.peak[1]))
    write_result(
        "sphere",
        {
            "costs": costs(options.repeats),
            "errors": errors(),
            "peers": peers(options.repeats),
            "torch-harmonics": harmonics(options.repeats),
            "memory": memory(),
        },
    )


if __name__ == "__main__":
    main()
