"""Architectures of timm, built without downloading anything."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from torch import nn

from ..._torchvision import declare_missing_operations
from ...errors import InputError, MissingExtraError
from ._loader import Network, register_loader


@register_loader("timm:")
def load_timm(spec: str, options: Mapping[str, Any], trust: bool) -> Network:
    """The architecture after the colon, and the images it expects."""
    declare_missing_operations()
    try:
        import timm
    except ImportError:
        raise MissingExtraError(
            "timm:NAME", expected="the package timm", got="no such module", fix="pip install 'intertwine[vision]'"
        ) from None

    name = spec.removeprefix("timm:")
    if not timm.is_model(name):
        close = get_close_matches(name, timm.list_models(), n=5) or timm.list_models(f"*{name}*")[:5]
        raise InputError(
            "MODEL",
            expected="a timm architecture",
            got=repr(name),
            fix=f"Did you mean {', '.join(close)}?" if close else "See timm.list_models().",
        )
    model: nn.Module = timm.create_model(name, pretrained=False, **options)
    config: dict[str, Any] = dict(getattr(model, "pretrained_cfg", None) or {})
    size = config.get("input_size")
    return Network(
        spec,
        model,
        size=tuple(size[1:]) if size else None,
        mean=tuple(config["mean"]) if config.get("mean") else None,
        std=tuple(config["std"]) if config.get("std") else None,
    )
