"""Load weights from a file into a network, without unpickling, through wrappers and prefixes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ..._checked import checked
from ..._untrusted import read_metadata, read_tensors
from ...errors import InputError, shortened
from ..surgery._saved import KEY, restore_
from ._torch_file import read_torch_file

WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "network", "weights", "params", "ema", "model_ema")
PREFIXES = ("module.", "_orig_mod.", "model.", "net.", "network.", "backbone.", "encoder.")


@checked
def load_weights_into(model: nn.Module, path: Path) -> list[str]:
    """Load a safetensors or torch file into the model; return notes on what was unwrapped.

    A torch file is read by :func:`read_torch_file`, which runs nothing; a file with other objects is refused. Wrappers
    such as ``state_dict`` are opened, and prefixes such as ``module.`` are removed if the names then fit the network
    better. The file of a symmetrized network also says which layers and sizes differ, and the model gets these.

    Args:
        model: the network; it is changed.
        path: the file.

    >>> import tempfile
    >>> from safetensors.torch import save_file
    >>> source, target = nn.Linear(2, 3), nn.Linear(2, 3)
    >>> state = {f"module.{name}": value for name, value in source.state_dict().items()}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_file(state, folder + "/net.safetensors")
    ...     load_weights_into(target, Path(folder, "net.safetensors"))
    ['removed module.']
    """
    state, notes = _state(path)
    windows = read_metadata(path).get(KEY) if path.suffix == ".safetensors" else None
    if windows is not None:
        restore_(model, windows, state, caller=str(path))
    expected = model.state_dict()
    state, removed = _without_prefixes(state, expected)
    missing = sorted(set(expected) - set(state))
    unexpected = sorted(set(state) - set(expected))
    shapes = [
        f"{key} {tuple(state[key].shape)} instead of {tuple(expected[key].shape)}"
        for key in expected
        if key in state and state[key].shape != expected[key].shape
    ]
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]
    if missing or unexpected or shapes:
        parts = [
            ("missing", missing),
            ("not in the network", unexpected),
            ("of another shape", shapes),
        ]
        raise InputError(
            str(path),
            expected=f"the {len(expected)} tensors of {type(model).__name__}",
            got="; ".join(f"{len(keys)} {problem} ({_some(keys)})" for problem, keys in parts if keys),
            fix="Build the architecture that the weights were trained with, for example its number of classes.",
        )
    model.load_state_dict({**expected, **state})
    return notes + removed


def _state(path: Path) -> tuple[dict[str, Tensor], list[str]]:
    if not path.is_file():
        raise InputError(
            str(path),
            expected="a file with weights",
            got="a folder" if path.is_dir() else "no such file",
            fix="Check the path.",
        )
    if path.suffix == ".safetensors":
        return read_tensors(path), []
    content = read_torch_file(path)
    return _opened(content, path)


def _opened(content: Any, path: Path) -> tuple[dict[str, Tensor], list[str]]:
    notes: list[str] = []
    while isinstance(content, Mapping):
        tensors = {str(key): value for key, value in content.items() if isinstance(value, Tensor)}
        if tensors:
            return tensors, notes
        inner = next((key for key in WRAPPERS if isinstance(content.get(key), Mapping)), None)
        if inner is None:
            break
        notes.append(f"opened {inner}")
        content = content[inner]
    raise InputError(
        str(path),
        expected=f"tensors by name, possibly inside one of {', '.join(WRAPPERS)}",
        got=f"keys {', '.join(shortened(str(key), 100) for key in list(content)[:8])}"
        if isinstance(content, Mapping)
        else type(content).__name__,
        fix="Save model.state_dict().",
    )


def _without_prefixes(state: dict[str, Tensor], expected: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Remove prefixes that all names share, as long as the names then fit better."""
    stages: list[tuple[dict[str, Tensor], list[str]]] = [(state, [])]
    while prefix := next((p for p in PREFIXES if all(key.startswith(p) for key in stages[-1][0])), None):
        last, notes = stages[-1]
        stages.append(({key.removeprefix(prefix): value for key, value in last.items()}, [*notes, f"removed {prefix}"]))
    return max(stages, key=lambda stage: len(set(stage[0]) & set(expected)))


def _some(keys: list[str]) -> str:
    return ", ".join(shortened(key, 100) for key in keys[:4]) + (", …" if len(keys) > 4 else "")
