"""What does a low-rank layer cost beside a convolution, by either path and converted, and how does the cost grow?

Run as ``python benchmarks/low_rank.py``. CPU seconds on one thread, every layer in turn with the plain convolution of
the same channels; the median of the ratios of pairs, with quartiles. First all ways over the rank, then a training step
by both paths, then what the rule of the layer chooses and how far that is from the best, then the growth with places,
channels and rank.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import torch
from _timing import compare, write_result
from torch import Tensor, nn

from intertwine._cost_rules import building_pays
from intertwine.relaxed import LowRankLocalConv2d, flops_against_rank

SHAPES = ((3, 64, 32), (64, 64, 7), (32, 32, 13), (64, 64, 28))


def forward(layer: nn.Module, x: Tensor) -> Callable[[], object]:
    def run() -> object:
        with torch.no_grad():
            return layer(x)

    return run


def step(layer: nn.Module, x: Tensor) -> Callable[[], object]:
    def run() -> None:
        layer.zero_grad()
        layer(x).square().mean().backward()

    return run


def made(channels: int, width: int, side: int, rank: int, path: str) -> LowRankLocalConv2d:
    return LowRankLocalConv2d(channels, width, 3, rank=rank, input_size=side, path=path)  # type: ignore[arg-type]


def ratio_to_conv(
    layer: nn.Module, channels: int, width: int, x: Tensor, repeats: int, how: Callable[..., Callable[[], object]]
) -> dict[str, object]:
    conv = nn.Conv2d(channels, width, 3)
    timing = compare(how(conv, x), how(layer, x), repeats=repeats)
    return {
        "conv_ms": 1000 * timing.first,
        "ms": 1000 * timing.second,
        "ratio": timing.ratio,
        "spread": timing.spread,
    }


def by_rank(ranks: list[int], batch: int, repeats: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for training in (False, True):
        print(f"{'training step' if training else 'inference'}, batch {batch}, times a plain convolution (quartiles)")
        print(
            f"  {'in, out, side':<16}{'K':>3}{'conv ms':>9}  {'conv path':<20}{'build path':<20}{'converted':<20}rule"
        )
        how = step if training else forward
        for channels, width, side in SHAPES:
            if training and side == 28:
                continue  # minutes
            x = torch.randn(batch, channels, side, side)
            for rank in ranks:
                ways: dict[str, nn.Module] = {
                    path: made(channels, width, side, rank, path) for path in ("conv", "build")
                }
                if not training:
                    ways["converted"] = made(channels, width, side, rank, "conv").to_locally_connected()
                results = {name: ratio_to_conv(layer, channels, width, x, repeats, how) for name, layer in ways.items()}
                pays = building_pays(rank, positions=(side - 2) ** 2, fan=9 * channels, width=width, batch=batch)
                chosen = "build" if pays else "conv"
                cells = "".join(
                    f"{cell['ratio']:5.2f} ({cell['spread'][0]:.2f}–{cell['spread'][1]:.2f})".ljust(20)  # type: ignore[index]
                    for cell in results.values()
                )
                conv_ms = results["conv"]["conv_ms"]
                blank = " " * 20 if training else ""
                print(f"  {f'{channels}, {width}, {side}':<16}{rank:>3}{conv_ms:>9.2f}  {cells}{blank}{chosen}")
                rows.append(
                    {
                        "training": training,
                        "in": channels,
                        "out": width,
                        "side": side,
                        "rank": rank,
                        "rule": chosen,
                        **results,
                    }
                )
    return rows


def regret(rows: list[dict[str, object]]) -> float:
    """How many times more than the faster path the rule takes, a geometric mean."""
    logs = []
    for row in rows:
        ratios = {name: row[name]["ratio"] for name in ("conv", "build")}  # type: ignore[index]
        logs.append(math.log(ratios[row["rule"]] / min(ratios.values())))  # type: ignore[index]
    mean, worst = math.exp(sum(logs) / len(logs)), math.exp(max(logs))
    print(f"the rule over the faster path: {mean:.2f} in the mean, {worst:.2f} at worst")
    return mean


def exponent(name: str, sizes: list[int], build: Callable[[int], tuple[nn.Module, Tensor]], repeats: int) -> float:
    """The power of growth between the first and the last size, both in turn."""
    first, last = (forward(*build(size)) for size in (sizes[0], sizes[-1]))
    timing = compare(first, last, repeats=repeats)
    power = math.log(timing.ratio) / math.log(sizes[-1] / sizes[0])
    print(f"  {name:<44}{sizes[0]:>5} → {sizes[-1]:<5}{timing.ratio:>8.1f} times   power {power:.2f}")
    return power


def growth(batch: int, repeats: int) -> dict[str, float]:
    print("growth at inference")

    def low_rank(path: str, channels: int = 32, side: int = 14, rank: int = 4) -> tuple[nn.Module, Tensor]:
        return made(channels, channels, side, rank, path), torch.randn(batch, channels, side, side)

    def local(channels: int = 32, side: int = 14, rank: int = 4) -> tuple[nn.Module, Tensor]:
        layer = made(channels, channels, side, rank, "conv").to_locally_connected()
        return layer, torch.randn(batch, channels, side, side)

    results = {}
    for path in ("conv", "build"):
        results[f"rank, {path}"] = exponent(
            f"rank, {path} path", [1, 8], lambda k, p=path: low_rank(p, rank=k), repeats
        )
        results[f"places, {path}"] = exponent(
            f"places (side - 2)², {path} path",
            [64, 676],
            lambda n, p=path: low_rank(p, side=2 + math.isqrt(n)),
            repeats,
        )
        results[f"channels, {path}"] = exponent(
            f"channels in and out, {path} path", [16, 64], lambda c, p=path: low_rank(p, channels=c), repeats
        )
    results["rank, converted"] = exponent("rank, converted", [1, 8], lambda k: local(rank=k), repeats)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--ranks", type=int, nargs="+", default=list(range(1, 9)))
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = by_rank(options.ranks, options.batch, options.repeats)
    mean = regret(rows)
    powers = growth(options.batch, options.repeats)
    flops = [vars(cost) for cost in flops_against_rank(64, 64, 3, input_size=28, ranks=tuple(options.ranks))]
    result = {"question": __doc__.splitlines()[0], "rows": rows, "rule_over_best": mean, "growth": powers}
    write_result("low_rank", {**result, "flops": flops})


if __name__ == "__main__":
    main()
