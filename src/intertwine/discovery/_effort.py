"""How long networks may train, so that a search fits into its budget."""

from __future__ import annotations

import json
import time

import torch

from .._files import replace_file
from .._untrusted import parse_json
from ..errors import IntertwineError
from ._networks import Strictness
from ._runs import BATCH, Run, Study, build, cross_entropy, one_thread

PLAN = "plan.json"
_EFFORTS = (1.0, 0.5, 0.25, 0.125)
_TIMED = 5  # steps


def affordable_effort(study: Study, seconds: float, seeds: int, shares: tuple[float, ...], workers: int) -> float:
    """The largest share of the usual training steps that fits into a budget, from the time of a few steps.

    The first call stores it in the folder, so that a search that continues trains networks as long as before.
    """
    path = study.folder / PLAN
    try:
        stored = float(parse_json(path.read_bytes(), caller=PLAN)["effort"])
        if stored in _EFFORTS:
            return stored
    except (OSError, IntertwineError, KeyError, TypeError, ValueError):
        pass
    with one_thread():  # as in the runs; several threads wait for each other on a busy machine, a hundred times as long
        cost = _seconds(study, seeds, shares) / workers
    effort = next((each for each in _EFFORTS if each * cost <= seconds), _EFFORTS[-1])
    replace_file(path, json.dumps({"effort": effort}).encode())
    return effort


def _seconds(study: Study, seeds: int, shares: tuple[float, ...]) -> float:
    """An estimate of the seconds of all runs."""
    free = _step_seconds(study, "", "free")
    half = study.steps(len(study.samples) // 2)
    alike = sum(1 + study.has_floor(name) for name in study.candidates) * half * free
    if study.samples.labels is None:
        return alike
    per_step = free
    for name in study.candidates:
        exact = study.has_exact_layers(name)
        per_step += sum(_step_seconds(study, name, each) if exact else free for each in study.strictnesses(name))
    steps = sum(study.steps(len(study.samples.training(0, share))) for share in shares)
    return alike + seeds * steps * per_step


def _step_seconds(study: Study, candidate: str, strictness: Strictness) -> float:
    x = study.samples.x[:BATCH]
    classes = max(2, len(study.samples.classes))
    net = build(study, Run("labels", candidate, strictness), classes, x)
    labels = torch.arange(len(x)) % classes
    seconds = []
    for _ in range(_TIMED + 1):
        begun = time.monotonic()
        cross_entropy(net, (x, labels)).backward()
        seconds.append(time.monotonic() - begun)
    # The first step also sets things up. On a busy machine single steps wait for others, which all runs would not do.
    return min(seconds[1:])
