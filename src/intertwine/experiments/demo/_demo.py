"""The demo: the four verbs on embedded digits, in minutes and without downloads.

Impose: a plain network, and one that is equivariant to quarter turns. Relax: a soft and a low-rank network. Learn: a
topographic autoencoder of turning digits. Measure: audit all classifiers, and symmetrize the plain ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..._checked import checked
from ..._figures import Panel, Panels
from ...data import AugmentedSplit, Split, load, random_rotation90
from ...groups import Cyclic
from ...measure import Audit, accuracy, audit, invariance_error, match, symmetrize
from ...measure.surgery import filter_pairs
from ...models import GroupCNN, SimpleNet, SoftResNet, TopographicVAE, plain_cnn
from ...relaxed import RelaxationTable, relaxation_penalty, relaxation_table
from ...train import TrainConfig, deterministic_loader, fit, seed_all, tune
from ..lab._classifier import cross_entropy, hit_rate
from ._capsules import DIVERGENCE, SIZE, STEPS, TurningDigits, save_capsules, train_capsules


@checked
@dataclass(frozen=True)
class DemoNetwork:
    """One trained classifier and its measurements.

    Attributes:
        name: its name on the page.
        verb: impose, relax or measure.
        about: one sentence about it.
        weights: its number of weights.
        upright: accuracy on upright test digits.
        turned: accuracy on test digits turned by 90, 180 and 270 degrees.
        error: invariance error under quarter turns.
    """

    name: str
    verb: str
    about: str
    weights: int
    upright: float
    turned: float
    error: float


@checked
@dataclass
class Demo:
    """Everything that the page of the demo shows."""

    networks: list[DemoNetwork] = field(default_factory=list)
    relaxation: dict[str, RelaxationTable] = field(default_factory=dict)
    relaxation_before: dict[str, RelaxationTable] = field(default_factory=dict)
    audits: dict[str, Audit] = field(default_factory=dict)
    pictures: list[Panels] = field(default_factory=list)
    capsules: TopographicVAE | None = None
    capsule_steps: int = 0


def _with_penalty(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return cross_entropy(model, batch) + 0.01 * relaxation_penalty(model)


_NETWORKS: dict[str, tuple[str, str, Callable[[], nn.Module], Callable[..., Any], int]] = {
    "plain": (
        "impose",
        "a convolutional network without any symmetry",
        lambda: plain_cnn(1, 10, widths=(8, 12, 16)),
        cross_entropy,
        8,
    ),
    "augmented": (
        "impose",
        "the same network, trained on digits rotated by random quarter turns",
        lambda: plain_cnn(1, 10, widths=(8, 12, 16)),
        cross_entropy,
        12,
    ),
    "equivariant": (
        "impose",
        "every layer commutes with quarter turns, so its scores cannot change",
        lambda: GroupCNN(Cyclic(4), 1, 10, widths=(4, 6, 8)),
        cross_entropy,
        8,
    ),
    "soft": (
        "relax",
        "starts between strict and free, and learns how far to go in each layer",
        lambda: SoftResNet(
            1,
            10,
            samples=4,
            rotation_softness=1.0,
            learn=True,
            sampling="grid",
            width=6,
            growth=1,
            kernel_size=3,
            hidden=8,
        ),
        _with_penalty,
        6,
    ),
    "low-rank": (
        "relax",
        "filters depend on the position, as mixtures of four filters",
        lambda: SimpleNet(1, SIZE, 10, layer="low-rank", where=3, rank=4, width=12, strides=(2, 1, 1)),
        cross_entropy,
        8,
    ),
}


@checked
def run_demo(
    folder: Path, *, progress: bool = True, say: Callable[[str], object] = lambda text: None, quick: bool = False
) -> Demo:
    """Train, audit and symmetrize; finished trainings and audits in the folder are not repeated.

    Args:
        folder: the folder of the runs.
        progress: whether to draw progress bars.
        say: called with a line of text at each stage.
        quick: one epoch per network and few images, to check that everything runs.
    """
    data = load("digits", size=SIZE).normalized()
    train = data.train.subset(320) if quick else data.train
    demo = Demo()
    test = data.test.as_tensors()
    audited = 30 if quick else 150
    trained: dict[str, nn.Module] = {}
    for name, (verb, about, build, loss, epochs) in _NETWORKS.items():
        say(f"{verb}: {name}, {about}")
        seed_all(0)
        model = build()
        if verb == "relax":
            demo.relaxation_before[name] = relaxation_table(model)
        shown = train.with_transform(random_rotation90) if name == "augmented" else train
        _train(model, loss, shown, data.test, folder / name, 1 if quick else epochs, progress)
        demo.networks.append(_measured(name, verb, about, model, test))
        demo.audits[name] = audit(
            model,
            (test[0][:audited], test[1][:audited]),
            "c4",
            name=name,
            data_name="digits, test images",
            folder=folder / name / "audit",
        )
        if verb == "relax":
            demo.relaxation[name] = relaxation_table(model)
        trained[name] = model
    images = train.as_tensors()[0]
    turned = torch.cat([images.rot90(k, (2, 3)) for k in range(4)])
    for name, matched_on in (("plain", images), ("augmented", turned)):
        say(f"measure: the {name} network, made symmetric")
        twin = symmetrize(trained[name], matched_on, "c4")
        about = f"the {name} network, made invariant to quarter turns: channels matched, merged and refitted"
        demo.networks.append(_measured(f"{name}, symmetrized", "measure", about, twin.model, test))
    say("measure: the augmented network, made symmetric and tuned without labels")
    epochs = 1 if quick else 4
    final = tune(twin, train, epochs=epochs, folder=folder / "tuned", progress=progress).model
    about = "the previous network, tuned for four epochs without labels; it stays exactly symmetric"
    demo.networks.append(_measured("augmented, symmetrized, tuned", "measure", about, final, test))
    demo.pictures.append(_filters(trained["augmented"], turned))
    say("learn: a topographic autoencoder of turning digits")
    steps = 20 if quick else STEPS
    demo.capsules = train_capsules(folder / "capsules", steps=steps, progress=progress)
    demo.capsule_steps = steps
    demo.pictures.append(_capsules(demo.capsules))
    return demo


@checked
def save_demo(folder: Path, demo: Demo) -> None:
    """Save what ``intertwine explore`` shows: the network with capsules, and the audits in ``audits/``."""
    if demo.capsules is not None:
        save_capsules(folder, demo.capsules, steps=demo.capsule_steps)
    for name, result in demo.audits.items():
        result.save(folder / "audits" / name)


def _train(
    model: nn.Module,
    loss: Callable[..., Any],
    train: Split | AugmentedSplit,
    test: Split,
    folder: Path,
    epochs: int,
    progress: bool,
) -> None:
    config = TrainConfig(
        epochs=epochs, batch_size=64, optimizer="adam", lr=1e-2, schedule="cosine", log_every=10, checkpoint_every=50
    )
    fit(
        model,
        loss,
        deterministic_loader(train, 64, seed=0, shuffle=True),
        config,
        folder=folder,
        val_loader=deterministic_loader(test, 360, seed=0, shuffle=False),
        metrics={"accuracy": hit_rate},
        progress=progress,
    )
    model.eval()


def _measured(name: str, verb: str, about: str, model: nn.Module, test: tuple[Tensor, Tensor]) -> DemoNetwork:
    images, labels = test
    turned = [accuracy(model, (images.rot90(k, (2, 3)), labels)) for k in (1, 2, 3)]
    return DemoNetwork(
        name,
        verb,
        about,
        sum(p.numel() for p in model.parameters()),
        accuracy(model, test),
        sum(turned) / 3,
        invariance_error(model, images, "c4").mean,
    )


def _filters(model: nn.Module, images: Tensor) -> Panels:
    """The first filters of a network, and for each the best match among the rotated ones."""
    matching = match(model, images, "c4", constrained=False, max_images=500)
    first = next(name for name, p in model.named_parameters() if p.dim() == 4)
    filters, partners = filter_pairs(model, matching, first)
    rows = [("filters", [Panel(f[0]) for f in filters[:8]]), ("rotated, matched", [Panel(f[0]) for f in partners[:8]])]
    caption = "In a group-convolutional network both rows would be the same."
    return Panels("filters of the augmented network and their partners", rows, "diverging", caption)


def _capsules(model: TopographicVAE) -> Panels:
    """Turning digits, and below each its first frame with rolled capsules."""
    digits = TurningDigits()
    rows: list[tuple[str, list[Panel]]] = []
    with torch.no_grad():
        for digit in (4, 1, 2):
            frames = digits.of_digit(digit)
            t = model.latent(frames[None], generator=torch.Generator().manual_seed(0))
            for title, images in ((f"a turning {digit}", frames), ("rolled", model.traverse(t[:, 0])[0])):
                rows.append((title, [Panel(image[0]) for image in images]))
    caption = (
        "Above: the input. Below: the capsules of the first frame, rolled by one place per step and decoded. The digit "
        "turns, although the network was never told what a rotation is. Some digits come out better than others: for "
        f"such short training, the divergence from the prior has weight {DIVERGENCE:g} instead of 1."
    )
    return Panels("rolling capsules", rows, "gray", caption)
