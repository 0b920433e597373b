"""An explorer that answers, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
