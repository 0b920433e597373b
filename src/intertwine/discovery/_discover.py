"""``discover``: which symmetry does this data have, and how strictly should a network obey it?"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .._checked import Positive, checked
from ..errors import InputError, StorageError
from ._candidate import Candidate, CandidateLike
from ._confused import ConfusedPair, confused_pairs
from ._effort import affordable_effort
from ._engines import Engine, EngineName, Progress, start_engine
from ._evidence import Evidence, shared, spreads
from ._networks import STRICTNESS, Factory, Strictness
from ._paired import difference
from ._parse import combine, parse_candidate, usual_candidates
from ._program import program
from ._result import Discovery, Finding, Gain, Picture
from ._runs import Answer, Run, Study
from ._samples import FOLDS, Data, Samples, prepare
from ._two_sample import AUC, area_under_curve
from ._verdict import Verdict, is_contested, judge
from ._worth import data_worth

_SHARES = (1.0, 1 / 4, 1 / 16)
_LEAST_TRAINING = 16  # samples, for the smallest share
_LOST = 1e-3  # the p-value of a loss after which a network gets no more seeds
_SETTLED = 1e-3  # the p-value after which a candidate gets no more seeds; so small that looking early costs nothing
_FUTILE = 0.1  # the p-value of "no network learned anything" above which more seeds are no use
_EARLIEST = 2  # seeds; one seed says nothing about how much seeds differ


@checked
def discover(
    data: Data,
    symmetries: CandidateLike | Iterable[CandidateLike] | None = None,
    *,
    labels: Tensor | None = None,
    network: nn.Module | Factory | None = None,
    seeds: Positive = 3,
    budget: float | None = None,
    effort: float = 1.0,
    max_samples: Positive = 10_000,
    folder: str | Path | None = None,
    name: str = "",
    use_labels: bool = True,
    load_options: Mapping[str, Any] | None = None,
    engine: EngineName = "local",
    workers: Positive | None = None,
    address: str | None = None,
    progress: Progress | None = None,
) -> Discovery:
    """Say for each candidate symmetry whether a network should obey it, how strictly, and what that is worth.

    Three questions are asked about each candidate:

    1. Does a moved sample look like the others? A network learns to tell moved samples from others; its AUC on samples
       held out is near ½ if the distribution is symmetric.
    2. Do labels survive? Networks of the same size are trained on the same samples: free, with equivariant layers
       (local), invariant, and relaxed. Symmetries without exact layers are imposed by augmentation and averaging.
    3. What is it worth? The same with a quarter and a sixteenth of the samples.

    The strictest network within one standard error of the best wins, see :class:`Verdict`. Accepted candidates are then
    tried together as one group.

    Args:
        data: the name or path of a dataset, a dataset, or a tensor of samples ``(n, channels, ...)``, or samples and
            labels. Of a dataset with training and test images, the training images are used.
        symmetries: names, spaces, symmetries or transformations, see :func:`parse_candidate`; by default all built-in
            candidates that apply to the images.
        labels: int64 ``(n,)``, if ``data`` is a tensor. Without labels, only the first question is answered.
        network: your own network from samples to class scores, or a function that builds one; symmetries are then
            imposed by augmentation and averaging.
        seeds: the number of training runs per network; each holds out another quarter of the samples.
        budget: an approximate time limit in seconds. What does not fit is left out, and named in the result.
        effort: the share of the usual training steps, above 0; a budget may lower it further.
        max_samples: use at most this many samples.
        folder: where runs leave their records. The same call with the same folder continues where it was interrupted.
        name: the name of the data, for titles.
        use_labels: False to ignore the labels.
        load_options: further arguments of :func:`intertwine.data.load`, if ``data`` is a name or path: ``folder``,
            ``size`` and others.
        engine: ``local``, ``process`` for several processes, ``ray`` for a cluster (extra ``ray``). The result is the
            same.
        workers: the number of processes; by default one per core.
        address: the address of a Ray cluster; None starts Ray on this machine.
        progress: called with the question that is being tested, the number of finished runs and that of all runs.

    >>> images = torch.rand(60, 1, 6, 6)
    >>> result = discover(images, ["hflip"])
    >>> result["hflip"].verdict.word, 0 <= result["hflip"].auc.value <= 1
    ("can't tell", True)
    """
    if budget is not None and not 0 < budget < math.inf:
        raise InputError("discover", expected="a budget in seconds, above 0", got=str(budget))
    if not 0 < effort < math.inf:
        raise InputError("discover", expected="an effort above 0", got=str(effort))
    begun = time.monotonic()
    samples = prepare(
        data, labels, max_samples=max_samples, name=name, use_labels=use_labels, load_options=load_options
    )
    candidates = _candidates(symmetries, samples)
    with ExitStack() as stack:
        place = Path(folder) if folder is not None else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _require_writable(place)
        study = Study(
            samples, {each.name: each for each in candidates}, place, _factory(network, samples), effort=effort
        )
        running = stack.enter_context(start_engine(engine, workers, address))
        deadline = math.inf if budget is None else begun + budget
        search = _Search(study, running, deadline, seeds, progress)
        if budget is not None:
            count = 1 if engine == "local" else workers or os.cpu_count() or 1
            affordable = affordable_effort(replace(study, effort=1.0), budget, seeds, search.shares, count)
            search.study = replace(study, effort=min(effort, affordable))
        return search.result()


def _candidates(symmetries: CandidateLike | Iterable[CandidateLike] | None, samples: Samples) -> list[Candidate]:
    if symmetries is None:
        names: Sequence[CandidateLike] = usual_candidates(samples.shape)
        if not names:
            raise InputError(
                "discover",
                expected="symmetries=, for samples that are not images",
                got=f"samples of shape {samples.shape}",
                fix='For example symmetries=["Grid1d(D1)"] for signals.',
            )
    elif isinstance(symmetries, Iterable) and not isinstance(symmetries, str):
        names = list(symmetries)
    else:
        names = [symmetries]
    candidates = [parse_candidate(each, samples.shape) for each in names]
    taken = [each.name for each in candidates]
    twice = sorted({each for each in taken if taken.count(each) > 1})
    if twice or not candidates:
        raise InputError("discover", expected="one or more different candidates", got=", ".join(twice) or "none")
    for each in candidates:
        _require_maps(each, samples)
    return candidates


def _require_maps(candidate: Candidate, samples: Samples) -> None:
    """Try every element on two samples, so that a faulty map of the user fails now."""
    x = samples.x[:2]
    for each in candidate.elements:
        try:
            shape = tuple(each.forward(x).shape)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            raise InputError(
                f"candidate {candidate.name}", expected=f"maps of samples of shape {samples.shape}", got=str(error)
            ) from error
        if shape != tuple(x.shape):
            raise InputError(
                f"candidate {candidate.name}", expected=f"maps to samples of shape {samples.shape}", got=str(shape[1:])
            )


def _factory(network: nn.Module | Factory | None, samples: Samples) -> Factory | None:
    if network is None:
        return None
    build = _Fixed(network) if isinstance(network, nn.Module) else network
    net = build()
    with torch.no_grad():
        try:
            out = net.eval()(samples.x[:2])
        except (RuntimeError, TypeError, ValueError) as error:
            raise InputError(
                "discover", expected=f"a network for samples of shape {samples.shape}", got=str(error)
            ) from error
    classes = len(samples.classes)
    if samples.labels is not None and tuple(out.shape) != (2, classes):
        raise InputError(
            "discover", expected=f"a network with {classes} class scores per sample", got=f"outputs {tuple(out.shape)}"
        )
    return build


class _Fixed:
    """Returns a network as it is, with its weights; runs train copies of it."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network

    def __call__(self) -> nn.Module:
        return self.network


def _require_writable(folder: Path) -> None:
    try:
        (folder / "runs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            "discover", expected="a writable folder", got=f"{folder} ({error.strerror or error})"
        ) from error


class _Search:
    """The order in which runs are made, and the findings that follow from their answers."""

    def __init__(self, study: Study, engine: Engine, deadline: float, seeds: int, progress: Progress | None) -> None:
        self.study, self.engine, self.deadline, self.seeds, self.progress = study, engine, deadline, seeds, progress
        self.answers: dict[Run, Answer] = {}
        self.left_out: list[str] = []
        self.apart: list[str] = []  # why accepted candidates were not combined
        self.planned = 0
        self.shown = 0

    @property
    def samples(self) -> Samples:
        return self.study.samples

    # -- runs --------------------------------------------------------------------------------------------------------

    def _execute(self, runs: Sequence[Run]) -> None:
        new = [run for run in runs if run not in self.answers]
        self.planned = max(self.planned, len(self.answers) + len(new))
        self.answers |= self.engine.run(self.study, new, self.deadline, self._show)
        self.left_out += [run.title for run in new if run not in self.answers]

    def _show(self, run: Run) -> None:
        self.shown = max(self.shown, len(self.answers)) + 1
        if self.progress is not None:
            self.progress(run.title, self.shown - 1, self.planned)

    def _ask_alike(self, names: Sequence[str]) -> None:
        runs = [Run("alike", name) for name in names]
        runs += [Run("floor", name) for name in names if self.study.has_floor(name)]
        self._execute(runs)

    def _ask_labels(self, names: Sequence[str], seeds: Sequence[int]) -> None:
        """Train the networks, seed by seed; only what is still undecided gets more seeds."""
        for seed in seeds:
            open_ = self._open(names) if seed >= _EARLIEST else names
            if not open_:
                return
            runs = [Run("labels", seed=seed, share=share) for share in self.shares]
            for name in open_:
                lost = self._lost(name) if seed else set()
                for network in self.study.strictnesses(name):
                    if network not in lost:
                        runs += [Run("labels", name, network, seed, share) for share in self.shares]
            self._execute(runs)

    def _open(self, names: Sequence[str]) -> list[str]:
        """The candidates whose verdict could still change.

        Not those that are clearly decided (a Haybittle-Peto boundary) and uncontested, nor those whose labels nobody
        learns so far.
        """
        judged = self._judged(names)

        def is_open(evidence: Evidence, verdict: Verdict) -> bool:
            if len(evidence.networks) > 1 and evidence.over_guessing().p_above(0.0) > _FUTILE:
                return False
            is_settled = verdict.word != "can't tell" and verdict.p_value is not None and verdict.p_value <= _SETTLED
            return not is_settled or is_contested(evidence, verdict)

        return [name for name in names if is_open(*judged[name])]

    def _lost(self, name: str) -> set[Strictness]:
        """The networks that cannot win any more: clearly behind the free one or a stricter one, and not ahead of it
        with all data.

        The invariant network stays while it is the only one, since the verdict is about it.
        """
        evidence = self._evidence(name)
        networks = evidence.networks
        if networks == ["invariant", "free"]:
            return set()

        def is_behind(network: Strictness, rival: Strictness) -> bool:
            ahead = evidence.gain(network, rival, full=True).mean > 0
            return not ahead and evidence.gain(rival, network).p_above(0.0) < _LOST

        rivals = {each: [*networks[: networks.index(each)], "free"] for each in networks if each != "free"}
        return {each for each, others in rivals.items() if any(is_behind(each, other) for other in others)}

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of the data, without those that would leave too few samples."""
        least = max(_LEAST_TRAINING, 2 * len(self.samples.classes))
        return tuple(s for s in _SHARES if s == 1 or s * len(self.samples) * (1 - 1 / FOLDS) >= least)

    # -- evidence ----------------------------------------------------------------------------------------------------

    def _evidence(self, name: str) -> Evidence:
        candidate = self.study.candidates[name]
        networks: list[tuple[Strictness, str]] = [("free", "")]
        networks += [(each, name) for each in self.study.strictnesses(name)]
        curves = {network: self._curve(owner, network) for network, owner in networks}
        curves = (
            {network: curve for network, curve in curves.items() if curve} if self.samples.labels is not None else {}
        )
        return Evidence(
            name,
            candidate.words,
            self.study.has_only_layers(name),
            curves if "free" in curves else {},
            {seed: self._guess(seed) for seed in curves["free"][1.0]} if "free" in curves else {},
            len(self.samples),
            self._auc(name),
        )

    def _curve(self, owner: str, network: Strictness) -> dict[float, dict[int, Tensor]]:
        """The learning curve of a network, from the seeds that have all shares."""
        seeds = sorted({run.seed for run in self.answers if run.question == "labels"})
        complete = [
            seed
            for seed in seeds
            if all(Run("labels", owner, network, seed, share) in self.answers for share in self.shares)
        ]
        if not complete:
            return {}
        return {
            share: {seed: self._right(Run("labels", owner, network, seed, share)) for seed in complete}
            for share in self.shares
        }

    def _right(self, run: Run) -> Tensor:
        return self._predicted(run) == self._labels_of(run.seed)

    def _predicted(self, run: Run) -> Tensor:
        return torch.tensor(self.answers[run].values, dtype=torch.int64)

    def _labels_of(self, seed: int) -> Tensor:
        labels = self.samples.labels
        if labels is None:
            raise InputError("discover", expected="labels", got="none")
        return labels[self.samples.held_out(seed)]

    def _guess(self, seed: int) -> Tensor:
        """For each sample held out, whether the most frequent class of the others is right."""
        labels = self.samples.labels
        if labels is None:
            raise InputError("discover", expected="labels", got="none")
        majority = labels[self.samples.training(seed)].bincount().argmax()
        return self._labels_of(seed) == majority

    def _auc(self, name: str) -> AUC | None:
        alike = self.answers.get(Run("alike", name))
        if alike is None:
            return None
        floor = self.answers.get(Run("floor", name))
        level = None if floor is None else area_under_curve(floor.values, floor.coins)
        return area_under_curve(alike.values, alike.coins, floor=level)

    def _judged(self, names: Sequence[str]) -> dict[str, tuple[Evidence, Verdict]]:
        evidence = [self._evidence(name) for name in names]
        spread, full = spreads(evidence, full=False), spreads(evidence, full=True)
        evidence = [replace(each, spread=spread, full_spread=full) for each in evidence]
        return dict(zip(names, zip(evidence, judge(evidence), strict=True), strict=True))

    # -- the procedure -----------------------------------------------------------------------------------------------

    def result(self) -> Discovery:
        names = list(self.study.candidates)
        labeled = self.samples.labels is not None
        networks = 1 + sum(len(self.study.strictnesses(name)) for name in names)
        floors = sum(self.study.has_floor(name) for name in names)
        self.planned = len(names) + floors + (networks * len(self.shares) * self.seeds if labeled else 0)
        self._ask_alike(names)
        joint: dict[str, tuple[str, ...]] = {}
        together = ""
        if labeled:
            self._ask_labels(names, range(self.seeds))
            judged = self._judged(names)
            undecided = [name for name in names if judged[name][1].images_needed or is_contested(*judged[name])]
            if undecided and self.seeds < FOLDS:
                self._ask_labels(undecided, [self.seeds])  # the last quarter of the samples may decide
            joint, together = self._join(names)
        names += joint
        # Combinations are tried because their parts were accepted, so they do not change the verdicts on the parts.
        judged = self._judged(names) | self._judged([name for name in names if name not in joint])
        findings = [self._finding(name, *judged[name], joint.get(name, ())) for name in names]
        chosen = self._recommended(findings, together)
        text, why_not = program(self.study, chosen, self._promise(chosen)) if labeled else ("", "")
        notes = [*self.samples.notes, *self._notes(), *filter(None, [why_not])]
        return Discovery(
            self.samples.name,
            len(self.samples),
            self.samples.shape,
            self.samples.classes,
            tuple(findings),
            chosen,
            len({run.seed for run in self.answers if run.question == "labels"}),
            sum(answer.seconds for answer in self.answers.values()),
            tuple(notes),
            tuple(self.left_out),
            text,
        )

    def _notes(self) -> list[str]:
        notes = []
        if self.samples.labels is None:
            notes.append("There are no labels, so only the first question is answered.")
        if self.study.effort != 1:
            trained = f"networks were trained for {self.study.effort:g} of the usual steps."
            limited = self.deadline < math.inf
            notes.append(f"To fit into the budget, {trained}" if limited else trained.capitalize())
        if self.study.network is not None:
            notes.append("Symmetries are imposed on your network by augmentation and averaging.")
        for name, candidate in self.study.candidates.items():
            if not candidate.is_exact and not candidate.is_undone:
                notes.append(f"{name} has no inverse, so a network may tell moved samples by their resampling.")
        return [*notes, *self.apart]

    def _promise(self, chosen: Finding | None) -> float:
        if chosen is None:
            return sum(float(self._right(run).double().mean()) for run in self._free()) / max(1, len(self._free()))
        strictness = chosen.verdict.strictness
        return chosen.accuracy[strictness or "free"]

    def _free(self) -> list[Run]:
        return [run for run in self.answers if run.question == "labels" and not run.candidate and run.share == 1]

    def _join(self, names: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], str]:
        """Try accepted candidates together, the most useful first.

        Returns the combinations that were tried, each with its parts, and the name of the largest accepted one.
        """
        judged = self._judged(names)
        accepted = [name for name in names if _is_accepted(judged[name][1])]
        accepted.sort(key=lambda name: -judged[name][0].gain("invariant").mean)
        tried: dict[str, tuple[str, ...]] = {}
        members, whole = accepted[:1], "".join(accepted[:1])
        for name in accepted[1:]:
            parts = (*members, name)
            group = combine([self.study.candidates[each] for each in parts], self.samples.shape)
            if group is None:
                self.apart.append(
                    f"{' and '.join(parts)} were not tried together: there are no layers for their group."
                )
                continue
            if group.name == whole:
                continue
            if group.name not in self.study.candidates:
                self.study = self.study.with_candidate(group)
                tried[group.name] = parts
                self._ask_alike([group.name])
                self._ask_labels([group.name], range(self.seeds))
            everything = self._judged([*names, *tried])
            if _is_accepted(everything[group.name][1]) and _keeps_up(everything[group.name][0], everything[whole][0]):
                members, whole = [*members, name], group.name
        return tried, whole

    def _recommended(self, findings: Sequence[Finding], together: str) -> Finding | None:
        """The largest accepted combination; otherwise the most useful symmetry to impose in layers, or to relax."""
        for each in findings:
            if each.symmetry == together and _is_accepted(each.verdict):
                return each

        def order(finding: Finding) -> tuple[int, float]:
            strict = finding.verdict.strictness or "free"
            gain = finding.curve_gains[strict].mean if strict in finding.curve_gains else 0.0
            return -STRICTNESS.index(strict), gain

        useful = [each for each in findings if each.verdict.word in ("impose", "relax")]
        return max(useful, key=order) if useful else None

    # -- findings ----------------------------------------------------------------------------------------------------

    def _finding(self, name: str, evidence: Evidence, verdict: Verdict, joint_of: tuple[str, ...]) -> Finding:
        strict = [each for each in evidence.networks if each != "free"]
        chosen = verdict.strictness if verdict.strictness in strict else (strict[0] if strict else None)
        pairs = self._confused(name, evidence)
        return Finding(
            name,
            evidence.words,
            verdict,
            evidence.exact,
            evidence.auc,
            {each: evidence.accuracy(each) for each in evidence.networks},
            {each: _gain(evidence, each, full=True) for each in strict},
            {each: _gain(evidence, each, full=False) for each in strict},
            {each: self._points(evidence, each) for each in evidence.networks},
            data_worth(evidence.curves["free"], evidence.curves[chosen]) if chosen else None,
            pairs,
            self._dials(name),
            joint_of,
            tuple(filter(None, (self._picture(name, pair) for pair in pairs[:3]))),
        )

    def _points(self, evidence: Evidence, network: Strictness) -> list[tuple[int, list[float]]]:
        return [
            (len(self.samples.training(0, share)), [float(right.double().mean()) for right in by_seed.values()])
            for share, by_seed in sorted(evidence.curves[network].items())
        ]

    def _confused(self, name: str, evidence: Evidence) -> tuple[ConfusedPair, ...]:
        if "invariant" not in evidence.networks:
            return ()
        shares = sorted(evidence.curves["invariant"])
        seeds = [seed for seed in evidence.curves["invariant"][1.0] if seed in evidence.curves["free"][1.0]]

        def predicted(owner: str, network: Strictness, seed: int) -> Tensor:
            return torch.stack([self._predicted(Run("labels", owner, network, seed, share)) for share in shares])

        triples = [
            (self._labels_of(seed), predicted(name, "invariant", seed), predicted("", "free", seed)) for seed in seeds
        ]
        return confused_pairs(triples, self.samples.classes)

    def _dials(self, name: str) -> dict[str, float]:
        """The mean over seeds of the dial of each layer, with all data."""
        dials = [
            answer.dials
            for run, answer in self.answers.items()
            if (run.candidate, run.strictness, run.share) == (name, "relaxed", 1.0)
        ]
        layers = dials[0] if dials else {}
        return {layer.removeprefix("1."): sum(each[layer] for each in dials) / len(dials) for layer in layers}

    def _picture(self, name: str, pair: ConfusedPair) -> Picture | None:
        """The sample of one class that, moved, is closest to a sample of the other class."""
        labels, classes = self.samples.labels, self.samples.classes
        if labels is None or self.samples.x.ndim != 4:
            return None
        ones, others = (self.samples.x[labels == classes.index(each)][:50] for each in (pair.first, pair.second))
        best: tuple[float, Picture | None] = (math.inf, None)
        for element in self.study.candidates[name].elements:
            moved = element.forward(ones)
            distances = torch.cdist(moved.flatten(1), others.flatten(1))
            closest = int(distances.argmin())
            i, j = divmod(closest, len(others))
            if float(distances[i, j]) < best[0]:
                best = float(distances[i, j]), Picture(pair, ones[i], moved[i], others[j])
        return best[1]


def _is_accepted(verdict: Verdict) -> bool:
    return verdict.word == "impose" and verdict.strictness == "invariant"


def _keeps_up(larger: Evidence, smaller: Evidence) -> bool:
    """Whether the network of a combination is within one standard error of that of its parts."""
    one, other = shared(larger.along_curve("invariant"), smaller.along_curve("invariant"))
    loss = difference(other, one, folds=FOLDS)
    return loss.mean <= loss.error


def _gain(evidence: Evidence, network: Strictness, *, full: bool) -> Gain:
    gain = evidence.gain(network, full=full)
    return Gain(gain.mean, gain.interval)
