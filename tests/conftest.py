from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# Before torch is imported anywhere: test workers share the cores, so each keeps to one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

# Hundreds of child processes import the package. With this variable each of them would compile every source file, and
# each worker would rewrite the assertions of every test file: seven seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell that starts the suite in the background lets it ignore Ctrl-C, and its children inherit that; the tests of
# interrupts send the signal themselves.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A run is repeatable by default. HYPOTHESIS_PROFILE=explore looks further, with fresh random examples.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
profile = os.environ.get("HYPOTHESIS_PROFILE", "repeatable")
settings.load_profile(profile)

# Hypothesis also draws constants that it reads from the source of every local module imported so far. In a fresh clone
# that takes each worker seconds, and what is drawn depends on which tests ran before. Hypothesis has no setting for it,
# so the function that reads them is replaced, in versions that have it.
providers: Any = sys.modules.get("hypothesis.internal.conjecture.providers")
if profile == "repeatable" and hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda none=providers._local_constants: none


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Every test starts from the same random state, whatever ran before it in the worker."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        # torch.manual_seed would also record a stack trace for each device that is not there: seconds in all.
        sys.modules["torch"].default_generator.manual_seed(0)


@pytest.fixture
def forked_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes need not import torch again; see tests/forked.py."""
    fork_children(monkeypatch)


@pytest.fixture(scope="module")
def forked_children_of_module() -> Iterator[None]:
    """The same for what a fixture of the whole module starts."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        fork_children(monkeypatch)
        yield


def fork_children(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "linux":
        from tests.forked import ForkedPopen

        monkeypatch.setattr(subprocess, "Popen", ForkedPopen)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``-n``, the tests of a file run in one worker, so that what they share is built once; as for the browser."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return "browser" if "browser" in file else file

    return ByFile(config, log)


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end, so garbage collections need not look at it each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 10)
