"""One training run of a study, from a description of plain values to answers on the samples held out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from .._digest import content_digest
from .._files import replace_file
from .._untrusted import parse_json
from ..errors import InputError, IntertwineError
from ..relaxed import relaxation_penalty, relaxed_layers
from ..spaces import Grid2d
from ..train import TrainConfig, derive_seed, deterministic_loader, fit, seed_all
from ._candidate import Candidate
from ._networks import Factory, Standardize, Strictness, SymmetryCNN, plain_network
from ._samples import Samples, epochs_for

ANSWER = "answer.json"
_VERSIONS = {"alike": 5, "floor": 5, "labels": 4}  # increment one when its runs compute something else
BATCH = 64
_AVERAGED = 8  # transformed copies of a sample whose predictions are averaged
_MOST_COPIED = 2**26  # numbers, 256 MB
_PRIOR = 0.01  # weight of the penalty on the dial

Question = Literal["alike", "floor", "labels"]


@dataclass(frozen=True)
class Run:
    """What to train.

    Attributes:
        question: ``alike``: tell moved samples from others; ``floor``: the same after making the samples symmetric;
            ``labels``: classify.
        candidate: the name of the candidate; empty for the free network, which all candidates share.
        strictness: the network.
        seed: the seed, and the fold that is held out.
        share: the share of the training samples to use.
    """

    question: Question
    candidate: str = ""
    strictness: Strictness = "free"
    seed: int = 0
    share: float = 1.0

    @property
    def title(self) -> str:
        """What the run finds out, in words."""
        if self.question == "alike":
            return f"do moved samples look alike? {self.candidate}"
        if self.question == "floor":
            return f"what does resampling alone change? {self.candidate}"
        about = f"{self.candidate}, {self.strictness}" if self.candidate else self.strictness
        which = "do labels survive?" if self.share == 1 else f"what is it worth? {self.share:.2g} of the data,"
        return f"{which} {about}, seed {self.seed}"


@dataclass(frozen=True)
class Answer:
    """What a run found: one number per sample held out.

    Attributes:
        values: the predicted classes; for ``alike`` and ``floor``, the scores.
        coins: for ``alike`` and ``floor``, which samples were moved.
        weights: the number of weights of the network.
        dials: by layer, how far a relaxed network ended from strict.
        seconds: the CPU or wall time of the training, as the record of the run says.
    """

    values: list[float]
    coins: list[int] = field(default_factory=list)
    weights: int = 0
    dials: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Study:
    """Everything that runs share, so that a run can be sent to another process.

    Attributes:
        samples: the data.
        candidates: by name.
        folder: where runs leave their records.
        network: builds the user's network, if there is one.
        effort: the share of the usual training steps.
    """

    samples: Samples
    candidates: Mapping[str, Candidate]
    folder: Path
    network: Factory | None = None
    effort: float = 1.0

    def has_exact_layers(self, candidate: str) -> bool:
        """Whether networks with equivariant layers are compared, and not augmentation alone."""
        return self.network is None and self.candidates[candidate].grid is not None and self.samples.x.ndim == 4

    def has_only_layers(self, candidate: str) -> bool:
        """Whether nothing is left for augmentation, so that networks of every strictness can be compared."""
        return self.has_exact_layers(candidate) and not self.candidates[candidate].besides

    def has_floor(self, candidate: str) -> bool:
        """Whether to find out what resampling alone gives; only samples of a group can be made symmetric."""
        about = self.candidates[candidate]
        return about.is_group and about.is_undone and not about.is_exact

    def augmentation(self, run: Run) -> Candidate | None:
        """What a run imposes by augmentation."""
        if run.strictness != "invariant":
            return None
        return self.candidates[run.candidate].augmentation(layers=self.has_exact_layers(run.candidate))

    def strictnesses(self, candidate: str) -> tuple[Strictness, ...]:
        """The networks to compare with the free one."""
        return ("invariant", "local", "relaxed") if self.has_only_layers(candidate) else ("invariant",)

    def with_candidate(self, candidate: Candidate) -> Study:
        """The same study with one more candidate."""
        return replace(self, candidates={**self.candidates, candidate.name: candidate})

    def run_folder(self, run: Run) -> Path:
        """The folder of a run, named by everything that determines its result."""
        about = content_digest("run", *(str(value) for value in self._about(run).values()))[:12]
        parts = [run.question, run.candidate.replace("/", "-"), run.strictness, f"seed-{run.seed}", about]
        if run.share != 1:
            parts.insert(3, f"share-{run.share:g}")
        return self.folder / "runs" / "-".join(filter(None, parts))

    def _about(self, run: Run) -> dict[str, Any]:
        candidate = self.candidates[run.candidate].digest(self.samples.x[:2]) if run.candidate else ""
        network = content_digest("network", repr(self.network())) if self.network else ""
        return {
            **asdict(run),
            "version": _VERSIONS[run.question],
            "effort": self.effort,
            "data": self.samples.digest,
            "symmetry": candidate,
            "network": network,
        }

    def steps(self, count: int) -> int:
        """The number of training steps with this many samples."""
        return max(1, round(self.effort * epochs_for(count) * math.ceil(count / BATCH)))

    def answer(self, run: Run) -> Answer | None:
        """The stored answer of a finished run; None if it is missing or damaged."""
        try:
            fields = parse_json((self.run_folder(run) / ANSWER).read_bytes(), caller=ANSWER)
            return Answer(**fields)
        except (OSError, IntertwineError, TypeError):
            return None


def execute(study: Study, run: Run) -> Answer:
    """The answer of a run: the stored one, or train now."""
    stored = study.answer(run)
    if stored is not None:
        return stored
    with one_thread():
        answer = _two_sample(study, run) if run.question != "labels" else _classify(study, run)
    replace_file(study.run_folder(run) / ANSWER, json.dumps(asdict(answer)).encode())
    return answer


@contextmanager
def one_thread() -> Iterator[None]:
    """The same sums in the same order on every engine; small networks do not profit from more threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


# -- do labels survive? ------------------------------------------------------------------------------------------------


def _classify(study: Study, run: Run) -> Answer:
    samples = study.samples
    if samples.labels is None:
        raise InputError("discover", expected="labels", got="none")
    train = samples.training(run.seed, run.share)
    held = samples.held_out(run.seed)
    seed = derive_seed(run.seed, "labels")  # all networks see the same batches
    seed_all(seed)
    net = build(study, run, len(samples.classes), samples.x[train])
    candidate = study.augmentation(run)
    x, y = samples.x[train], samples.labels[train]
    seconds = _trained(study, run, net, x, y, seed, candidate)
    scores = _scores(net, samples.x[held], candidate)
    dials = {name: max(layer.relaxation().values()) for name, layer in relaxed_layers(net)}
    return Answer(scores.argmax(1).tolist(), [], count_weights(net), dials, seconds)


def build(study: Study, run: Run, classes: int, x: Tensor) -> nn.Module:
    """The untrained network of a run; samples are standardized by the training samples."""
    if study.network is not None:
        return deepcopy(study.network())
    dims = [0, *range(2, x.ndim)]
    first = Standardize(x.mean(dims), x.std(dims).clamp_min(1e-6))
    if x.ndim != 4:
        return nn.Sequential(first, plain_network(study.samples.shape, classes))
    exact = run.candidate and study.has_exact_layers(run.candidate)
    grid = study.candidates[run.candidate].grid if exact else None
    channels, height, width = study.samples.shape
    strictness = run.strictness if grid is not None else "free"
    return nn.Sequential(first, SymmetryCNN(grid or Grid2d("C1"), (channels, height, width), classes, strictness))


def _trained(
    study: Study, run: Run, net: nn.Module, x: Tensor, y: Tensor, seed: int, candidate: Candidate | None
) -> float:
    """Train in place; returns the seconds it took. The run leaves the files of ``fit`` in its folder."""
    if candidate is None:
        loader = deterministic_loader(TensorDataset(x, y), BATCH, seed=seed)
    else:
        loader = deterministic_loader(_Moved(x, y, candidate), BATCH, seed=seed, collate=_unchanged)
    config = TrainConfig(
        max_steps=study.steps(len(x)),
        batch_size=BATCH,
        lr=3e-3,
        weight_decay=1e-2,
        schedule="cosine",
        warmup_steps=10,
        seed=seed % 2**31,
        device="cpu",
        checkpoint_every=2000,
        keep=1,
        log_every=200,
    )
    result = fit(
        net,
        cross_entropy,
        loader,
        config,
        folder=study.run_folder(run) / "fit",
        extra_penalty=_penalty if run.strictness == "relaxed" else None,
        about=asdict(run),
        progress=False,
    )
    return result.record.duration


def cross_entropy(net: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The mean negative log-likelihood of the labels."""
    return nn.functional.cross_entropy(net(batch[0]), batch[1])


def _penalty(net: nn.Module) -> Tensor:
    return relaxation_penalty(net, weight=_PRIOR)


def _unchanged(batch: Any) -> Any:
    return batch


class _Moved:
    """Samples, each moved by a random element; the loader seeds the generator for every batch.

    All moved copies are computed at once if they fit: resampling a few samples at a time takes longer than training.
    """

    def __init__(self, x: Tensor, y: Tensor, candidate: Candidate) -> None:
        self.x, self.y, self.candidate = x, y, candidate
        self.copies: Tensor | None = None
        if (len(candidate.elements) + 1) * x.numel() <= _MOST_COPIED:
            self.copies = torch.stack([x, *(each.forward(x) for each in candidate.elements)])

    def __len__(self) -> int:
        return len(self.x)

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        which = torch.randint(len(self.candidate.elements) + 1, (len(indices),))
        if self.copies is not None:
            return self.copies[which, indices], self.y[indices]
        return self.candidate.moved(self.x[indices], which), self.y[indices]


@torch.no_grad()
def _scores(net: nn.Module, x: Tensor, candidate: Candidate | None = None) -> Tensor:
    """Class scores; probabilities averaged over transformed copies if there is a candidate."""
    net.eval()
    if candidate is None:
        return torch.cat([net(part) for part in x.split(500)])
    count = len(candidate.elements)
    step = max(1, math.ceil(count / (_AVERAGED - 1)))
    total = torch.zeros(())
    for number in (0, *range(1, count + 1, step)):
        moved = candidate.moved(x, torch.full((len(x),), number))
        total = total + torch.cat([net(part).softmax(1) for part in moved.split(500)])
    return total


def count_weights(net: nn.Module) -> int:
    """The number of trained weights."""
    return sum(p.numel() for p in net.parameters())


# -- do moved samples look alike? --------------------------------------------------------------------------------------


def _two_sample(study: Study, run: Run) -> Answer:
    """Flip a coin for each sample: move it, or not. A network learns to tell which.

    Where moving resamples, both sides are resampled twice: one is moved by two elements, the other there and back.
    Turned images are compared inside a disc. ``floor`` asks the same about samples that were made symmetric by a random
    element of the group: what a network then finds is due to resampling.
    """
    samples, candidate = study.samples, study.candidates[run.candidate]
    seed = derive_seed(run.seed, run.question, run.candidate)
    generator = torch.Generator().manual_seed(seed)
    coins = torch.randint(2, (len(samples),), generator=generator)
    which = torch.randint(1, len(candidate.elements) + 1, (len(samples),), generator=generator)
    original = samples.x
    if run.question == "floor":
        original = candidate.moved(
            original, torch.randint(len(candidate.elements) + 1, (len(samples),), generator=generator)
        )
    one, other = candidate.moved(original, which), original
    if not candidate.is_exact and candidate.is_undone:
        one = candidate.moved_on(one, which, generator)
        other = candidate.there_and_back(original, which)
        if candidate.is_group and samples.x.ndim in (4, 5):
            one, other = _disc(one), _disc(other)
    x = torch.where(coins.bool().view(-1, *[1] * (samples.x.ndim - 1)), one, other)
    half = torch.randperm(len(samples), generator=generator)
    train, held = half[: len(half) // 2], half[len(half) // 2 :]
    seed_all(seed)
    net = build(Study(samples, {}, study.folder), Run("alike"), 2, x[train])
    seconds = _trained(study, run, net, x[train], coins[train], seed, None)
    scores = _scores(net, x[held]).double()
    return Answer((scores[:, 1] - scores[:, 0]).tolist(), coins[held].tolist(), count_weights(net), {}, seconds)


def _disc(x: Tensor) -> Tensor:
    """Images or volumes that are black outside of a disc or ball, which turns map to itself.

    The corners are filled from beyond the border when an image turns, and would tell that it was moved.
    """
    axes = [(torch.arange(n, dtype=x.dtype) - (n - 1) / 2) ** 2 for n in x.shape[2:]]
    distances = sum(torch.meshgrid(*axes, indexing="ij"), torch.zeros(())).sqrt()
    return x * (distances <= min(x.shape[2:]) / 2 - 1)
