"""One worker of a sweep in a process of its own; what to do comes on standard input."""

from __future__ import annotations

import json
import sys

from ._sweep import Sweep, work


def main() -> None:
    """Read the sweep and work on it."""
    asked = json.load(sys.stdin)
    work(Sweep.from_dict(asked["sweep"]), asked["worker"])


if __name__ == "__main__":
    main()
