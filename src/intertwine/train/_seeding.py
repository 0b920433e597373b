"""Seeds as pure functions of their purpose.

No random state is carried from one step to the next: the generators are reseeded for every training step, the order of
every epoch and every sample, from the seed of the run and the name of the purpose. So a resumed run needs no saved
random state, and the number of loader workers or processes does not change any sample.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .._checked import checked


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed derived from the seed of a run and the name of its purpose.

    The same parts give the same seed on every platform; different parts give unrelated seeds.

    Args:
        parts: integers and strings, as in ``derive_seed(seed, "order", epoch)``.

    >>> derive_seed(0, "order", 3)
    8244215730568551301
    >>> derive_seed(0, "order", 3) == derive_seed(0, "order", 4)
    False
    """
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little") >> 1


@checked
def seed_all(seed: int, *, device: torch.device | None = None) -> None:
    """Seed the global generators of torch, numpy and Python, and the generator of ``device`` if it has one.

    :func:`fit` calls this before every step. Call it yourself before building a model to get the same initial weights
    every time.

    Args:
        seed: any integer from 0 to 2⁶³ − 1.
        device: an accelerator whose generator is seeded too; None seeds all that torch knows of.

    >>> seed_all(0); a = torch.rand(3)
    >>> seed_all(0); torch.equal(a, torch.rand(3))
    True
    """
    import numpy as np

    if device is None:
        torch.manual_seed(seed)
    else:  # torch.manual_seed goes through every backend, which is slow enough to matter in every training step
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed_all(seed)
        elif device.type == "mps":
            torch.mps.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


@contextmanager
def preserved_generators() -> Iterator[None]:
    """Restore the global generators of torch (CPU), numpy and Python after the block."""
    import numpy as np

    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])


@contextmanager
def deterministic_algorithms(enabled: bool) -> Iterator[None]:
    """Within the block, torch uses deterministic algorithms, or raises an error for an operation without one."""
    if not enabled:
        yield
        return
    if torch.cuda.is_available():
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with this
    memory: Any = torch.utils.deterministic
    mode, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    fill, benchmark = memory.fill_uninitialized_memory, torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False  # a debugging aid that costs time at every allocation
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(mode, warn_only=warn)
        memory.fill_uninitialized_memory = fill
        torch.backends.cudnn.benchmark = benchmark
