"""What ``intertwine explore`` shows: a server, and workers that compute its answers."""

from ._server import Explorer as Explorer
