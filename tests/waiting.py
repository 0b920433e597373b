"""Waiting for what another process does, without racing it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress


def wait_until(
    condition: Callable[[], object], process: subprocess.Popen[str] | None = None, seconds: float = 120
) -> None:
    """Wait until the condition holds; fail after this many seconds, or if the process it depends on has ended."""
    end = time.monotonic() + seconds
    while True:
        with suppress(FileNotFoundError):  # a checkpoint was dropped while the condition looked through the folders
            if condition():
                return
        if process is not None and process.poll() is not None:
            raise AssertionError(f"the process ended before it happened: {process.communicate()}")
        assert time.monotonic() < end, f"it did not happen in {seconds} seconds"
        time.sleep(0.01)
