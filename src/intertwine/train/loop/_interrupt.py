"""Ctrl-C and termination, noticed at the end of a step."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType, TracebackType
from typing import Any

_ONE_PRESS = 1.0  # seconds: under torchrun one Ctrl-C arrives twice, from the terminal and from torchrun


def _show_no_trace(of: KeyboardInterrupt) -> None:
    """If nobody catches this one, the program ends without a trace: a line has said that the run was saved.

    Not a class of its own: only for an uncaught ``KeyboardInterrupt`` itself does Python end as by the signal.
    """
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if error is not of:
            before(kind, error, trace)

    sys.excepthook = hook


class Interrupts:
    """Within the block, the first SIGINT or SIGTERM is only remembered; a second one, more than a
    second later, ends the process at once.

    Python delivers signals to the main thread alone; a run in another thread keeps the handlers as they are.
    """

    def __init__(self) -> None:
        self.caught: signal.Signals | None = None
        self._when = 0.0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) not in (signal.SIG_IGN, None):  # nohup stays nohup
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.caught is not None and now - self._when > _ONE_PRESS:
            self.restore()
            raise KeyboardInterrupt
        if self.caught is not None:
            return
        self.caught, self._when = signal.Signals(number), now
        if number == signal.SIGINT:  # not print: it may be what was interrupted
            os.write(2, b"\nfinishing this step, then saving; Ctrl-C again stops at once\n")

    def restore(self) -> None:
        """Put the handlers back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def __exit__(self, *_: object) -> None:
        self.restore()

    def error(self) -> BaseException:
        """What to raise for the signal that was caught: programs expect to be ended by it."""
        if self.caught == signal.SIGTERM:
            return SystemExit(128 + signal.SIGTERM)
        error = KeyboardInterrupt()
        _show_no_trace(error)
        return error
