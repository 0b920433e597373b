"""Weights from a file into a network: nothing is unpickled, wrappers and prefixes are seen through."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ..._checked import checked
from ..._untrusted import read_tensors
from ...errors import InputError, shortened
from ._torch_file import read_torch_file

WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "network", "weights", "params", "ema", "model_ema")
PREFIXES = ("module.", "_orig_mod.", "model.", "net.", "network.", "backbone.", "encoder.")


@checked
def load_weights_into(model: nn.Module, path: Path) -> list[str]:
    """Fill the model from a safetensors or torch file; returns what was taken off the names on the way.

    A torch file is read by :func:`read_torch_file`, which runs nothing; one that holds other objects is refused.
    ``state_dict`` and the like are opened, ``module.`` and the like taken off, as long as the names then fit
    the network better.
    """
    found, notes = _state(path)
    wanted = model.state_dict()
    found, taken = _without_prefixes(found, wanted)
    missing = sorted(set(wanted) - set(found))
    unexpected = sorted(set(found) - set(wanted))
    shapes = [
        f"{key} {tuple(found[key].shape)} instead of {tuple(wanted[key].shape)}"
        for key in wanted
        if key in found and found[key].shape != wanted[key].shape
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
            expected=f"the {len(wanted)} tensors of {type(model).__name__}",
            got="; ".join(f"{len(keys)} {what} ({_some(keys)})" for what, keys in parts if keys),
            fix="Give the architecture with which the weights were trained, for example its number of classes.",
        )
    model.load_state_dict({**wanted, **found})
    return notes + taken


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


def _without_prefixes(found: dict[str, Tensor], wanted: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Take off prefixes that all names share, as far as the names then fit best."""
    stages: list[tuple[dict[str, Tensor], list[str]]] = [(found, [])]
    while prefix := next((p for p in PREFIXES if all(key.startswith(p) for key in stages[-1][0])), None):
        last, taken = stages[-1]
        stages.append(
            ({key.removeprefix(prefix): value for key, value in last.items()}, [*taken, f"took off {prefix}"])
        )
    return max(stages, key=lambda stage: len(set(stage[0]) & set(wanted)))


def _some(keys: list[str]) -> str:
    return ", ".join(shortened(key, 100) for key in keys[:4]) + (", …" if len(keys) > 4 else "")
