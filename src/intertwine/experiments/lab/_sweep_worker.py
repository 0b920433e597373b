"""Runs one worker of a sweep in its own process; reads the sweep from standard input."""

from __future__ import annotations

import json
import sys

from ._sweep import Sweep, work


def main() -> None:
    """Read the sweep and run trials of it."""
    request = json.load(sys.stdin)
    work(Sweep.from_dict(request["sweep"]), request["worker"])


if __name__ == "__main__":
    main()
