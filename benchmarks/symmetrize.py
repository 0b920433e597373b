"""What does an exactly symmetric network cost in accuracy, by width, before and after tuning without labels?

Run as ``python benchmarks/symmetrize.py --model MODULE:FACTORY --weights FILE --data DATA --folder FOLDER`` for a
trained classifier of yours; without arguments, a small network is trained on digits first. For each symmetry: the
original network, its average over the group at run time, canonicalization with equiadapt (if it is installed, see
``_canonical.py``), and symmetrized networks of several widths, refitted and tuned. The
teacher is the average over the group, unless it is less accurate than the original network on held-out training images;
then it is the original. Columns: accuracy on test images as
they are, and on test images moved by random elements of the group; the error under the group; parameters; multiply-adds
per image. Settings are chosen on held-out training images; test images are only scored.

Rows are computed in order of importance. Finished rows are read back from the folder, and tuning continues from its
last checkpoint: run the same command again after an interruption.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal

import torch
from _timing import write_result
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from intertwine.data import Normalization, load
from intertwine.measure import accuracy, invariance_error, load_network, parse_symmetry, symmetrize
from intertwine.measure.surgery import GroupAverage
from intertwine.models import plain_cnn
from intertwine.train import TrainConfig, deterministic_loader, fit, seed_all, tune

ROWS = (
    *(("hflip", 1.0), ("hflip", 1.25), ("c4", 1.0), ("c4", 2.0), ("d4", 1.0), ("d4", 2.0)),
    *(("hflip", 1.5), ("hflip", 2.0), ("c4", 1.5), ("d4", 1.5), ("c4", 4.0)),
)
IMAGENET = Normalization((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
REFIT_IMAGES = 1000
HELD_OUT = 2000


@dataclass
class Row:
    """One line of the table."""

    symmetry: str
    network: str
    accuracy: float
    moved: float
    error: float
    parameters: int
    multiply_adds: int
    cpu_seconds: float

    def __str__(self) -> str:
        size = f"{self.parameters:>11,}{self.multiply_adds:>15,}{self.cpu_seconds:>9.0f}"
        return f"  {self.symmetry:<6}{self.network:<34}{self.accuracy:>8.4f}{self.moved:>8.4f}{self.error:>10.1e}{size}"


@dataclass
class Task:
    """A trained network, images to train and to test on, and a folder for results."""

    net: nn.Module
    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    folder: Path
    options: argparse.Namespace

    @property
    def held_out(self) -> Tensor:
        """The last training images, for the loss against the teacher alone."""
        return self.train[0][-HELD_OUT:]

    def teacher(self, symmetry: str) -> Literal["average", "original"]:
        """The average, unless it loses a point of accuracy on held-out training images."""
        x, labels = (part[-HELD_OUT:] for part in self.train)
        before, after = (accuracy(net, (x, labels)) for net in (self.net, GroupAverage(self.net, symmetry)))
        return "average" if after >= before - 0.01 else "original"

    def row(self, symmetry: str, name: str, net: nn.Module, seconds: float = 0.0) -> Row:
        """Score a network."""
        x, labels = self.test
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            net.eval()(x[:1])
        size = sum(p.numel() for p in net.parameters())
        error = invariance_error(net, x[:200], symmetry).mean
        upright = accuracy(net, (x, labels))
        # An exactly symmetric network has the same accuracy on moved images.
        turned = upright if error < 1e-5 else accuracy(net, (randomly_moved(x, symmetry), labels))
        return Row(symmetry, name, upright, turned, error, size, int(counter.get_total_flops()) // 2, seconds)

    def kept(self, name: str, make: object) -> list[Row]:
        """The rows in a file of the folder, or those that ``make()`` returns; then they are written there."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            rows: list[Row] = make()  # type: ignore[operator]
            if not rows:  # equiadapt is missing
                return []
            temporary = path.with_suffix(".part")
            temporary.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
            temporary.replace(path)
        rows = [Row(**fields) for fields in json.loads(path.read_text())]
        for row in rows:
            print(row, flush=True)
        return rows


def randomly_moved(x: Tensor, name: str) -> Tensor:
    symmetry = parse_symmetry(name)
    elements = torch.randint(symmetry.order, (len(x),), generator=torch.Generator().manual_seed(0))
    return torch.stack([symmetry.apply(int(g), image[None])[0] for g, image in zip(elements, x, strict=True)])


def alternatives(task: Task, symmetry: str) -> list[Row]:
    """What a user has without surgery."""
    return [
        task.row(symmetry, "original", task.net),
        task.row(symmetry, "averaged at run time", GroupAverage(task.net, symmetry)),
    ]


def canonical(task: Task, symmetry: str) -> list[Row]:
    from _canonical import canonicalized

    start = time.process_time()
    images = task.train[0][:-HELD_OUT][: task.options.images]
    folder = task.folder / "runs" / f"{symmetry}-canonicalized"
    net = canonicalized(task.net, images, symmetry, epochs=task.options.epochs, folder=folder)
    return [] if net is None else [task.row(symmetry, "canonicalized", net, time.process_time() - start)]


def surgery(task: Task, symmetry: str, width: float) -> list[Row]:
    """A refitted network, and the same after tuning."""
    options, start = task.options, time.process_time()
    images = task.train[0][:-HELD_OUT]
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))[:REFIT_IMAGES]
    twin = symmetrize(task.net, images[order], symmetry, width=width)
    rows = [task.row(symmetry, f"width {width:g}, refitted", twin.model, time.process_time() - start)]
    start = time.process_time()
    teacher = task.teacher(symmetry)
    tuned = tune(
        twin,
        images[: options.images],
        teacher=teacher,
        epochs=options.epochs,
        lr=options.lr,
        validation=task.held_out,
        folder=task.folder / "runs" / f"{symmetry}-{width:g}",
        precision=options.precision,
        augment="shift" if options.shift else None,
    )
    seconds = time.process_time() - start  # of this call only, if the run was interrupted
    title = f"width {width:g}, tuned ({teacher})"
    return [*rows, task.row(symmetry, title, tuned.model, seconds)]


def digits(folder: Path) -> tuple[nn.Module, tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A small network trained on digits."""
    data = load("digits").normalized()
    seed_all(0)
    net = plain_cnn(1, 10, widths=(8, 12, 16))
    config = TrainConfig(epochs=10, lr=1e-2, schedule="cosine", batch_size=64)
    loader = deterministic_loader(data.train, 64, seed=0)

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    fit(net, loss, loader, config, folder=folder / "runs" / "digits", progress=False)
    return net.eval(), data.train.as_tensors(), data.test.as_tensors()


def task_of(options: argparse.Namespace) -> Task:
    folder = Path(options.folder or mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    if options.model is None:
        options.images, options.lr = 1000, 1e-2
        net, train, test = digits(folder)
        global HELD_OUT, REFIT_IMAGES
        HELD_OUT, REFIT_IMAGES = 200, 500
    else:
        net = load_network(options.model, weights=options.weights).model.eval()
        data = load(options.data).normalized(IMAGENET)
        train, test = data.train.as_tensors(), data.test.as_tensors()
    return Task(net, train, (test[0][: options.test_images], test[1][: options.test_images]), folder, options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="module:factory of a classifier")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--data", help="a named data set or a file; normalized as for ImageNet")
    parser.add_argument("--folder", help="for results and checkpoints; the same folder continues")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--images", type=int, default=48_000, help="training images per epoch")
    parser.add_argument("--test-images", type=int, default=10_000)
    parser.add_argument("--precision", default="32", choices=["32", "bf16-mixed"])
    parser.add_argument("--shift", action="store_true", help="tune on shifted images: for networks trained on them")
    parser.add_argument("--only", nargs="*", help="rows, as in hflip-1.25")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    task = task_of(options)
    print("  group network                           accuracy  moved     error parameters  multiply-adds  seconds")
    rows: list[Row] = []
    for symmetry, width in ROWS:
        name = f"{symmetry}-{width:g}"
        if options.only and name not in options.only:
            continue
        if not any(row.symmetry == symmetry for row in rows):
            rows += task.kept(f"{symmetry}-alternatives", lambda s=symmetry: alternatives(task, s))
        rows += task.kept(name, lambda s=symmetry, w=width: surgery(task, s, w))
    for symmetry in dict.fromkeys(row.symmetry for row in rows):
        rows += task.kept(f"{symmetry}-canonicalized", lambda s=symmetry: canonical(task, s))
    write_result("symmetrize", {"rows": [asdict(row) for row in rows], "epochs": options.epochs})


if __name__ == "__main__":
    main()
