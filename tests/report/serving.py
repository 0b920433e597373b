"""An explorer that answers, in a thread of its own."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlencode

from intertwine.report import Explorer


@contextmanager
def serving(kind: type[Explorer] = Explorer, **options: Any) -> Iterator[Explorer]:
    """Serve during the block."""
    with kind(**options) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()


class Answer:
    """What the server sent."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = response.status, dict(response.getheaders()), response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    server: Explorer,
    path: str,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
    **query: object,
) -> Answer:
    """One request, in a connection of its own."""
    with closing(http.client.HTTPConnection(*server.server_address[:2], timeout=60)) as connection:
        address = f"{path}?{urlencode(query)}" if query else path
        connection.request(method, address, body=body, headers=headers or {})
        return Answer(connection.getresponse())


def post(server: Explorer, path: str, content: object) -> Answer:
    """Send a value as JSON; NaN is written as ``NaN``."""
    return ask(server, path, "POST", body=json.dumps(content).encode())
