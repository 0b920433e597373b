"""Checkpoints that are whole or absent, checked by checksum when read, and not executable: no pickle anywhere.

    checkpoints/step-00000040/
        model.safetensors        the weights and buffers, under the names of state_dict
        optimizer.safetensors    the optimizer's tensors, named index.name
        ema.safetensors          the moving average, if there is one
        state.json               step, position, configuration, checksums of the other files and of itself

A checkpoint is written into a folder ``.part-...``, synced to disk file by file, and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..._checked import checked
from ..._files import PART, sync_folder, write_synced
from ..._untrusted import read_json
from ..._warn import warn_caller
from ...errors import InputError, StorageError
from .._content import content_hash

SCHEMA = 1
_NAME = re.compile(r"step-(\d{8,})")
_COMPLEX = "complex:"  # safetensors knows no complex128; such a tensor is stored as pairs of reals under this prefix


class CheckpointWarning(UserWarning):
    """A checkpoint or a log is damaged, and what was done about it."""


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to continue: groups of tensors and a JSON state.

    Args:
        step: steps finished.
        tensors: a file of tensors for each group, such as ``model``.
        state: JSON values.
    """

    step: int
    tensors: Mapping[str, Mapping[str, Tensor]]
    state: Mapping[str, Any]


class _DamageError(Exception):
    """A file of a checkpoint is missing, cut off or changed."""


class CheckpointFolder:
    """The last checkpoints of a run.

    Args:
        path: the folder they are in; made when the first one is saved.
        keep: how many are kept.

    >>> import tempfile
    >>> folder = CheckpointFolder(Path(tempfile.mkdtemp()) / "checkpoints", keep=2)
    >>> for step in (1, 2, 3):
    ...     _ = folder.save(Checkpoint(step, {"model": {"w": torch.full((2,), float(step))}}, {"note": "x"}))
    >>> folder.steps()
    [2, 3]
    >>> folder.latest().tensors["model"]["w"]
    tensor([3., 3.])
    """

    def __init__(self, path: Path, *, keep: int) -> None:
        self.path, self.keep = path, keep

    def steps(self) -> list[int]:
        """Steps of the checkpoints that are there, whole or damaged, rising."""
        if not self.path.is_dir():
            return []
        found = (_NAME.fullmatch(entry.name) for entry in self.path.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def path_of(self, step: int) -> Path:
        """Where the checkpoint of a step is, or would be."""
        return self.path / f"step-{step:08d}"

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, then remove those that are no longer kept. An error leaves the others as they were."""
        target = self.path_of(checkpoint.step)
        part = self.path / f"{PART}{target.name}-{os.getpid()}"
        try:
            part.mkdir(parents=True)
            checksums = {}
            for group, tensors in checkpoint.tensors.items():
                data = _encode(tensors)
                checksums[f"{group}.safetensors"] = hashlib.sha256(data).hexdigest()
                write_synced(part / f"{group}.safetensors", data)
            body = {"schema": SCHEMA, "step": checkpoint.step, "checksums": checksums, "state": dict(checkpoint.state)}
            text = json.dumps({"digest": content_hash(body), **body}, indent=1)
            write_synced(part / "state.json", text.encode())
            sync_folder(part)
            aside = self.path / f"{PART}old-{target.name}"
            if target.exists():  # the run itself never saves a step twice
                os.rename(target, aside)
            os.rename(part, target)
            sync_folder(self.path)
            shutil.rmtree(aside, ignore_errors=True)
        except OSError as error:
            shutil.rmtree(part, ignore_errors=True)
            before = [step for step in self.steps() if step != checkpoint.step]
            kept = f"{self.path_of(before[-1])} is intact" if before else "There was none before it"
            raise StorageError(
                "fit",
                expected=f"room to write the checkpoint of step {checkpoint.step}",
                got=f"{error.strerror or error} ({part})",
                fix=f"{kept}. Make room and run the same command again.",
            ) from error
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        for step in self.steps()[: -self.keep]:
            shutil.rmtree(self.path_of(step), ignore_errors=True)
        return target

    def latest(self, *, set_aside: bool = False) -> Checkpoint | None:
        """The newest checkpoint that is whole. Damaged ones are named in a warning, and renamed if ``set_aside``."""
        for step in reversed(self.steps()):
            path = self.path_of(step)
            try:
                return self._read(path)
            except _DamageError as damage:
                older = [other for other in self.steps() if other < step]
                then = f"trying {self.path_of(older[-1]).name}" if older else "starting from the beginning"
                warn_caller(f"{path}: {damage}; {then}", CheckpointWarning)
                if set_aside:
                    aside = path.with_name(f"damaged-{path.name}")
                    shutil.rmtree(aside, ignore_errors=True)
                    os.rename(path, aside)
        return None

    def read(self, step: int) -> Checkpoint:
        """The checkpoint of a step."""
        try:
            return self._read(self.path_of(step))
        except _DamageError as damage:
            there = ", ".join(str(other) for other in self.steps()) or "none"
            raise StorageError(
                "load_weights",
                expected=f"a whole checkpoint of step {step}",
                got=f"{self.path_of(step)}: {damage}",
                fix=f"Checkpoints are there of the steps: {there}.",
            ) from None

    def clean(self) -> None:
        """Remove what a kill in the middle of writing left behind."""
        for rest in self.path.glob(f"{PART}*"):
            shutil.rmtree(rest, ignore_errors=True)

    @staticmethod
    def _read(path: Path) -> Checkpoint:
        try:
            record = _state(path / "state.json")
            digest = record.pop("digest")
            if content_hash(record) != digest:
                raise _DamageError("state.json does not match its digest")
            if record["schema"] != SCHEMA:
                raise InputError(
                    "fit",
                    expected=f"a checkpoint of schema {SCHEMA}",
                    got=f"schema {record['schema']} in {path}",
                    fix="It was written by another version of this package; use that one, or another folder.",
                )
            tensors = {}
            for name, checksum in record["checksums"].items():
                if Path(name).name != name:
                    raise _DamageError(f"state.json names {name}, which is not beside it")
                data = (path / name).read_bytes()
                if hashlib.sha256(data).hexdigest() != checksum:
                    raise _DamageError(f"{name} does not match its checksum")
                tensors[name.removesuffix(".safetensors")] = _decode(data)
            return Checkpoint(record["step"], tensors, record["state"])
        except FileNotFoundError as error:
            raise _DamageError(f"{Path(error.filename).name} is missing") from None
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise _DamageError(f"state.json cannot be read ({error})") from None


def _state(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = read_json(path)
    except InputError as error:
        raise _DamageError(f"{path.name} cannot be read ({error.got})") from None
    return found


def _encode(tensors: Mapping[str, Tensor]) -> bytes:
    from safetensors.torch import save

    stored: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        value = tensor.detach().cpu()
        if value.is_complex():
            name, value = _COMPLEX + name, torch.view_as_real(value)
        value = value.contiguous()
        if value.untyped_storage().data_ptr() in seen:  # tied weights: safetensors wants each tensor to own its memory
            value = value.clone()
        seen.add(value.untyped_storage().data_ptr())
        stored[name] = value
    return save(stored)


def _decode(data: bytes) -> dict[str, Tensor]:
    from safetensors.torch import load

    found: dict[str, Tensor] = {}
    for name, value in load(data).items():
        value = value.clone()  # memory of its own, aligned like any other tensor's
        if name.startswith(_COMPLEX):
            name, value = name.removeprefix(_COMPLEX), torch.view_as_complex(value)
        found[name] = value
    return found


@checked
def load_weights(folder: str | Path, *, step: int | None = None, ema: bool = False) -> dict[str, Tensor]:
    """The weights of a run, for ``model.load_state_dict``.

    Args:
        folder: what was given to :func:`fit`.
        step: which checkpoint; the newest one if None.
        ema: the moving average instead of the weights themselves.
    """
    checkpoints = CheckpointFolder(Path(folder) / "checkpoints", keep=1)
    found = checkpoints.read(step) if step is not None else checkpoints.latest()
    group = "ema" if ema else "model"
    if found is None or group not in found.tensors:
        raise InputError(
            "load_weights",
            expected=f"a checkpoint with {'a moving average' if ema else 'weights'} in {folder}",
            got="a checkpoint without one" if found is not None else "no checkpoint",
            fix="Train with TrainConfig(ema=...)." if found is not None else "Give the folder that fit was given.",
        )
    return dict(found.tensors[group])
