"""Networks on the command line: those of ``load_network``, and folders of ``intertwine train``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..measure import Network


def load_model(model: str, *, options: Mapping[str, Any], **others: Any) -> Network:
    """The network that MODEL names, as plain torch modules if ``intertwine train`` wrote it."""
    from ..measure import load_network

    if not Path(model).is_dir():
        return load_network(model, options=options, **others)
    from ..models import Recipe

    size = Recipe.read(model).size
    network = load_network("intertwine.models:trained", options={**options, "folder": model, "plain": True}, **others)
    return replace(network, name=model, size=size)
