"""How much time does ``fit`` add to a bare PyTorch loop over the same steps?

Run as ``python benchmarks/train_overhead.py``. ``fit`` and a loop written by hand train twins of one network on the
same batches, a step of each in turn: the loader that feeds ``fit`` takes a step of the bare loop whenever it is asked
for a batch. CPU seconds; the median of the ratios of pairs of steps, rows of metrics and checkpoints included. Then
what ``fit`` does once, and what a batch costs from either loader.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from _timing import compare, cpu_seconds, write_result
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset

from intertwine.train import TrainConfig, deterministic_loader, fit

GOAL = 1.03
Batch = tuple[Tensor, Tensor]


def network(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, stride=2, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(width * 8 * 8, 10),
    )


def loss(model: nn.Module, batch: Batch) -> Tensor:
    images, labels = batch
    return cross_entropy(model(images), labels)


class Bare:
    """A step as one would write it by hand."""

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        self.model, self.clip = model, config.clip_norm
        # fused like the steps of ``fit`` on a CPU: what is measured is what ``fit`` adds
        settings = {"lr": config.lr, "weight_decay": config.weight_decay, "fused": True}
        self.optimizer = torch.optim.AdamW(model.parameters(), **settings)
        steps = config.max_steps or 1
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR
        self.scheduler = cosine(self.optimizer, steps) if config.schedule == "cosine" else None
        self.shown = 0.0

    def step(self, batch: Batch) -> None:
        self.optimizer.zero_grad()
        value = loss(self.model, batch)
        value.backward()
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        self.shown += value.item()


class Alternating:
    """A loader for ``fit`` that takes a step of the bare loop before each batch, and times both."""

    def __init__(self, bare: Bare, batches: list[Batch], steps: int) -> None:
        self.bare, self.fixed, self.steps = bare, batches, steps
        self.seconds: list[tuple[float, float]] = []

    def __len__(self) -> int:
        return self.steps

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        for step in range(start, self.steps):
            batch = self.fixed[step % len(self.fixed)]
            first = cpu_seconds(lambda batch=batch: self.bare.step(batch))
            begin = time.process_time()
            yield batch
            self.seconds.append((first, time.process_time() - begin))

    def share(self, position: int, batch: Batch) -> tuple[int, int]:
        return len(batch[1]), len(batch[1])

    def shard(self, rank: int, world: int) -> Alternating:
        return self


def steps_of(name: str, width: int, batch: int, steps: int, scratch: Path, **settings: object) -> dict[str, object]:
    config = TrainConfig(
        **{"max_steps": steps, "batch_size": batch, "device": "cpu", "checkpoint_every": None, **settings}  # type: ignore[arg-type]
    )
    model = network(width)
    batches = [(torch.randn(batch, 1, 16, 16), torch.randint(10, (batch,))) for _ in range(8)]
    loader = Alternating(Bare(copy.deepcopy(model), config), batches, steps)
    fit(model, loss, loader, config, folder=scratch / name, progress=False)
    pairs = loader.seconds[10:]
    ratios = sorted(second / first for first, second in pairs)
    first, second = (1000 * statistics.median(side) for side in zip(*pairs, strict=True))
    ratio, spread = statistics.median(ratios), (ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4])
    total = sum(second for _, second in pairs) / sum(first for first, _ in pairs)
    print(f"  {name:<42}{first:>9.2f}{second:>9.2f}{ratio:>8.3f}   {spread[0]:.3f}–{spread[1]:.3f}{total:>10.3f}")
    return {"case": name, "bare_ms": first, "fit_ms": second, "ratio": ratio, "spread": spread, "ratio_of_sums": total}


def once(scratch: Path) -> float:
    config = TrainConfig(max_steps=1, batch_size=4, device="cpu")
    batch = (torch.randn(4, 1, 16, 16), torch.randint(10, (4,)))
    model = network(8)

    def run() -> None:
        fit(copy.deepcopy(model), loss, [batch], config, folder=tempfile.mkdtemp(dir=scratch), progress=False)

    taken = 1000 * statistics.median([cpu_seconds(run) for _ in range(6)][1:])
    print(f"once a run, for the folder, the record, a row and a checkpoint: {taken:.1f} ms")
    return taken


class Shifted(Dataset[Batch]):
    """Images with random shifts, from the global generator or from the one that belongs to the sample."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Batch:
        return self.sample(index, None)

    def sample(self, index: int, generator: torch.Generator | None) -> Batch:
        shift = int(torch.randint(-2, 3, (), generator=generator))
        return self.images[index].roll(shift, -1), self.labels[index]


class SeededShifted(Shifted):
    def getitem_seeded(self, index: int, generator: torch.Generator) -> Batch:
        return self.sample(index, generator)


def loaders(batch: int, repeats: int) -> list[dict[str, object]]:
    print(f"a batch of {batch} from a loader, no workers (CPU ms)")
    print(f"  {'dataset':<42}{'torch':>9}{'ours':>9}{'ratio':>8}")
    images, labels = torch.randn(64 * batch, 1, 16, 16), torch.randint(10, (64 * batch,))
    rows: list[dict[str, object]] = []
    for name, plain, ours in (
        ("TensorDataset", TensorDataset, TensorDataset),
        ("random shifts, getitem_seeded", Shifted, SeededShifted),
        ("random shifts, global generators", Shifted, Shifted),
    ):
        theirs = DataLoader(plain(images, labels), batch, shuffle=True)
        mine = deterministic_loader(ours(images, labels), batch, seed=0)
        timing = compare(lambda x=theirs: list(x), lambda x=mine: list(x), repeats=repeats)
        first, second = 1000 * timing.first / 64, 1000 * timing.second / 64
        print(f"  {name:<42}{first:>9.2f}{second:>9.2f}{timing.ratio:>8.2f}")
        rows.append({"dataset": name, "torch_ms": first, "ours_ms": second, "ratio": timing.ratio})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    steps, batch = options.steps, options.batch
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        print("a step of fit over a step of a bare loop, in turn (CPU ms)")
        print(f"  {'case':<42}{'bare':>9}{'fit':>9}{'ratio':>8}   quartiles   of sums")
        more: dict[str, object] = {"schedule": "cosine", "clip_norm": 1.0, "checkpoint_every": 200, "log_every": 10}
        rows = [
            steps_of("width 12", 12, batch, steps, scratch),
            steps_of("width 32", 32, batch, steps // 2, scratch),
            steps_of("width 12, clipping, cosine, checkpoints", 12, batch, steps, scratch, **more),
        ]
        print(f"  goal for steps of 5 ms and more: at most {GOAL}")
        setup_ms = once(scratch)
    result = {"question": __doc__.splitlines()[0], "goal": GOAL, "rows": rows, "once_ms": setup_ms}
    write_result("train_overhead", {**result, "loaders": loaders(batch, options.repeats)})


if __name__ == "__main__":
    main()
