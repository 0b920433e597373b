"""The server of ``intertwine explore``, and the workers that compute its answers."""

from ._server import Explorer as Explorer
