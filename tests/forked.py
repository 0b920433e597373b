"""Child processes that start from a process with torch already imported.

Importing torch and its compiler takes a process three CPU seconds, and hundreds of tests start one. Where a test needs
a process, but not a fresh interpreter, the fixture ``forked_children`` of tests/conftest.py makes ``subprocess`` start
Python programs as forks of a process that has imported libraries, but nothing of this package. The forks are real
processes and children of this one, with pipes, exit codes and signals.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import types
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

LIBRARIES = (
    "numpy",
    "torch",
    "torch._dynamo",
    "torch.utils.data",
    "safetensors.torch",
    "yaml",
    "typer",
    "rich.console",
)
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphaned grandchildren become children of this process
MESSAGE = 2**18
OPTIONS = ([], ["-P"], ["-W", "error"], ["-W", "ignore"])  # of the interpreter, that a fork can follow

_RealPopen = subprocess.Popen
_lock = threading.Lock()


class ForkedPopen(subprocess.Popen):  # type: ignore[type-arg]
    """``subprocess.Popen``, but commands that run a module or a program text with this interpreter are forked."""

    def _execute_child(self, args: Any, executable: Any, preexec: Any, *rest: Any) -> None:
        _close, _pass, cwd, env, _info, _flags, _shell, *pipes = rest[:13]
        command = [os.fspath(word) for word in args] if isinstance(args, list | tuple) else []
        if executable or preexec or command[:1] != [sys.executable] or parsed(command)[0] not in OPTIONS:
            super()._execute_child(args, executable, preexec, *rest)  # type: ignore[misc]
            return
        request = {
            "command": command,
            "folder": os.path.abspath(cwd or "."),
            "environment": dict(os.environ if env is None else env),
            "new_session": bool(rest[-2]),
        }
        streams = [own if pipe == -1 else pipe for own, pipe in enumerate((pipes[0], pipes[3], pipes[5]))]
        self.pid = fork(request, streams)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def parsed(command: list[str]) -> tuple[list[str] | None, str, list[str]]:
    """The interpreter's options in a command, ``-m`` or ``-c``, and what follows. Options are None without either."""
    for place, word in enumerate(command):
        if word in ("-m", "-c"):
            return command[1:place], word, command[place + 1 :]
    return None, "", []


def fork(request: dict[str, Any], streams: list[int]) -> int:
    """Start a process with these standard streams; returns its id."""
    with _lock:
        server = _server()
        prctl = ctypes.CDLL(None).prctl
        prctl(SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(server, [json.dumps(request).encode()], streams)
            answer = server.recv(MESSAGE)
        finally:
            prctl(SUBREAPER, 0, 0, 0, 0)  # the orphans of other tests belong to init
    assert answer, "the process that forks is gone"
    return int(answer)


@cache
def _server() -> socket.socket:
    """The connection to the process that forks, which ends when the connection does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = _RealPopen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()])

    def end() -> None:
        ours.close()
        process.wait(timeout=60)  # so that its CPU time counts as that of the tests

    atexit.register(end)
    return ours


def serve(connection: socket.socket) -> dict[str, Any]:
    """Fork at each request. This function returns only in the new processes, with the request."""
    for library in LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(library)
    gc.collect()
    gc.freeze()
    while True:
        message, streams, _, _ = socket.recv_fds(connection, MESSAGE, 3)
        if not message:
            os._exit(0)
        reader, writer = os.pipe()
        between = os.fork()
        if not between:
            child = os.fork()
            if child:
                os.write(writer, str(child).encode())
                os._exit(0)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            os.closerange(3, max(*streams, reader, writer, connection.detach()) + 1)
            return json.loads(message)  # type: ignore[no-any-return]
        os.waitpid(between, 0)  # its child is now an orphan, so a child of the test's process
        connection.send(os.read(reader, 32))
        for number in (reader, writer, *streams):
            os.close(number)


def become(request: dict[str, Any]) -> None:
    """Do what the interpreter does with the command."""
    if request["new_session"]:
        os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        buffering = 1 if name == "stderr" or "PYTHONUNBUFFERED" in os.environ or os.isatty(number) else -1
        stream = open(number, mode, buffering, encoding, errors or None, closefd=False)  # noqa: SIM115  open to the end
        setattr(sys, name, stream)
    options, kind, (target, *arguments) = parsed(request["command"])
    warnings.resetwarnings()
    if options and options[0] == "-W":
        warnings.simplefilter(options[1])  # type: ignore[arg-type]
    else:
        warnings.simplefilter("ignore", DeprecationWarning)
    here = [] if options == ["-P"] else [request["folder"] if kind == "-m" else ""]
    extra = filter(None, request["environment"].get("PYTHONPATH", "").split(os.pathsep))
    own = str(Path(__file__).parent)
    sys.path[:] = dict.fromkeys([*here, *extra, *(place for place in sys.path if place != own)])
    sys.argv = [kind, *arguments]
    if kind == "-m":
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    else:
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(target, "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    become(serve(socket.socket(fileno=int(sys.argv[1]))))
