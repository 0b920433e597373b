"""Runs one job in its own process: reads it from standard input and writes its outcome to standard output."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from ._runner import JobSpec, execute


def main() -> None:
    """Read a job, run it, and print its outcome as the last line."""
    outcome = asdict(execute(JobSpec(**json.load(sys.stdin))))
    del outcome["spec"]
    print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
