"""The explorer's worker: a process that computes one answer after the other, within limits.

It reads requests from standard input and writes answers to standard output, one JSON value per line. It may use a few
gigabytes of memory. Nothing that it computes can stop the server, which kills it when it takes too long or when nobody
waits for its answer any more.
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
"""Bytes that a worker may use beyond what the program itself takes."""

Tell = Callable[[int], None]


def main() -> None:
    """Answer until the server closes the pipe."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    sys.stdout = sys.stderr  # whatever a library prints must not end up among the answers
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
        traceback.print_exc()  # a bug: the trace goes to the server's terminal, one line to the page
        return {"failed": f"{type(error).__name__}: {error}"}


def _answers() -> dict[str, Callable[..., Any]]:
    """What can be asked for, each with a function to tell progress as its first argument."""
    from ._audit import Audits
    from ._capsules import rolled, train
    from ._kernels import kernel_answer, representation_names
    from ._relax import low_rank_answer, soft_answer

    return {
        "representations": lambda tell, **query: representation_names(**query),
        "kernels": lambda tell, **query: kernel_answer(**query),
        "soft": lambda tell, **query: soft_answer(**query),
        "low-rank": lambda tell, **query: low_rank_answer(**query),
        "roll": lambda tell, folder, **query: rolled(Path(folder), **query),
        "train": lambda tell, folder, steps: train(Path(folder), steps, tell),
        "audits": lambda tell, folders: Audits([Path(each) for each in folders]).names(),
        "audit": lambda tell, folders, name: Audits([Path(each) for each in folders]).answer(name),
    }


def _write(out: IO[str], value: object) -> None:
    out.write(json.dumps(value) + "\n")
    out.flush()


def _limit_memory() -> None:
    """Refuse memory beyond the limit, where the system can."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[5])  # what counts against this limit so far
        now = pages * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_DATA, (now + MEMORY, now + MEMORY))
    except (ImportError, OSError, ValueError, IndexError):
        return


def _end_after(seconds: float) -> None:
    """End this process then, if the server that should have done it is gone; 0 calls that off."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main()
