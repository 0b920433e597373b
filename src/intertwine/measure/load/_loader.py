"""The registry of loaders: how a network is built from a text such as ``timm:resnet18`` or ``net.onnx``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from ..._checked import checked
from ..._registry import Registry


@checked
@dataclass(frozen=True)
class Network:
    """A network and the images it expects.

    Attributes:
        name: the name it was loaded by.
        model: the module.
        size: the height and width of the images it expects, if known.
        mean: the mean of the normalization it expects, if known.
        std: the standard deviation of the normalization it expects, if known.
        notes: how it was loaded.
    """

    name: str
    model: nn.Module
    size: tuple[int, int] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    notes: list[str] = field(default_factory=list)


Load = Callable[[str, Mapping[str, Any], bool], Network]
"""``load(spec, options, trust)``: the text, keyword arguments for the network, and whether its author is trusted."""


@dataclass(frozen=True)
class Loader:
    """How to build the networks whose text ends in a suffix, such as ``.onnx``, or begins with a prefix.

    Attributes:
        form: the suffix, with its dot, or the prefix, with its colon.
        load: the function that builds the network.
    """

    form: str
    load: Load

    @property
    def is_file(self) -> bool:
        """Whether it reads a file, which has its own weights."""
        return self.form.startswith(".")

    def matches(self, spec: str) -> bool:
        """Whether it is the loader for this text."""
        return spec.endswith(self.form) if self.is_file else spec.startswith(self.form)


LOADERS = Registry[Loader]("network loader")
"""All loaders by suffix or prefix. The files in this folder register theirs when imported."""


def register_loader(form: str) -> Callable[[Load], Load]:
    """Decorator: build the networks of this form with a function.

    Args:
        form: a suffix such as ``.onnx``, or a prefix such as ``timm:``.
    """

    def register(load: Load) -> Load:
        LOADERS.add(form, Loader(form, load))
        return load

    return register
