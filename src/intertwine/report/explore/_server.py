"""The explorer's server: one page and its requests, for this machine only.

It listens on 127.0.0.1. A request must have that address in its Host header; otherwise another site could reach the
server through a domain name that resolves to this machine (DNS rebinding). It also must not come from another page,
which browsers say in other headers. The server opens no file that a request names. Slow computations run in worker
processes with bounded time and memory, one per tab, so no request can block the server or another tab.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..._checked import checked, describe
from ..._untrusted import parse_json
from ...errors import InputError, IntertwineError, shortened
from ._capsules import QUICK_STEPS, Capsules
from ._child import SECONDS, Child, Refused, WorkerFailedError
from ._page import explore_page
from ._paths import without_paths
from ._pictures import DEFAULT
from ._training import UNWATCHED
from ._turn import STEPS, Turning

ADDRESS = "127.0.0.1"
_MAX_PATH = 2000  # characters
_MAX_BODY = 64 * 1024  # bytes; a picture has 400 numbers
_MAX_DISCARDED = 4 * 2**20
_CALLER = "intertwine explore"

Query = Mapping[str, str]
Gone = Callable[[], bool]
"""Whether the browser has closed the connection."""


class Explorer(ThreadingHTTPServer):
    """Serves the explorer; ``serve_forever`` runs it and ``shutdown`` stops it.

    Args:
        port: the port to listen on; 0 for any free one.
        demo: the folder of a demo; shows its network and audits.
        audits: folders with audits.
        steps: the number of training steps of the capsules if the demo has no network.
        turn_steps: the number of training steps of each network that watches a turning picture.
        seconds: the time limit for computing an answer.
        unwatched: training stops if no tab asks about it for this many seconds.

    Attributes:
        url: its address.

    >>> with Explorer() as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    daemon_threads = True
    allow_reuse_address = True

    @checked
    def __init__(
        self,
        port: int = 0,
        *,
        demo: Path | None = None,
        audits: Sequence[Path] = (),
        steps: int = QUICK_STEPS,
        turn_steps: int = STEPS,
        seconds: float = SECONDS,
        unwatched: float = UNWATCHED,
    ) -> None:
        self.turning = Turning(steps=turn_steps, unwatched=unwatched)
        self.capsules = Capsules(demo, steps=steps, unwatched=unwatched)
        self.audits = [str(folder) for folder in [*audits, *([demo] if demo is not None else [])]]
        self.seconds = seconds
        self.page, self.policy = explore_page()
        self.workers = {room: Child() for room in ("kernels", "relax", "audit")}
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            raise InputError(
                _CALLER,
                expected="a free port",
                got=f"{port} ({getattr(error, 'strerror', None) or error})",
                fix="Choose another --port, or 0 for any free one.",
            ) from error

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{ADDRESS}:{self.server_address[1]}/"

    def server_close(self) -> None:
        """Stop listening and stop all computations."""
        super().server_close()
        for worker in self.workers.values():
            worker.stop()
        self.turning.training.stop()
        self.capsules.training.stop()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that close the connection; anything else is a bug and shows its traceback."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            traceback.print_exc()

    def answer(self, path: str, query: Query, gone: Gone = lambda: False) -> Any:
        """The answer to a GET for a path of the API; None for an unknown path."""

        def ask(room: str, do: str, **arguments: Any) -> Any:
            return self.workers[room].ask(do, arguments, gone=gone, seconds=self.seconds)

        answers: dict[str, Callable[[], Any]] = {
            "/api/representations": lambda: ask("kernels", "representations", group=_text(query, "group")),
            "/api/kernels": lambda: ask("kernels", "kernels", **_basis(query)),
            "/api/kernels/apply": lambda: ask(
                "kernels",
                "apply",
                **_basis(query),
                kernel=None if query.get("kernel", "mix") == "mix" else _whole(query, "kernel"),
                digit=_whole(query, "digit", DEFAULT),
            ),
            "/api/soft": lambda: ask(
                "relax",
                "soft",
                softness=_number(query, "softness"),
                seed=_whole(query, "seed", 0),
                digit=_whole(query, "digit", DEFAULT),
            ),
            "/api/low-rank": lambda: ask(
                "relax",
                "low-rank",
                rank=_whole(query, "rank"),
                strength=_number(query, "strength"),
                seed=_whole(query, "seed", 0),
                digit=_whole(query, "digit", DEFAULT),
            ),
            "/api/turn": self.turning.state,
            "/api/capsules": self.capsules.state,
            "/api/capsules/roll": lambda: self.capsules.answer(
                _whole(query, "digit"),
                _whole(query, "number", 0),
                None if query.get("capsule", "all") == "all" else _whole(query, "capsule"),
                gone,
            ),
            "/api/audits": lambda: ask("audit", "audits", folders=self.audits),
            "/api/audit": lambda: ask("audit", "audit", folders=self.audits, name=_text(query, "name")),
        }
        return answers[path]() if path in answers else None

    def answer_post(self, path: str, body: Callable[[], bytes], gone: Gone = lambda: False) -> Any:
        """The answer to a POST for a path of the API; None for an unknown path. ``body`` reads what was sent."""
        answers: dict[str, Callable[[], Any]] = {
            "/api/capsules": self.capsules.start,
            "/api/turn": self.turning.start,
            "/api/turn/look": lambda: self.turning.answer(**_sent(body(), "picture", "angle", "layer"), gone=gone),
            "/api/turn/curve": lambda: self.turning.curve(**_sent(body(), "picture"), gone=gone),
        }
        return answers[path]() if path in answers else None


class _Handler(BaseHTTPRequestHandler):
    server: Explorer
    server_version = "intertwine"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        parts = self._checked()
        if parts is None:
            return
        path, query = parts
        if path in ("/", "/index.html"):
            self.server.turning.training.answerer.start()  # the page starts with this tab
            self._send(HTTPStatus.OK, self.server.page.encode(), "text/html; charset=utf-8")
            return
        self._answer(lambda: self.server.answer(path, query, self._gone))

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        parts = self._checked()
        if parts is None:
            return
        self.close_connection = True  # the body may be unread
        self._answer(lambda: self.server.answer_post(parts[0], self._body, self._gone))

    def _body(self) -> bytes:
        """The body of the request, if it is not too long."""
        text = self.headers.get("Content-Length", "0")
        length = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
        if not 0 <= length <= _MAX_BODY:
            # A browser that is still sending would never see the answer.
            self.rfile.read(min(max(length, 0), _MAX_DISCARDED))
            raise InputError(_CALLER, expected=f"at most {_MAX_BODY} bytes of data", got=f"{shortened(text)} bytes")
        return self.rfile.read(length)

    def _origins(self) -> tuple[str, str]:
        port = self.server.server_address[1]
        return f"http://{ADDRESS}:{port}", f"http://localhost:{port}"

    def _checked(self) -> tuple[str, Query] | None:
        """The path and the query of an allowed request; answers others with an error and returns None."""
        hosts = [origin.removeprefix("http://") for origin in self._origins()]
        if self.headers.get("Host") not in hosts:
            self._fail(HTTPStatus.FORBIDDEN, f"open {self.server.url}; other host names are refused")
            return None
        if self._is_from_elsewhere():
            self._fail(HTTPStatus.FORBIDDEN, "requests from other pages are refused")
            return None
        if len(self.path) > _MAX_PATH:
            text = f"expected at most {_MAX_PATH} characters; got {len(self.path)}"
            self._fail(HTTPStatus.REQUEST_URI_TOO_LONG, text)
            return None
        parts = urlsplit(self.path)
        return parts.path, {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}

    def _is_from_elsewhere(self) -> bool:
        """Whether another page made the browser send this request. Links to the explorer are allowed from anywhere."""
        is_link = self.headers.get("Sec-Fetch-Mode") == "navigate" and self.path == "/" and self.command == "GET"
        site = self.headers.get("Sec-Fetch-Site", "none")
        origins = [self.headers["Origin"]] if "Origin" in self.headers else []
        if "Referer" in self.headers:  # the only hint from older browsers for images and scripts
            parts = urlsplit(self.headers["Referer"])
            origins.append(f"{parts.scheme}://{parts.netloc}")
        foreign = site not in ("same-origin", "none") or any(origin not in self._origins() for origin in origins)
        return foreign and not is_link

    def _gone(self) -> bool:
        """Whether the browser has closed the connection: the socket is readable but empty."""
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):
            return True

    def _answer(self, compute: Callable[[], Any]) -> None:
        try:
            answer = compute()
        except (IntertwineError, Refused) as error:
            self._fail(HTTPStatus.BAD_REQUEST, without_paths(str(error)))
        except ConnectionAbortedError:  # nobody to answer
            self.close_connection = True
        except WorkerFailedError as error:
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, without_paths(str(error)))
        else:
            if answer is None:
                self._fail(HTTPStatus.NOT_FOUND, f"unknown path {urlsplit(self.path).path}")
            else:
                self._send(HTTPStatus.OK, json.dumps(answer).encode(), "application/json")

    def _fail(self, status: HTTPStatus, message: str) -> None:
        if status is not HTTPStatus.BAD_REQUEST:
            self.close_connection = True
        self._send(status, json.dumps({"error": message}).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": self.server.policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal shows the address."""


def _basis(query: Query) -> dict[str, Any]:
    return {
        "group": _text(query, "group"),
        "in_type": _text(query, "in"),
        "out_type": _text(query, "out"),
        "size": _whole(query, "size"),
    }


def _sent(body: bytes, *names: str) -> dict[str, Any]:
    """The fields of a JSON object. Their values are unchecked."""
    content = parse_json(body, caller=_CALLER)
    if not isinstance(content, dict) or set(content) != set(names):
        raise InputError(_CALLER, expected=f"an object with {', '.join(names)}", got=describe(content))
    return content


def _text(query: Query, name: str) -> str:
    if not query.get(name, "").strip():
        raise InputError(name, expected="text", got="nothing")
    return query[name]


def _whole(query: Query, name: str, default: int | None = None) -> int:
    if name not in query and default is not None:
        return default
    try:
        return int(_text(query, name))
    except ValueError as error:
        if isinstance(error, IntertwineError):
            raise
        raise InputError(name, expected="a whole number", got=repr(query[name])) from None


def _number(query: Query, name: str) -> float:
    try:
        return float(_text(query, name))
    except ValueError as error:
        if isinstance(error, IntertwineError):
            raise
        raise InputError(name, expected="a number", got=repr(query[name])) from None
