"""Bökman & Kahl 2023, Table 2: seven kinds of VGG11, and the distance of each from a GCNN.

The paper does not give the weight of its invariance loss, so networks with the loss have a row per weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..._figures import Figure, Plot, Series, Table
from ...measure import Matching, gcnn_barrier, invariance_error, match
from ...models import GVGG11, VGG11
from ..lab._arrays import load_arrays
from ..lab._experiment import Experiment, ExperimentRow, FinishedRun, Job, Metric, Ordering, Published
from ._filters import filter_figures, keep_filters
from ._run import KINDS, PAPER, QUICK, SMALL, SMOKE, prepared, sample, trained

ACCURACY = Metric("accuracy", "", "higher", "share of test images that are classified correctly")
ERROR = Metric("invariance_error", "", "lower", "‖Φ(x) − Φ(τx)‖ / mean norm, on training images")
BARRIER = Metric("gcnn_barrier", "", "lower", "relative loss of accuracy of ½(Φ + PΦ̂), after REPAIR; 0 for a GCNN")
PLAIN = Metric("gcnn_barrier_without_repair", "", "lower", "the same without REPAIR", beside=BARRIER.name)
MOVED = Metric(
    "flip_accuracy",
    "",
    "higher",
    "the same for the network with mirrored filters, on unmirrored images",
    beside=ACCURACY.name,
)
CONSTRAINED = Metric(
    "gcnn_barrier_involution",
    "",
    "lower",
    "the barrier if partners must be pairs, after REPAIR",
    beside=BARRIER.name,
)
IDENTITY = Metric(
    "gcnn_barrier_unmatched",
    "",
    "lower",
    "control: every channel is its own partner, after REPAIR",
    beside=BARRIER.name,
)
PAIRED = Metric("order_two_or_less", "", "higher", "share of channels on cycles of length 1 or 2 of the matching")
FOUND = Metric("partners_found", "", "higher", "GCNN only: share of live channels matched with their built-in partner")
FOUND_PAIRS = Metric("partners_found_involution", "", "higher", "the same if partners must be pairs", beside=FOUND.name)
PARAMETERS = Metric("parameters", "", "lower", "number of trained weights")

# Accuracy, invariance error and barrier, each with its standard deviation over 18 to 24 runs.
_TABLE: dict[str, tuple[tuple[float, float], ...]] = {
    "cnn": ((0.901, 0.0021), (0.282, 0.018), (0.0400, 0.0049)),
    "cnn-plain": ((0.879, 0.0018), (0.410, 0.040), (0.0498, 0.0061)),
    "cnn-inv": ((0.892, 0.0023), (0.0628, 0.0067), (0.00190, 0.00089)),
    "cnn-late": ((0.902, 0.0028), (0.126, 0.016), (0.0133, 0.0028)),
    "gcnn": ((0.899, 0.0025), (1.34e-6, 1.5e-7), (8.92e-4, 1.6e-3)),
    "pgcnn": ((0.902, 0.0037), (0.274, 0.020), (0.0309, 0.0078)),
    "pgcnn-late": ((0.915, 0.0023), (0.124, 0.015), (0.00756, 0.0018)),
}


def run(job: Job) -> Mapping[str, float]:
    """Train one network, match it with its mirror image and merge the two."""
    data, validation = prepared(job)
    model = trained(job, data, validation, job.settings["kind"], seed=job.seed)
    images, _ = sample(data.train, job.settings["matched_images"], job.seed)
    test = data.test.as_tensors()
    free = match(model, images, "hflip", constrained=False)
    unconstrained = gcnn_barrier(model, images, "hflip", test, matching=free, control=False)
    paired = match(model, images, "hflip", constrained=True)
    pairs = gcnn_barrier(model, images, "hflip", test, matching=paired, control=False)
    identity = match(model, images, "hflip", method="identity")
    unmatched = gcnn_barrier(model, images, "hflip", test, matching=identity, control=False)
    orders = free.order_histogram()
    keep_filters(job.folder, model, free, **_orders(orders))
    short = sum(count for counts in orders.values() for order, count in counts.items() if order <= 2)
    total = sum(count for counts in orders.values() for count in counts.values())
    metrics = {
        ACCURACY.name: unconstrained.plain.first,
        ERROR.name: invariance_error(model, images, "hflip").mean,
        BARRIER.name: unconstrained.repaired.relative,
        PLAIN.name: unconstrained.plain.relative,
        MOVED.name: unconstrained.plain.second,
        CONSTRAINED.name: pairs.repaired.relative,
        IDENTITY.name: unmatched.repaired.relative,
        PAIRED.name: short / total,
        PARAMETERS.name: _parameters(job),
    }
    if job.row == "gcnn":
        metrics |= {FOUND.name: _partners_found(job, free), FOUND_PAIRS.name: _partners_found(job, paired)}
    return metrics


def _published(kind: str) -> dict[str, Published]:
    """The numbers of the paper, which may belong to any weight of the loss."""
    kind = kind.removesuffix("-third").removesuffix("-tenth")
    metrics = (ACCURACY, ERROR, BARRIER)
    return {metric.name: Published(*pair, 18) for metric, pair in zip(metrics, _TABLE[kind], strict=True)}


def trained_at_all(metrics: Mapping[str, float]) -> bool:
    """Whether a run counts: networks without norms sometimes stay at chance, and the paper leaves such runs out."""
    return metrics[ACCURACY.name] > 0.15


def _parameters(job: Job) -> int:
    mirrored, width = KINDS[job.settings["kind"]][1], job.settings["width"]
    with torch.device("meta"):
        network = GVGG11(width=width, mirrored=mirrored) if mirrored else VGG11(width=width)
    return sum(p.numel() for p in network.parameters())


def _partners_found(job: Job, matching: Matching) -> float:
    """The share of channels, live with live partners, that the matching pairs as the network was built."""
    built = GVGG11(width=job.settings["width"]).partners()
    hits = [
        (matching.permutations[1][group.name] == partner)[
            ~matching.dead[group.name] & ~matching.dead[group.name][partner]
        ]
        for group, partner in zip(matching.graph.groups, built, strict=True)
    ]
    return float(torch.cat(hits).double().mean())


def _orders(orders: Mapping[str, Mapping[int, int]]) -> dict[str, Tensor]:
    """Arrays by layer: the number of channels on cycles of length 1, 2, …"""
    arrays = {}
    for name, counts in orders.items():
        table = torch.zeros(max(counts), dtype=torch.int64)
        for order, count in counts.items():
            table[order - 1] = count
        arrays[f"orders/{name}"] = table
    return arrays


def figures(runs: Sequence[FinishedRun]) -> list[Figure]:
    """Filters of the first two layers next to their matched partners, and the orders of the matching, by row."""
    shown: list[Figure] = []
    lines: list[list[str | float | int | None]] = []
    max_order = 6
    for kind, (title, *_) in KINDS.items():
        shown += filter_figures(runs, kind, title)
        row_runs = sorted((run for run in runs if run.row == kind), key=lambda run: run.seed)
        arrays = load_arrays(row_runs[0].folder) if row_runs else {}
        orders = {name.removeprefix("orders/"): v.tolist() for name, v in arrays.items() if name.startswith("orders/")}
        if orders:
            shown.append(_order_plot(title, list(orders.values())))
        for name, values in orders.items():
            counts = [values[k] if k < len(values) else 0 for k in range(max_order)]
            lines.append([title, name, *counts, sum(values[max_order:])])
    if not lines:
        return shown
    columns = ["network", "layer", *(f"order {k}" for k in range(1, max_order + 1)), "more"]
    caption = "Channels by the length of their cycle in the unconstrained matching; a mirror allows lengths 1 and 2."
    return [*shown, Table("orders of matched channels", columns, lines, caption)]


def _order_plot(title: str, layers: Sequence[Sequence[int]]) -> Plot:
    """The share of channels by order, from the first layer to the last."""

    def share(values: Sequence[int], first: int, last: int | None) -> float:
        return sum(values[first:last]) / sum(values)

    parts = {"order 1": (0, 1), "order 2": (1, 2), "order 3": (2, 3), "order 4 and more": (3, None)}
    series = [
        Series(name, [(float(k), [share(values, *part)]) for k, values in enumerate(layers, 1)])
        for name, part in parts.items()
    ]
    caption = "Dead channels count too: nothing tells their partners apart, so the matching pairs them at random."
    return Plot(f"{title}: orders of matched channels", "layer", "share of channels", series, caption)


EXPERIMENT = Experiment(
    name="relu-symmetry",
    title="How far from a group-convolutional network?",
    reference="Bökman & Kahl 2023, Table 2, CIFAR-10",
    metrics=(BARRIER, ACCURACY, ERROR, PLAIN, MOVED, CONSTRAINED, IDENTITY, PAIRED, FOUND, FOUND_PAIRS, PARAMETERS),
    rows=tuple(ExperimentRow(kind, title, {"kind": kind}, _published(kind)) for kind, (title, *_) in KINDS.items()),
    scales={"smoke": SMOKE, "quick": QUICK, "small": SMALL, "paper": PAPER},
    seeds={"smoke": 1, "quick": 3, "small": 2, "paper": 24},
    orderings=(
        Ordering("cnn-inv", "cnn", BARRIER.name),
        Ordering("cnn-late", "cnn", BARRIER.name),
        Ordering("cnn", "cnn-plain", BARRIER.name),
        Ordering("gcnn", "cnn", BARRIER.name),
        Ordering("cnn-inv", "cnn", ERROR.name),
        Ordering("cnn-late", "cnn", ERROR.name),
        Ordering("cnn", "cnn-plain", ERROR.name),
        Ordering("gcnn", "cnn-inv", ERROR.name),
    ),
    run=run,
    counts=trained_at_all,
    data={"smoke": "digits", "quick": "cifar10", "small": "cifar10", "paper": "cifar10"},
    figures=figures,
)
