"""What a notebook shows for an audit."""

from __future__ import annotations

from html.parser import HTMLParser

import torch
from torch import nn

from intertwine.measure import audit


class Balance(HTMLParser):
    """Which elements a piece of HTML opens without closing them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_notebook_shows_verdicts_and_a_table() -> None:
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 4))
    result = audit(net, torch.rand(8, 1, 8, 8), ["hflip", "vflip"], name="<b>net</b>")
    text = result._repr_html_()
    assert all(verdict.finding in text for verdict in result.verdicts)
    parsed = Balance(text)
    assert parsed.open == []
    assert parsed.seen.count("table") == 1
    assert parsed.seen.count("tr") == 1 + sum(not reading.layer for reading in result.readings)
    assert {"html", "script", "style", "b"}.isdisjoint(parsed.seen), "a piece of a page, and nothing unescaped"


def test_text_of_others_is_escaped() -> None:
    symmetric = audit(nn.Flatten(), torch.ones(4, 1, 2, 2), "hflip")
    symmetric.readings[0] = type(symmetric.readings[0])(**{**vars(symmetric.readings[0]), "symmetry": "<i>hflip</i>"})
    assert "<i>" not in symmetric._repr_html_()
    assert "&lt;i&gt;" in symmetric._repr_html_()
