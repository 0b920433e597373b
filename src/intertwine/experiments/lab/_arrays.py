"""Arrays that a run saves next to its record: filters, maps or images that its figures show and no metric can hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from ..._checked import checked
from ..._files import replace_file
from ..._untrusted import read_tensors
from ..._warn import warn_caller
from ...errors import InputError
from ...train import RecordWarning

ARRAYS = "arrays.safetensors"


@checked
def save_arrays(folder: Path, arrays: Mapping[str, Tensor]) -> Path:
    """Save named arrays in a run's folder, with an atomic write."""
    from safetensors.torch import save

    plain = {name: values.detach().to("cpu").contiguous() for name, values in arrays.items()}
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / ARRAYS, save(plain))
    return folder / ARRAYS


@checked
def load_arrays(folder: Path) -> dict[str, Tensor]:
    """The arrays that :func:`save_arrays` saved in a folder, by name (``2`` before ``10``); empty if there are none.

    >>> load_arrays(Path("no-such-folder"))
    {}
    """
    try:
        arrays = read_tensors(folder / ARRAYS)  # in no particular order
    except FileNotFoundError:
        return {}
    except InputError as error:  # the figures can still use the other runs
        warn_caller(f"{folder / ARRAYS}: left out: {error.got}", RecordWarning)
        return {}
    return {name: arrays[name] for name in sorted(arrays, key=_natural_order)}


def _natural_order(name: str) -> list[str | int]:
    """A sort key that compares the numbers in names as numbers."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
