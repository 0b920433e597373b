"""A worker process as seen from the explorer's server: asked, waited for, and killed when it must be."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import InputError

SECONDS = 20.0
"""How long an answer may take."""

_GRACE = 2.0  # seconds that work goes on after its tab was closed: ending it costs a new process
_WAITING = 8  # requests that may wait for one worker
_TICK = 0.1
_WHO = "intertwine explore"


class WorkerFailedError(RuntimeError):
    """The worker came upon a defect of the package, which it has printed."""


class Child:
    """A worker process, started when it is first asked, again after it was killed.

    It answers one request at a time. The others wait, and one whose browser has gone is dropped.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._guard = threading.Lock()
        self._waiting = 0
        self._ended = False
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def start(self) -> None:
        """Start the process if there is none, so that the first answer comes sooner."""
        with self._guard:
            if self._ended:
                raise InputError(_WHO, expected="a server that runs", got="one that has ended")
            if self._process is None or self._process.poll() is not None:
                # -P: the current folder is the user's, and what lies in it is not imported. A session of its own:
                # Ctrl-C is for the server, which then ends its workers.
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "intertwine.report.explore._worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
                self._lines = queue.SimpleQueue()
                threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()

    def stop(self) -> None:
        """Kill the process; it is not started again."""
        self._ended = True
        self.kill()

    def kill(self) -> None:
        """Kill the process, whatever it does."""
        with self._guard:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                for pipe in (self._process.stdin, self._process.stdout):
                    if pipe is not None:
                        _close(pipe)
                self._process = None

    def ask(
        self,
        do: str,
        arguments: Mapping[str, Any],
        *,
        gone: Callable[[], bool] = lambda: False,
        tell: Callable[[int], object] = lambda step: None,
        seconds: float = SECONDS,
    ) -> Any:
        """What the worker answers.

        Args:
            do: one of the things that a worker does.
            arguments: of it, as JSON values.
            gone: whether nobody waits for the answer any more.
            tell: called with the steps of a training.
            seconds: the longest it may take.
        """
        if self._waiting >= _WAITING:
            raise InputError(_WHO, expected=f"at most {_WAITING} requests at once", got="more", fix="Try again later.")
        self._waiting += 1
        try:
            while not self._turn.acquire(timeout=_TICK):
                if gone() or self._ended:
                    raise ConnectionAbortedError
        finally:
            self._waiting -= 1
        try:
            self.start()
            return self._answer({"do": do, "arguments": dict(arguments), "seconds": seconds + 5}, gone, tell, seconds)
        finally:
            self._turn.release()

    def _answer(
        self, request: dict[str, Any], gone: Callable[[], bool], tell: Callable[[int], object], seconds: float
    ) -> Any:
        lines, begun = self._lines, time.monotonic()
        self._send(json.dumps(request))
        while True:
            try:
                line = lines.get(timeout=_TICK)
            except queue.Empty:
                spent = time.monotonic() - begun
                if spent > seconds:
                    self.kill()
                    raise InputError(
                        request["do"],
                        expected=f"something that can be computed in {seconds:g} seconds",
                        got="more work than that",
                        fix="Choose a smaller group, size or number of channels.",
                    ) from None
                if spent > _GRACE and gone():
                    self.kill()
                    raise ConnectionAbortedError from None
                continue
            if line is None:
                if self._ended:
                    raise ConnectionAbortedError
                raise InputError(request["do"], expected="a worker that answers", got="one that was ended from outside")
            value = json.loads(line)
            if "step" in value:
                tell(value["step"])
            elif "refused" in value:
                raise Refused(value["refused"])
            elif "failed" in value:
                raise WorkerFailedError(value["failed"])
            else:
                return value["answer"]

    def _send(self, line: str) -> None:
        process = self._process
        try:
            if process is not None and process.stdin is not None:
                process.stdin.write(line + "\n")
                process.stdin.flush()
        except OSError:  # it has ended: reading says so
            return


class Refused(Exception):  # noqa: N818 - the worker's own error, whose text is all that crosses the pipe
    """What was asked for is wrong; the text says why."""


def _read(process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    try:
        for line in process.stdout or ():
            lines.put(line)
    except ValueError:  # closed while reading
        pass
    lines.put(None)


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except OSError:  # what was not yet written goes nowhere
        return
