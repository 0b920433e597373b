"""The frozen, typed description of a training run."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from .._untrusted import parse_json, parse_yaml
from ..errors import InputError
from ._content import content_hash
from ._precision import Precision
from ._validated import ValidatedModel

CONFIG_VERSION = 1
"""Increment it when the same fields start to mean another computation; this changes the hash of every configuration."""

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

They are not part of the hash, and may change between the parts of an interrupted run.
"""


class TrainConfig(ValidatedModel):
    """All settings of :func:`fit` except the model, the loss and the data.

    A step uses ``accumulate`` batches and updates the weights once. The learning rate in step t = 0, 1, ... of T is

        lr · min(1, (t + 1) / warmup_steps) · f((t − warmup_steps) / (T − warmup_steps))

    with f(s) = 1 for ``constant``; f = r + (1 − r)(1 + cos πs)/2 for ``cosine`` and r + (1 − r)(1 − s) for ``linear``,
    r = ``final_lr``; and ``gamma`` to the power of the number of ``milestones`` passed for ``step``, where milestones
    are fractions of the run.

    Args:
        epochs: passes over the data; the run ends at ``epochs`` or ``max_steps``, whichever comes first.
        max_steps: the maximum number of steps.
        batch_size: samples per batch over all processes; the loader must agree with it.
        accumulate: batches per step; their gradients are averaged.
        workers: processes that load data, if you build the loader from the configuration.
        optimizer: ``sgd``, ``adam`` or ``adamw``.
        lr: learning rate.
        weight_decay: weight decay, as in torch.
        momentum: for ``sgd``.
        nesterov: for ``sgd``.
        beta1: for ``adam`` and ``adamw``.
        beta2: for ``adam`` and ``adamw``.
        eps: for ``adam`` and ``adamw``.
        schedule: ``constant``, ``cosine``, ``linear`` or ``step``.
        warmup_steps: steps of linear warm-up.
        final_lr: where ``cosine`` and ``linear`` end, as a fraction of ``lr``.
        milestones: when ``step`` lowers the rate, as fractions of the run.
        gamma: the factor by which ``step`` lowers the rate.
        clip_norm: the maximum norm of the gradient, if any.
        ema: the decay of the moving average of the weights; None for no average. Validation uses the average.
        compile: True for ``torch.compile``, or the name of its backend.
        precision: ``32`` leaves weights as they are, ``64`` makes weights and batches float64; ``bf16-mixed``,
            ``16-mixed``; ``auto`` is ``bf16-mixed`` on processors that have instructions for bfloat16, where a step
            often takes half the time, and ``32`` elsewhere.
        device: ``cpu``, ``cuda``, ``mps``, or ``auto`` for CUDA if available.
        devices: the expected number of processes; ``auto`` accepts as many as torchrun started.
        runtime: ``plain`` torch, ``fabric`` for Lightning Fabric, ``auto`` for Fabric only if it is needed.
        strategy: ``ddp``, ``ddp_find_unused`` for networks that do not use all weights in every step, or ``auto``.
        timeout: seconds after which an unresponsive process counts as lost.
        seed: the seed of all randomness.
        deterministic: require deterministic algorithms.
        checkpoint_every: steps between checkpoints; None for one at the end only.
        keep: the number of checkpoints to keep.
        log_every: steps between lines in ``metrics.jsonl``.
        validate_every: epochs between validations; there is always one at the end.
        tensorboard: also write TensorBoard files.

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
    precision: Precision = "32"

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
            raise ValueError("epochs or max_steps: one of them is required")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov: needs momentum > 0")
        if self.schedule == "step" and not self.milestones:
            raise ValueError("milestones: the schedule step needs at least one")
        if list(self.milestones) != sorted(self.milestones) or not all(0 < m < 1 for m in self.milestones):
            raise ValueError("milestones: must increase, and lie between 0 and 1")
        return self

    @property
    def hash(self) -> str:
        """SHA-256 of the fields that determine what is computed: 64 hexadecimal digits, the same on every machine.

        >>> a, b = TrainConfig(epochs=1), TrainConfig(epochs=1, workers=2)
        >>> a.hash == b.hash, a.hash == TrainConfig(epochs=2).hash
        (True, False)
        """
        return content_hash({"version": CONFIG_VERSION, **self.what()})

    def what(self) -> dict[str, Any]:
        """The fields that determine what is computed, as JSON values."""
        return {name: value for name, value in self.to_dict().items() if name not in WHERE_AND_HOW_OFTEN}

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TrainConfig:
        """Make a configuration from its fields, which are validated."""
        return cls(**fields)

    def changed(self, **fields: Any) -> TrainConfig:
        """A copy of this configuration with some fields changed and validated.

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
    raise InputError("TrainConfig", expected="a mapping of field names to values, such as `lr: 0.1`", got=got)
