from __future__ import annotations

import os
import random
import signal
import sys

import pytest
from hypothesis import settings

# Before torch is imported anywhere: test workers share the cores, so each keeps to one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

# Hundreds of child processes import the package. With this variable each of them would compile every source file anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that starts the suite in the background lets it ignore Ctrl-C, and its children inherit that; the tests of
# interrupts send the signal themselves.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A run is repeatable by default. HYPOTHESIS_PROFILE=explore looks further, with fresh random examples.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Every test starts from the same random state, whatever ran before it in the worker."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        # torch.manual_seed would also record a stack trace for each device that is not there: seconds in all.
        sys.modules["torch"].default_generator.manual_seed(0)
