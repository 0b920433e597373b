"""Checkpoints: written atomically, verified by checksums, and without pickle, so that reading runs no code.

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
_COMPLEX = "complex:"  # safetensors has no complex128; complex tensors are stored as pairs of reals with this prefix


class CheckpointWarning(UserWarning):
    """A checkpoint or a log is damaged; the text says what was done about it."""


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to continue: groups of tensors and a JSON state.

    Args:
        step: the number of finished steps.
        tensors: groups of tensors, such as ``model``; each is one file.
        state: JSON values.
    """

    step: int
    tensors: Mapping[str, Mapping[str, Tensor]]
    state: Mapping[str, Any]


class _DamageError(Exception):
    """A file of a checkpoint is missing, truncated or changed."""


class CheckpointFolder:
    """The last checkpoints of a run.

    Args:
        path: their folder; created when the first one is saved.
        keep: the number of checkpoints to keep.

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
        """The steps of all checkpoints, intact or damaged, in increasing order."""
        if not self.path.is_dir():
            return []
        matches = (_NAME.fullmatch(entry.name) for entry in self.path.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def path_of(self, step: int) -> Path:
        """The path of the checkpoint of a step, whether it exists or not."""
        return self.path / f"step-{step:08d}"

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, then remove old ones. An error leaves the other checkpoints unchanged."""
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
            kept = f"{self.path_of(before[-1])} is intact" if before else "There is no earlier checkpoint"
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
        """The newest intact checkpoint. Damaged ones are reported in a warning, and renamed if ``set_aside``."""
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
                expected=f"an intact checkpoint of step {step}",
                got=f"{self.path_of(step)}: {damage}",
                fix=f"There are checkpoints of the steps: {there}.",
            ) from None

    def clean(self) -> None:
        """Remove what an interrupted write left behind."""
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
                    raise _DamageError(f"state.json names {name}, which is not in its folder")
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
        state: dict[str, Any] = read_json(path)
    except InputError as error:
        raise _DamageError(f"{path.name} cannot be read ({error.got})") from None
    return state


def _encode(tensors: Mapping[str, Tensor]) -> bytes:
    from safetensors.torch import save

    stored: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        value = tensor.detach().cpu()
        if value.is_complex():
            name, value = _COMPLEX + name, torch.view_as_real(value)
        value = value.contiguous()
        if value.untyped_storage().data_ptr() in seen:  # tied weights: safetensors refuses tensors that share memory
            value = value.clone()
        seen.add(value.untyped_storage().data_ptr())
        stored[name] = value
    return save(stored)


def _decode(data: bytes) -> dict[str, Tensor]:
    from safetensors.torch import load

    tensors: dict[str, Tensor] = {}
    for name, value in load(data).items():
        value = value.clone()  # views into the file's bytes may be misaligned
        if name.startswith(_COMPLEX):
            name, value = name.removeprefix(_COMPLEX), torch.view_as_complex(value)
        tensors[name] = value
    return tensors


@checked
def load_weights(folder: str | Path, *, step: int | None = None, ema: bool = False) -> dict[str, Tensor]:
    """The weights of a run, for ``model.load_state_dict``.

    Args:
        folder: the folder that was passed to :func:`fit`.
        step: the step of the checkpoint; the newest one if None.
        ema: whether to load the moving average instead of the weights.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> checkpoint = Checkpoint(1, {"model": {"w": torch.ones(2)}}, {})
    >>> _ = CheckpointFolder(folder / "checkpoints", keep=1).save(checkpoint)
    >>> load_weights(folder)
    {'w': tensor([1., 1.])}
    """
    checkpoints = CheckpointFolder(Path(folder) / "checkpoints", keep=1)
    checkpoint = checkpoints.read(step) if step is not None else checkpoints.latest()
    group = "ema" if ema else "model"
    if checkpoint is None or group not in checkpoint.tensors:
        raise InputError(
            "load_weights",
            expected=f"a checkpoint with {'a moving average' if ema else 'weights'} in {folder}",
            got="a checkpoint without one" if checkpoint is not None else "no checkpoint",
            fix="Train with TrainConfig(ema=...)." if checkpoint is not None else "Use the folder passed to fit.",
        )
    return dict(checkpoint.tensors[group])
