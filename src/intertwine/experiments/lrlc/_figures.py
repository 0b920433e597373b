"""Figures of the experiments on low-rank layers, from whichever runs are finished."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from torch import Tensor

from ..._figures import Figure, Panel, Panels, Plot, Series, Table
from ...relaxed import flops_against_rank
from ..lab._arrays import load_arrays
from ..lab._classifier import PARAMETERS
from ..lab._experiment import FinishedRun
from ._maps import IMAGES
from ._table import LAYERS, MOVED, TEST

_ACCURACY = "test accuracy (%)"
_FAMILIES = {
    "conv": "convolution",
    "conv-fc": "convolution, all places",
    "coord": "CoordConv",
    "bias": "+ spatial bias",
    "lrlc": "LRLC",
    "wide": "wide convolution",
    "input": "input-dependent LRLC",
    "lc": "locally connected",
}
_RANKS = range(1, 9)
_MAPPED = ("lrlc-l3", "lrlc-l2", "lrlc-l1", "lrlc-all")  # the first that kept maps is shown
_MAPPED_BY_INPUT = ("input-l3", "input-l2", "input-l1")


def figures(runs: Sequence[FinishedRun]) -> list[Figure]:
    """Accuracy by size, cost by rank, what layers combine where; and, where it was measured, what shifts cost."""
    found: list[Figure] = [*accuracy_by_size(runs), cost_by_rank(), *maps(runs), *moved_table(runs)]
    return found


def values(runs: Iterable[FinishedRun], row: str, metric: str) -> list[float]:
    """What the seeds of a row found."""
    return [run.metrics[metric] for run in runs if run.row == row and metric in run.metrics]


def accuracy_by_size(runs: Sequence[FinishedRun]) -> list[Figure]:
    """Test accuracy against the number of trained weights, a series for each family of layers."""
    points: dict[str, list[tuple[float, list[float]]]] = {title: [] for title in _FAMILIES.values()}
    for name in LAYERS:
        sizes, seen = values(runs, name, PARAMETERS.name), values(runs, name, TEST.name)
        if sizes and seen:
            points[_FAMILIES[_family(name)]].append((sizes[0], seen))
    series = [Series(title, found, joined=False) for title, found in points.items() if found]
    if not series:
        return []
    caption = "Each mark is a row; the rows of a family differ in the layer that is exchanged. What a wide convolution "
    caption += "reaches with as many weights is no merit of low rank."
    return [Plot("accuracy against size", "trained weights", _ACCURACY, series, caption, x_scale="log")]


def _family(row: str) -> str:
    return row if row in _FAMILIES else row.partition("-")[0]


def cost_by_rank() -> Plot:
    """Products and sums of one layer at inference, computed: the third layer of the paper's network on CIFAR-10."""
    costs = flops_against_rank(64, 64, 3, input_size=28, ranks=_RANKS)

    def series(title: str, value: Callable[[int], int]) -> Series:
        return Series(title, [(cost.rank, [value(k) / 1e6]) for k, cost in enumerate(costs)])

    return Plot(
        "cost of one layer at inference",
        "rank K",
        "million products and sums an image",
        [
            series("LRLC, converted", lambda k: costs[k].converted),
            series("wide convolution", lambda k: costs[k].wide),
            series("LRLC, as trained", lambda k: costs[k].low_rank),
            series("input-dependent LRLC", lambda k: costs[k].input_low_rank),
        ],
        "Computed, not timed: 64 to 64 channels, 3 x 3, on maps of 28 x 28. Written out as a locally connected one, a "
        "low-rank layer costs as much as one convolution, whatever its rank.",
    )


def maps(runs: Sequence[FinishedRun]) -> list[Figure]:
    """Combining weights of the first rows that kept some, of their first seed."""
    found: list[Figure] = []
    for rows in (_MAPPED, _MAPPED_BY_INPUT):
        kept = next(((run, arrays) for row in rows for run, arrays in _kept(runs, row)), None)
        if kept is not None:
            found.append(_panels(kept[0], kept[1]))
    return found


def _kept(runs: Sequence[FinishedRun], row: str) -> Iterable[tuple[FinishedRun, Mapping[str, Tensor]]]:
    for run in sorted((run for run in runs if run.row == row), key=lambda run: run.seed):
        arrays = load_arrays(run.folder)
        if arrays:
            yield run, arrays


def _panels(run: FinishedRun, arrays: Mapping[str, Tensor]) -> Panels:
    rows: list[tuple[str, list[Panel]]] = []
    for name in sorted(set(arrays) - {IMAGES}):
        block, weights = name.rpartition("-")[2], arrays[name]
        if weights.dim() == 3:
            rows.append((f"layer {block}", [Panel(bank, f"bank {k}") for k, bank in enumerate(weights, 1)]))
            continue
        for number, (image, banks) in enumerate(zip(arrays[IMAGES], weights, strict=True)):
            shown = [Panel(_picture(image), "image"), *(Panel(bank, f"bank {k}") for k, bank in enumerate(banks, 1))]
            rows.append(("" if number else f"layer {block}", shown))
    where = "of one image in each row" if IMAGES in arrays else "which are the same for all images"
    title = LAYERS[run.row][0] if run.row in LAYERS else run.row.replace("rank-", "LRLC, rank ")
    return Panels(
        f"what is combined where: {title}",
        rows,
        "amount",
        f"Combining weights of each filter bank at each place, {where}; seed {run.seed}. At every place they add up "
        "to 1. A convolution would have one color in each map.",
    )


def _picture(image: Tensor) -> Tensor:
    """Gray images as colors, so that the scale of the maps is not theirs."""
    return image.expand(3, -1, -1).clamp(0, 1)


def moved_table(runs: Sequence[FinishedRun]) -> list[Figure]:
    """What each layer 3 reaches on images in their place and shifted, trained on the former and on the latter."""
    rows = []
    for name in ("conv", "wide-l3", "lrlc-l3", "input-l3", "lc-l3"):
        columns = ((name, TEST.name), (name, MOVED.name), (f"shifted-{name}", TEST.name))
        found = [values(runs, row, metric) for row, metric in columns]
        if found[1]:
            seeds = f"{len(found[0])} and {len(found[2])}"
            rows.append([LAYERS[name][0], *(sum(seen) / len(seen) if seen else None for seen in found), seeds])
    if not rows:
        return []
    return [
        Table(
            "trained in place or shifted, tested in place or shifted",
            (
                "layer",
                "in place, tested in place (%)",
                "in place, tested shifted (%)",
                "shifted, tested shifted (%)",
                "seeds",
            ),
            rows,
            "Mean test accuracy over the finished seeds of networks trained in place and shifted. Layers that know "
            "where they are lose most on shifts that they were not trained on.",
        )
    ]


def rank_figures(runs: Sequence[FinishedRun]) -> list[Figure]:
    """Accuracy by rank beside the convolution of matching size; cost by rank; what some ranks combine where."""
    found: list[Figure] = []
    series = []
    for title, prefix in (("LRLC", "rank"), ("wide convolution of matching size", "wide")):
        points = [(rank, values(runs, f"{prefix}-{rank}", TEST.name)) for rank in _RANKS]
        series.append(Series(title, [(rank, seen) for rank, seen in points if seen]))
    ends = float(_RANKS[0]), float(_RANKS[-1])
    for title, row in (("convolution", "wide-1"), ("locally connected", "lc")):
        if seen := values(runs, row, TEST.name):
            series.append(Series(title, [(x, seen) for x in ends]))
    if any(each.points for each in series):
        caption = (
            "Rank 1 is a convolution with a spatial bias. The level lines are the two ends between which rank leads; "
            "they have no rank."
        )
        found.append(Plot("accuracy against rank", "rank K", _ACCURACY, series, caption))
    found.append(cost_by_rank())
    for rank in (2, 4):
        kept = next(iter(_kept(runs, f"rank-{rank}")), None)
        if kept is not None:
            found.append(_panels(kept[0], kept[1]))
    return found
