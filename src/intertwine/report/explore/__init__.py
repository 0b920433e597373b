"""The server of ``intertwine explore``, and the workers that compute its answers."""
