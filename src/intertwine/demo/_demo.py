"""The demo: five verbs on embedded digits, with three seeds, in minutes and without downloads."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .._checked import checked
from .._figures import Panel, Panels
from .._files import replace_file
from ..discovery import Discovery
from ..measure import Audit, audit, match
from ..measure.surgery import filter_pairs
from ..models import TopographicVAE
from ..relaxed import RelaxationTable
from . import _impose, _measure, _relax
from ._digits import digits
from ._discover import discoveries
from ._learn import DIVERGENCE, STEPS, TurningDigits, predictions, save_capsules, train_capsules
from ._scores import Scores, over_seeds

SCHEMA = 1
RESULTS = "results.json"
SEEDS = 3
SHOWN = 3  # looks different in all four poses
AUDITED = 60
"""Images per audit."""


@checked
@dataclass
class Demo:
    """Everything that the page of the demo shows; rows have one value per seed.

    Attributes:
        seeds: the number of seeds.
        cpu_seconds: the processor time of this process; less if finished runs were read.
        discoveries: data → what was discovered.
        impose, relax, learn, measure: the rows of each verb.
        dials, dials_at_start: for each seed, how far the layers of the relaxed network are from strict, after training
            and before.
        audits: network → its audit, for the first seed.
        digit: one test image.
        capsules: the first seed's network with capsules, after ``capsule_steps`` steps.
        rolled: what its capsules do when they are rolled.
        filters: filters and their mirror images, in the network trained on mirrored digits and in its symmetric twin.
    """

    seeds: int = SEEDS
    cpu_seconds: float = 0.0
    discoveries: dict[str, Discovery] = field(default_factory=dict)
    impose: list[Scores] = field(default_factory=list)
    relax: list[Scores] = field(default_factory=list)
    learn: list[Scores] = field(default_factory=list)
    measure: list[Scores] = field(default_factory=list)
    dials: list[RelaxationTable] = field(default_factory=list)
    dials_at_start: list[RelaxationTable] = field(default_factory=list)
    audits: dict[str, Audit] = field(default_factory=dict)
    digit: Tensor | None = None
    capsules: TopographicVAE | None = None
    capsule_steps: int = 0
    rolled: list[Panels] = field(default_factory=list)
    filters: list[Panels] = field(default_factory=list)

    @property
    def verbs(self) -> Mapping[str, list[Scores]]:
        """Verb → its rows."""
        return {"impose": self.impose, "relax": self.relax, "learn": self.learn, "measure": self.measure}

    @checked
    def to_dict(self) -> dict[str, Any]:
        """Every number on the page, as plain values for JSON."""
        return {
            "schema": SCHEMA,
            "seeds": self.seeds,
            "cpu_seconds": round(self.cpu_seconds, 1),
            "discover": {name: each.to_dict() for name, each in self.discoveries.items()},
            **{verb: {row.name: row.to_dict() for row in rows} for verb, rows in self.verbs.items()},
            "dials": _by_seed(self.dials),
            "dials_at_start": _by_seed(self.dials_at_start),
        }


def _by_seed(tables: list[RelaxationTable]) -> list[list[dict[str, Any]]]:
    return [[{"layer": layer, **shares} for layer, _, shares, _ in table.rows] for table in tables]


@checked
def run_demo(
    folder: Path, *, progress: bool = True, say: Callable[[str], object] = lambda text: None, quick: bool = False
) -> Demo:
    """Discover, train, relax, audit and symmetrize; what is finished in the folder is not repeated.

    Args:
        folder: the folder of the runs.
        progress: whether to draw progress bars.
        say: called with a line of text at each stage.
        quick: one seed, one epoch per network and few images, to check that everything runs.
    """
    begun = time.process_time()
    (images, labels), test = digits()
    data = (images[:320], labels[:320]) if quick else (images, labels)
    demo = Demo(seeds=1 if quick else SEEDS, digit=test[0][test[1] == SHOWN][0, 0])

    def epochs(usual: int) -> int:
        return 1 if quick else usual

    say("discover: are quarter turns a symmetry of these digits?")
    demo.discoveries = discoveries(folder, quick=quick)
    rows: dict[str, list[Scores]] = {verb: [] for verb in demo.verbs}
    audited: dict[str, tuple[nn.Module, str]] = {}
    for seed in range(demo.seeds):
        common: dict[str, Any] = {"seed": seed, "progress": progress}
        say(f"impose, seed {seed}: a plain, an augmented and an equivariant network")
        more, networks = _impose.impose(data, test, folder, epochs=epochs(_impose.EPOCHS), **common)
        rows["impose"] += more
        say(f"relax, seed {seed}: a strict, a relaxed and a free network")
        more, before, dials = _relax.relaxing(data, test, folder, epochs=epochs(_relax.EPOCHS), **common)
        rows["relax"] += more
        demo.dials_at_start.append(before)
        demo.dials.append(dials)
        say(f"measure, seed {seed}: a network trained on mirrored digits, made exactly symmetric")
        lengths: dict[str, Any] = {"epochs": epochs(_measure.EPOCHS), "tuning": epochs(_measure.TUNING)}
        more, mirrored = _measure.measuring(data, test, folder, **lengths, **common)
        rows["measure"] += more
        say(f"learn, seed {seed}: a topographic autoencoder of turning digits")
        steps = 20 if quick else STEPS
        capsules = train_capsules(folder / f"capsules-{seed}", steps=steps, **common)
        rows["learn"] += predictions(capsules)
        if seed == 0:
            demo.capsules, demo.capsule_steps = capsules, steps
            audited = {name: (net, "c4") for name, net in networks.items()}
            audited |= {name: (net, "hflip") for name, net in mirrored.items()}
    for verb, several in rows.items():
        setattr(demo, verb, over_seeds(several))
    say("measure: audits")
    shown = (test[0][:30], test[1][:30]) if quick else (test[0][:AUDITED], test[1][:AUDITED])
    for name, (net, symmetry) in audited.items():
        where = folder / "audits" / name
        demo.audits[name] = audit(net, shown, symmetry, name=name, data_name="digits, test images", folder=where)
    if demo.capsules is not None:
        demo.rolled.append(_rolled(demo.capsules))
    demo.filters += [_filters(audited[name][0], title, data[0]) for name, title in _FILTERS.items()]
    demo.cpu_seconds = time.process_time() - begun
    return demo


@checked
def save_demo(folder: Path, demo: Demo) -> None:
    """Save every number as ``results.json``, and what ``intertwine explore`` shows: the capsules and the audits."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / RESULTS, (json.dumps(demo.to_dict(), indent=2) + "\n").encode())
    if demo.capsules is not None:
        save_capsules(folder, demo.capsules, steps=demo.capsule_steps)
    for name, result in demo.audits.items():
        result.save(folder / "audits" / name)


_FILTERS = {"mirrored": "before: trained on mirrored digits", "symmetric": "after: made symmetric and tuned"}


def _filters(model: nn.Module, title: str, images: Tensor) -> Panels:
    """The first filters of a network, and for each the filter that mirrored images match it with, mirrored."""
    matching = match(model, torch.cat([images, images.flip(3)]), "hflip", constrained=False, max_images=500)
    first = next(name for name, p in model.named_parameters() if p.dim() == 4)
    filters, partners = filter_pairs(model, matching, first)
    rows = [("filters", [Panel(f[0]) for f in filters[:8]]), ("mirrored partners", [Panel(f[0]) for f in partners[:8]])]
    return Panels(title, rows, "diverging", "In an exactly symmetric network, both rows are the same.")


def _rolled(model: TopographicVAE) -> Panels:
    """Turning test digits, and below each its first frame with rolled capsules."""
    digits = TurningDigits("test")
    rows: list[tuple[str, list[Panel]]] = []
    with torch.no_grad():
        for digit in (4, 7, 2):
            frames = digits.of_digit(digit)
            t = model.latent(frames[None], generator=torch.Generator().manual_seed(0))
            for title, images in ((f"a turning {digit}", frames), ("rolled", model.traverse(t[:, 0])[0])):
                rows.append((title, [Panel(image[0]) for image in images]))
    caption = (
        "Above: a test digit that turns. Below: the capsules of its first frame, rolled by one place per step and "
        "decoded. The network saw digits turn in training, but was never told what a rotation is. For such short "
        f"training, the divergence from the prior has weight {DIVERGENCE:g} instead of 1."
    )
    return Panels("rolling capsules", rows, "gray", caption)
