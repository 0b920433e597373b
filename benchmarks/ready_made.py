"""What do the ready-made networks cost, compared with the plain networks of torchvision?

Run as ``python benchmarks/ready_made.py``. For each network and group, with the width matched in cost and in weights:
CPU seconds of a training step (forward and backward, without the optimizer), of an evaluation, and of an evaluation of
the exported network (``to_plain``), each divided by those of torchvision's network, or of ``group=None`` where
torchvision has none. Runs of both sides alternate; the table shows the median ratio of the pairs and its range from
quartile to quartile. Results go to ``benchmarks/results/ready_made.json``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict

import torch
from _timing import compare, evaluation, training_step, write_result
from torch import nn

from intertwine import models
from intertwine._torchvision import declare_missing_operations
from intertwine.nn import Sequential, to_plain

Make = Callable[..., Sequential]

# The network, the plain one, and the batch: (batch, channels, height, width).
CASES: dict[str, tuple[Make, str | None, tuple[int, int, int, int]]] = {
    "resnet18": (lambda **k: models.resnet(18, **k), "resnet18", (8, 3, 96, 96)),
    "resnet50": (lambda **k: models.resnet(50, **k), "resnet50", (4, 3, 96, 96)),
    "wide_resnet16_4": (lambda **k: models.wide_resnet(16, 4, **k), None, (8, 3, 32, 32)),
    "convnext_tiny": (lambda **k: models.convnext("tiny", **k), "convnext_tiny", (4, 3, 96, 96)),
    "unet": (lambda **k: models.unet(4, **k), None, (2, 3, 64, 64)),
}


def _plain(make: Make, twin: str | None) -> nn.Module:
    if twin is None:
        return to_plain(make(group=None)).train().requires_grad_(True)
    declare_missing_operations()
    import torchvision

    network: nn.Module = getattr(torchvision.models, twin)(num_classes=10)
    return network


def measure(name: str, group: str, match: str, repeats: int) -> dict[str, object]:
    """The ratios of one network."""
    make, twin, shape = CASES[name]
    torch.manual_seed(0)
    plain, ours = _plain(make, twin), make(group=group, match=match)
    x = torch.randn(shape)
    g = torch.randn_like(plain(x))
    step = compare(training_step(plain, x, g), training_step(ours, x, g), repeats=repeats)
    plain.eval()
    exported = compare(evaluation(plain, x), evaluation(to_plain(ours), x), repeats=repeats)
    use = compare(evaluation(plain, x), evaluation(ours.eval(), x), repeats=repeats)
    weights = sum(p.numel() for p in ours.parameters())
    for title, result in (("training step", step), ("evaluation", use), ("exported", exported)):
        low, high = result.spread
        print(
            f"{name:<16} {group:<6} match={match:<8} {weights / 1e6:6.2f} M weights  {title:<14} "
            f"{result.first:7.3f} s plain  ratio {result.ratio:5.2f} ({low:.2f} to {high:.2f})",
            flush=True,
        )
    about = {"network": name, "plain": twin or "group=None", "group": group, "match": match, "batch": shape}
    return {
        **about,
        "weights": weights,
        "training_step": asdict(step),
        "evaluation": asdict(use),
        "exported": asdict(exported),
    }


def main() -> None:
    """Measure the cases named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NETWORK", help=f"of {', '.join(CASES)}")
    parser.add_argument("--groups", nargs="+", default=["D4", "hflip"])
    parser.add_argument("--match", nargs="+", default=["cost", "weights"])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    rows = [
        measure(name, group, match, options.repeats)
        for name in options.names or CASES
        for group in options.groups
        for match in options.match
    ]
    write_result("ready_made", {"rows": rows})


if __name__ == "__main__":
    main()
