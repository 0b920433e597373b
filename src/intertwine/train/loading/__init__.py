"""Batches as pure functions of the seed."""

from ._datasets import Augmented as Augmented
from ._datasets import SeededDataset as SeededDataset
from ._loader import DeterministicLoader as DeterministicLoader
from ._loader import Loader as Loader
from ._loader import deterministic_loader as deterministic_loader
