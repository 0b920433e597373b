"""The page of the explorer: its tabs, drawn from the answers of the server."""

from __future__ import annotations

from typing import Any

from ... import __version__
from .._html import SCRIPTS, asset, environment, policy
from ._kernels import GROUPS, LARGEST_SIZE
from ._pictures import DEFAULT, MARGIN, SIDE
from ._relax import LARGEST_RANK, LARGEST_SOFTNESS
from ._turn import ORDER


def explore_page() -> tuple[str, str]:
    """The page and its content security policy, which allows requests to its own server only."""
    style = asset("page.css") + asset("explore.css")
    script = "".join(asset(name) for name in (*SCRIPTS, "explore.js"))
    allowed = policy(script, connect_src="'self'", frame_ancestors="'none'")
    choices: dict[str, Any] = {
        "groups": GROUPS,
        "largest_size": LARGEST_SIZE,
        "largest_softness": LARGEST_SOFTNESS,
        "largest_rank": LARGEST_RANK,
        "default_digit": DEFAULT,
        "side": SIDE,
        "margin": MARGIN,
        "order": ORDER,
    }
    template = environment().get_template("explore.html")
    return template.render(version=__version__, style=style, script=script, **choices), allowed
