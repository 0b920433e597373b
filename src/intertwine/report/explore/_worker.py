"""The explorer's worker: a process that computes answers one at a time, within limits.

It reads requests from standard input and writes answers to standard output, one JSON value per line. It may use a few
gigabytes of memory. It cannot block the server, which kills it if it takes too long or if nobody waits for its answer
anymore.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

MEMORY = 2 * 2**30
"""Bytes that a worker may use in addition to the program itself."""

Tell = Callable[[int], None]


def main() -> None:
    """Answer until the server closes the pipe."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    sys.stdout = sys.stderr  # output of libraries must not mix with the answers
    answers = _answers()
    _limit_memory()
    for line in sys.stdin:
        request = json.loads(line)
        _end_after(request["seconds"])
        _write(out, _answered(answers, request, lambda step: _write(out, {"step": step})))
        _end_after(0)


def _answered(answers: Mapping[str, Callable[..., Any]], request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    from ..._numerics import is_memory
    from ...errors import IntertwineError
    from .._html import finite

    try:
        return {"answer": finite(answers[request["do"]](tell, **request["arguments"]))}
    except IntertwineError as error:
        return {"refused": str(error)}
    except OSError as error:
        return {"refused": f"{error.filename or request['do']}: {error.strerror or error}"}
    except Exception as error:
        if is_memory(error):
            return {"refused": f"{request['do']}: this needs more than the {MEMORY >> 30} GB that the explorer allows"}
        traceback.print_exc()  # a bug: the traceback goes to the terminal, one line to the page
        return {"failed": f"{type(error).__name__}: {error}"}


def _answers() -> dict[str, Callable[..., Any]]:
    """The tasks by name; the first argument of each is a function that reports progress."""
    from ._audit import Audits
    from ._capsules import rolled, train
    from ._kernels import applied_kernel, kernel_answer, representation_names
    from ._relax import low_rank_answer, soft_answer
    from ._turn import train_turn, turn_answer, turn_curve

    return {
        "representations": lambda tell, **query: representation_names(**query),
        "kernels": lambda tell, **query: kernel_answer(**query),
        "apply": lambda tell, **query: applied_kernel(**query),
        "soft": lambda tell, **query: soft_answer(**query),
        "low-rank": lambda tell, **query: low_rank_answer(**query),
        "roll": lambda tell, folder, **query: rolled(Path(folder), **query),
        "train-capsules": lambda tell, folder, steps: train(Path(folder), steps, tell),
        "turn": lambda tell, folder, **query: turn_answer(Path(folder), **query),
        "turn-curve": lambda tell, folder, picture: turn_curve(Path(folder), picture),
        "train-turn": lambda tell, folder, steps: train_turn(Path(folder), steps, tell),
        "audits": lambda tell, folders: Audits([Path(each) for each in folders]).names(),
        "audit": lambda tell, folders, name: Audits([Path(each) for each in folders]).answer(name),
    }


def _write(out: IO[str], value: object) -> None:
    out.write(json.dumps(value) + "\n")
    out.flush()


def _limit_memory() -> None:
    """Limit memory, on systems that support it."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[5])  # what counts toward this limit so far
        now = pages * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_DATA, (now + MEMORY, now + MEMORY))
    except (ImportError, OSError, ValueError, IndexError):
        return


def _end_after(seconds: float) -> None:
    """Kill this process after some seconds, in case the server is gone; 0 cancels that."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main()
