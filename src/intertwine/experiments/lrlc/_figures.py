"""Figures of the experiments on low-rank layers, drawn from whichever runs are finished."""

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
    "conv-fc": "convolution, all positions",
    "coord": "CoordConv",
    "bias": "+ spatial bias",
    "lrlc": "LRLC",
    "wide": "wide convolution",
    "input": "input-dependent LRLC",
    "lc": "locally connected",
}
_RANKS = range(1, 9)
_MAPPED = ("lrlc-l3", "lrlc-l2", "lrlc-l1", "lrlc-all")  # the first row that saved maps is shown
_MAPPED_BY_INPUT = ("input-l3", "input-l2", "input-l1")


def figures(runs: Sequence[FinishedRun]) -> list[Figure]:
    """Accuracy by size, cost by rank, combining weights by position and, if measured, the cost of shifts."""
    return [*accuracy_by_size(runs), cost_by_rank(), *maps(runs), *moved_table(runs)]


def values(runs: Iterable[FinishedRun], row: str, metric: str) -> list[float]:
    """A metric of each seed of a row."""
    return [run.metrics[metric] for run in runs if run.row == row and metric in run.metrics]


def accuracy_by_size(runs: Sequence[FinishedRun]) -> list[Figure]:
    """Test accuracy against the number of trained weights, one series per family of layers."""
    points: dict[str, list[tuple[float, list[float]]]] = {title: [] for title in _FAMILIES.values()}
    for name in LAYERS:
        sizes, accuracies = values(runs, name, PARAMETERS.name), values(runs, name, TEST.name)
        if sizes and accuracies:
            points[_FAMILIES[_family(name)]].append((sizes[0], accuracies))
    series = [Series(title, marks, joined=False) for title, marks in points.items() if marks]
    if not series:
        return []
    caption = "Each mark is a row; the rows of a family differ in the layer that is exchanged. What a wide convolution "
    caption += "reaches with as many weights is not due to low rank."
    return [Plot("accuracy against size", "trained weights", _ACCURACY, series, caption, x_scale="log")]


def _family(row: str) -> str:
    return row if row in _FAMILIES else row.partition("-")[0]


def cost_by_rank() -> Plot:
    """The computed cost of one layer at inference: the third layer of the paper's network on CIFAR-10."""
    costs = flops_against_rank(64, 64, 3, input_size=28, ranks=_RANKS)

    def series(title: str, value: Callable[[int], int]) -> Series:
        return Series(title, [(cost.rank, [value(k) / 1e6]) for k, cost in enumerate(costs)])

    return Plot(
        "cost of one layer at inference",
        "rank K",
        "million products and sums per image",
        [
            series("LRLC, converted", lambda k: costs[k].converted),
            series("wide convolution", lambda k: costs[k].wide),
            series("LRLC, as trained", lambda k: costs[k].low_rank),
            series("input-dependent LRLC", lambda k: costs[k].input_low_rank),
        ],
        "Computed, not timed: 64 to 64 channels, 3 x 3, on maps of 28 x 28. Converted to a locally connected "
        "layer, a low-rank layer costs as much as one convolution, whatever its rank.",
    )


def maps(runs: Sequence[FinishedRun]) -> list[Figure]:
    """Combining weights from the first seed of the first rows that saved some."""
    figures: list[Figure] = []
    for rows in (_MAPPED, _MAPPED_BY_INPUT):
        saved = next((pair for row in rows for pair in _saved(runs, row)), None)
        if saved is not None:
            figures.append(_panels(*saved))
    return figures


def _saved(runs: Sequence[FinishedRun], row: str) -> Iterable[tuple[FinishedRun, Mapping[str, Tensor]]]:
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
    which = "of one image per row" if IMAGES in arrays else "the same for all images"
    title = LAYERS[run.row][0] if run.row in LAYERS else run.row.replace("rank-", "LRLC, rank ")
    return Panels(
        f"combining weights by position: {title}",
        rows,
        "amount",
        f"Combining weights of each filter bank at each position, {which}; seed {run.seed}. At every position they "
        "add up to 1. For a convolution, each map would have a single color.",
    )


def _picture(image: Tensor) -> Tensor:
    """The image as colors, also if it is gray: the color scale belongs to the maps."""
    return image.expand(3, -1, -1).clamp(0, 1)


def moved_table(runs: Sequence[FinishedRun]) -> list[Figure]:
    """Accuracy with each kind of layer 3 on images in place and shifted, for training on either."""
    rows = []
    for name in ("conv", "wide-l3", "lrlc-l3", "input-l3", "lc-l3"):
        columns = ((name, TEST.name), (name, MOVED.name), (f"shifted-{name}", TEST.name))
        accuracies = [values(runs, row, metric) for row, metric in columns]
        if accuracies[1]:
            seeds = f"{len(accuracies[0])} and {len(accuracies[2])}"
            means = [sum(column) / len(column) if column else None for column in accuracies]
            rows.append([LAYERS[name][0], *means, seeds])
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
            "Mean test accuracy over the finished seeds of networks trained in place and shifted. Position-dependent "
            "layers lose most on shifts that they were not trained on.",
        )
    ]


def rank_figures(runs: Sequence[FinishedRun]) -> list[Figure]:
    """Accuracy by rank next to the convolution of matching size, cost by rank, and combining weights of some ranks."""
    figures: list[Figure] = []
    series = []
    for title, prefix in (("LRLC", "rank"), ("wide convolution of matching size", "wide")):
        points = [(rank, values(runs, f"{prefix}-{rank}", TEST.name)) for rank in _RANKS]
        series.append(Series(title, [(rank, accuracies) for rank, accuracies in points if accuracies]))
    ends = float(_RANKS[0]), float(_RANKS[-1])
    for title, row in (("convolution", "wide-1"), ("locally connected", "lc")):
        if accuracies := values(runs, row, TEST.name):
            series.append(Series(title, [(x, accuracies) for x in ends]))
    if any(each.points for each in series):
        caption = (
            "Rank 1 is a convolution with a spatial bias. The horizontal lines are the two extremes that rank "
            "interpolates; they have no rank of their own."
        )
        figures.append(Plot("accuracy against rank", "rank K", _ACCURACY, series, caption))
    figures.append(cost_by_rank())
    for rank in (2, 4):
        saved = next(iter(_saved(runs, f"rank-{rank}")), None)
        if saved is not None:
            figures.append(_panels(*saved))
    return figures
