"""The plain form of a network, which audits look at.

Our layers compute their filters from free weights in modules of their own. An audit that walks through the modules of a
network would list these too, and would not find the filters. ``measure`` lies below the layers and does not know them,
so ``nn`` registers here how to write a network with ordinary torch modules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # this file must not be what imports torch
    from torch import nn

    Convert = Callable[[nn.Module], nn.Module | None]

_CONVERTERS: list[Convert] = []


def register_plain_form(convert: Convert) -> Convert:
    """Decorator: a function that returns the plain form of a network, or None if it already is plain."""
    _CONVERTERS.append(convert)
    return convert


def plain_form(model: nn.Module) -> nn.Module:
    """The same map built from ordinary torch modules; the network itself if nothing in it is ours.

    >>> from torch import nn
    >>> net = nn.Conv2d(1, 2, 3)
    >>> plain_form(net) is net
    True
    """
    forms = (convert(model) for convert in _CONVERTERS)
    return next((form for form in forms if form is not None), model)
