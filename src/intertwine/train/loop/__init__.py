"""The training loop, and what it computes with: optimizer, schedule, moving average, runtime."""

from ._ema import Ema as Ema
from ._engine import FitResult as FitResult
from ._engine import fit as fit
from ._runtime import Runtime as Runtime
from ._schedule import lr_factor as lr_factor
