"""What ``intertwine explore`` shows: a server, and workers that compute its answers."""
