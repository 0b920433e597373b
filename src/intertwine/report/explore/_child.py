"""A worker process from the server's side: sends requests, waits for answers, kills the process if needed."""

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
"""The time limit for an answer."""

_GRACE = 2.0  # seconds that work continues after its tab is closed, because a new process costs time
_WAITING = 8  # maximum number of requests that wait for one worker
_TICK = 0.1
_CALLER = "intertwine explore"


class WorkerFailedError(RuntimeError):
    """The worker hit a bug in the package, and has printed the traceback."""


class Child:
    """A worker process, started on the first request and again after it was killed.

    It answers one request at a time. Others wait, and are dropped if their browser closes the connection.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._guard = threading.Lock()
        self._waiting = 0
        self._ended = False
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def start(self) -> None:
        """Start the process if there is none; calling this early makes the first answer faster."""
        with self._guard:
            if self._ended:
                raise InputError(_CALLER, expected="a running server", got="one that was stopped")
            if self._process is None or self._process.poll() is not None:
                # -P: never import from the current folder, which is the user's. A new session: Ctrl-C goes to the
                # server only, which then stops its workers.
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
        """Kill the process, and never start it again."""
        self._ended = True
        self.kill()

    def kill(self) -> None:
        """Kill the process."""
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
        """Send a request and return the answer.

        Args:
            do: the name of a task of the worker.
            arguments: the arguments of the task, as JSON values.
            gone: whether nobody waits for the answer anymore.
            tell: called with the number of training steps done.
            seconds: the time limit.
        """
        if self._waiting >= _WAITING:
            raise InputError(
                _CALLER, expected=f"at most {_WAITING} requests at once", got="more", fix="Try again later."
            )
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
        lines, start = self._lines, time.monotonic()
        self._send(json.dumps(request))
        while True:
            try:
                line = lines.get(timeout=_TICK)
            except queue.Empty:
                spent = time.monotonic() - start
                if spent > seconds:
                    self.kill()
                    raise InputError(
                        request["do"],
                        expected=f"a computation of at most {seconds:g} seconds",
                        got="a longer one",
                        fix="Choose a smaller group, size or number of channels.",
                    ) from None
                if spent > _GRACE and gone():
                    self.kill()
                    raise ConnectionAbortedError from None
                continue
            if line is None:
                if self._ended:
                    raise ConnectionAbortedError
                raise InputError(request["do"], expected="a worker that answers", got="one that was killed")
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
        except OSError:  # it has exited, which the reader notices
            return


class Refused(Exception):  # noqa: N818 - the worker's own error, whose text is all that crosses the pipe
    """The request is wrong; the text says why."""


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
    except OSError:  # unsent requests are lost
        return
