"""Ctrl-C and SIGTERM, handled at the end of a step."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType, TracebackType
from typing import Any

_ONE_PRESS = 1.0  # seconds: under torchrun one Ctrl-C arrives twice, from the terminal and from torchrun
_PATIENCE = 1.0  # seconds after which someone who pressed Ctrl-C wonders whether it was noticed
SAID = "fit has said where it stopped"
"""A note on the interrupt, for callers that would print a line of their own."""


def _hide_traceback(interrupt: KeyboardInterrupt) -> None:
    """Print no traceback if this interrupt is not caught: a message has already said that the run was saved.

    A subclass would not do: Python exits as if killed by the signal only for ``KeyboardInterrupt`` itself.
    """
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if error is not interrupt:
            before(kind, error, trace)

    sys.excepthook = hook


class Interrupts:
    """Within the block, the first SIGINT or SIGTERM is only recorded. A second one, more than a second later, ends the
    process at once.

    Python delivers signals only to the main thread; a run in another thread leaves the handlers unchanged.
    """

    def __init__(self) -> None:
        self.caught: signal.Signals | None = None
        self._when = 0.0
        self._before: dict[signal.Signals, Any] = {}
        self._reminder: threading.Timer | None = None

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
        if number == signal.SIGINT:
            self._reminder = threading.Timer(_PATIENCE, _remind)
            self._reminder.daemon = True
            self._reminder.start()

    def restore(self) -> None:
        """Restore the previous handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
        if self._reminder is not None:
            self._reminder.cancel()

    def __exit__(self, *_: object) -> None:
        self.restore()

    def error(self) -> BaseException:
        """The exception to raise for the signal that was caught, since callers expect the signal to end the program."""
        if self.caught == signal.SIGTERM:
            return SystemExit(128 + signal.SIGTERM)
        error = KeyboardInterrupt()
        error.add_note(SAID)
        _hide_traceback(error)
        return error


def _remind() -> None:
    """Only if the step takes long: otherwise the line that says where the run stopped is enough."""
    os.write(2, b"\nfinishing this step, then saving; Ctrl-C again stops at once\n")  # in one piece, whoever prints
