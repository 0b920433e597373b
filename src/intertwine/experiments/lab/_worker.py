"""One job in its own process: reads the job from standard input, writes its outcome to standard output."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from ._runner import JobSpec, execute


def main() -> None:
    """Read a job, run it, print how it ended as the last line."""
    outcome = asdict(execute(JobSpec(**json.load(sys.stdin))))
    del outcome["spec"]
    print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
