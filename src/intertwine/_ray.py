"""Ray: work on several processes or machines, for experiments and audits."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .errors import InputError, MissingExtraError


@contextmanager
def ray_session(workers: int | None, address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster or started on this machine for the block.

    Args:
        workers: the number of processes on this machine; None for one per core.
        address: the address of a cluster; None starts Ray on this machine.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            "engine ray", expected="Ray", got="an installation without it", fix="pip install 'intertwine[ray]'."
        ) from error
    if ray.is_initialized():  # the caller's session: use it, and don't shut it down
        yield ray
        return
    if address is not None:
        require_reachable(address)
    options: dict[str, Any] = {"address": address} if address else {"num_cpus": workers, "include_dashboard": False}
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise InputError(
            "engine ray",
            expected=f"a Ray cluster at {address}" if address else "to start Ray on this machine",
            got=" ".join(str(error).split())[:200],
            fix="Start one with 'ray start --head' and pass its address, or leave out --address.",
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def require_reachable(address: str) -> None:
    """Try to connect first: without a server, Ray itself waits for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return  # a name such as "auto", which Ray resolves itself
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise InputError(
            "engine ray",
            expected=f"a Ray cluster at {address}",
            got=error.strerror or str(error),
            fix="Start one with 'ray start --head' and pass its address, or leave out --address.",
        ) from error
