"""The frozen, typed description of a training run."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from .._untrusted import parse_json, parse_yaml
from ..errors import InputError
from ._content import content_hash
from ._validated import ValidatedModel

CONFIG_VERSION = 1
"""Raise it whenever the same fields mean another computation than before; the hash of every configuration changes."""

WHERE_AND_HOW_OFTEN = frozenset(
    {
        "workers",
        "device",
        "devices",
        "runtime",
        "strategy",
        "timeout",
        "checkpoint_every",
        "keep",
        "log_every",
        "validate_every",
        "tensorboard",
    }
)
"""Fields that say where a run computes and what it writes, not what it computes (up to rounding on other devices).

They are left out of the hash, and may change between the parts of an interrupted run.
"""


class TrainConfig(ValidatedModel):
    """Everything :func:`fit` needs to know besides the model, the loss and the data.

    A step uses ``accumulate`` batches and updates the weights once. The learning rate of step t = 0, 1, ... of T is

        lr · min(1, (t + 1) / warmup_steps) · f((t − warmup_steps) / (T − warmup_steps))

    with f(s) = 1 for ``constant``; f = r + (1 − r)(1 + cos πs)/2 for ``cosine`` and r + (1 − r)(1 − s) for ``linear``,
    r = ``final_lr``; and ``gamma`` to the number of ``milestones`` passed for ``step``, milestones being fractions of
    the whole run.

    Args:
        epochs: passes over the data; the run ends at ``epochs`` or ``max_steps``, whichever comes first.
        max_steps: steps in total.
        batch_size: samples in a batch, all processes together; the loader is checked against it.
        accumulate: batches whose gradients are averaged for one step.
        workers: processes that load data, for those who build the loader from the configuration.
        optimizer: ``sgd``, ``adam`` or ``adamw``.
        lr: learning rate.
        weight_decay: decay of weights, as in torch.
        momentum: for ``sgd``.
        nesterov: for ``sgd``.
        beta1: for ``adam`` and ``adamw``.
        beta2: for ``adam`` and ``adamw``.
        eps: for ``adam`` and ``adamw``.
        schedule: ``constant``, ``cosine``, ``linear`` or ``step``.
        warmup_steps: steps of linear warm-up.
        final_lr: where ``cosine`` and ``linear`` end, as a fraction of ``lr``.
        milestones: when ``step`` lowers the rate, as fractions of the run.
        gamma: by how much ``step`` lowers it each time.
        clip_norm: the norm that the gradient is clipped to, if any.
        ema: decay of the moving average of the weights, if one is wanted; validation then uses it.
        compile: True for ``torch.compile``, or the name of its backend.
        precision: ``32`` leaves weights as they are, ``64`` makes weights and batches float64; ``bf16-mixed``,
            ``16-mixed``.
        device: ``cpu``, ``cuda``, ``mps``, or ``auto`` for CUDA where there is some.
        devices: number of processes, for a check; ``auto`` takes as many as torchrun started.
        runtime: ``plain`` torch, ``fabric`` for Lightning Fabric, ``auto`` for Fabric only where it is needed.
        strategy: ``ddp``, ``ddp_find_unused`` for networks that do not use all weights in a step, or ``auto``.
        timeout: seconds after which a silent process counts as lost.
        seed: determines all randomness.
        deterministic: insist on deterministic algorithms.
        checkpoint_every: steps between checkpoints; None for one at the end only.
        keep: how many checkpoints are kept.
        log_every: steps between lines in ``metrics.jsonl``.
        validate_every: epochs between validations; there is always one at the end.
        tensorboard: write TensorBoard files too.

    >>> config = TrainConfig(epochs=3, optimizer="sgd", lr=0.1, schedule="cosine")
    >>> TrainConfig.from_yaml(config.to_yaml()) == config
    True
    >>> TrainConfig(epochs=3, lr=-1)
    Traceback (most recent call last):
    intertwine.errors.InputError: TrainConfig: expected lr: input should be greater than 0; got -1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    epochs: int | None = Field(default=None, ge=1)
    max_steps: int | None = Field(default=None, ge=1)
    batch_size: int = Field(default=128, ge=1)
    accumulate: int = Field(default=1, ge=1)
    workers: int = Field(default=0, ge=0)

    optimizer: Literal["sgd", "adam", "adamw"] = "adamw"
    lr: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    nesterov: bool = False
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)
    eps: float = Field(default=1e-8, gt=0)

    schedule: Literal["constant", "cosine", "linear", "step"] = "constant"
    warmup_steps: int = Field(default=0, ge=0)
    final_lr: float = Field(default=0.0, ge=0, le=1)
    milestones: tuple[float, ...] = ()
    gamma: float = Field(default=0.1, gt=0, le=1)

    clip_norm: float | None = Field(default=None, gt=0)
    ema: float | None = Field(default=None, ge=0, lt=1)
    compile: bool | str = False
    precision: Literal["32", "64", "bf16-mixed", "16-mixed"] = "32"

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    devices: int | Literal["auto"] = "auto"
    runtime: Literal["auto", "plain", "fabric"] = "auto"
    strategy: Literal["auto", "ddp", "ddp_find_unused"] = "auto"
    timeout: float = Field(default=600.0, gt=0)

    seed: int = Field(default=0, ge=0)
    deterministic: bool = True

    checkpoint_every: int | None = Field(default=500, ge=1)
    keep: int = Field(default=2, ge=1)
    log_every: int = Field(default=50, ge=1)
    validate_every: int = Field(default=1, ge=1)
    tensorboard: bool = False

    @model_validator(mode="after")
    def _fields_agree(self) -> TrainConfig:
        if self.epochs is None and self.max_steps is None:
            raise ValueError("epochs or max_steps: one of them must be given")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov: needs momentum > 0")
        if self.schedule == "step" and not self.milestones:
            raise ValueError("milestones: the schedule step needs at least one")
        if list(self.milestones) != sorted(self.milestones) or not all(0 < m < 1 for m in self.milestones):
            raise ValueError("milestones: must rise, and lie between 0 and 1")
        return self

    @property
    def hash(self) -> str:
        """SHA-256 of the fields that decide what is computed: 64 hexadecimal digits, the same everywhere.

        >>> a, b = TrainConfig(epochs=1), TrainConfig(epochs=1, workers=2)
        >>> a.hash == b.hash, a.hash == TrainConfig(epochs=2).hash
        (True, False)
        """
        return content_hash({"version": CONFIG_VERSION, **self.what()})

    def what(self) -> dict[str, Any]:
        """The fields that decide what is computed, as plain JSON values."""
        return {name: value for name, value in self.to_dict().items() if name not in WHERE_AND_HOW_OFTEN}

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TrainConfig:
        """The configuration with these fields, checked."""
        return cls(**fields)

    def changed(self, **fields: Any) -> TrainConfig:
        """This configuration with some fields changed, checked again.

        >>> TrainConfig(epochs=1).changed(lr=0.5).lr
        0.5
        """
        return self.from_dict({**self.to_dict(), **fields})

    def to_json(self) -> str:
        """The configuration as JSON text."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> TrainConfig:
        """Read what :meth:`to_json` wrote.

        >>> config = TrainConfig(max_steps=10, milestones=(0.5,), schedule="step")
        >>> TrainConfig.from_json(config.to_json()) == config
        True
        """
        return cls.from_dict(_mapping(parse_json(text, caller="TrainConfig")))

    def to_yaml(self) -> str:
        """The configuration as YAML text."""
        import yaml

        return yaml.safe_dump(self.to_dict(), sort_keys=False)

    @classmethod
    def from_yaml(cls, text: str) -> TrainConfig:
        r"""Read what :meth:`to_yaml` wrote.

        >>> TrainConfig.from_yaml("epochs: 2\nlr: 1e-2").lr
        0.01
        """
        return cls.from_dict(_mapping(parse_yaml(text, caller="TrainConfig")))


def _mapping(value: object) -> dict[str, Any]:
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return value
    got = f"a {type(value).__name__}"
    raise InputError("TrainConfig", expected="a mapping of field names to values", got=got, fix="Write `lr: 0.1`.")
