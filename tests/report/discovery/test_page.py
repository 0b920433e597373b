"""The page and the table of a discovery."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import torch

from intertwine.discovery import AUC, ConfusedPair, Discovery, Finding, Gain, Picture, Verdict, Worth
from intertwine.report import discovery_page, discovery_summary, discovery_text


def finding(symmetry: str, word: str, strictness: str | None, **more) -> Finding:
    verdict = Verdict(word, strictness, 0.01, ("Shown: something <b>.", "The rule."))
    gains = {"invariant": Gain(-0.1, (-0.15, -0.05)), "local": Gain(0.02, (-0.01, 0.05))}
    curves = {"free": [(60, [0.5, 0.6]), (240, [0.7, 0.7])], "invariant": [(60, [0.4, 0.4]), (240, [0.6, 0.5])]}
    return Finding(
        symmetry, f"the {symmetry}", verdict, True, AUC(0.9, (0.45, 0.55), 0.001, 0.6),
        {"invariant": 0.6, "local": 0.7, "relaxed": 0.6, "free": 0.7}, gains, gains, curves,
        Worth(2.8, (2.0, 3.5)), **more,
    )  # fmt: skip


def sample() -> Discovery:
    pair = ConfusedPair("6", "9", 12.0)
    x = torch.rand(1, 6, 6)
    broken = finding("c2", "leave", "free", confused=(pair,), pictures=(Picture(pair, x, x, x),), dials={"0": 0.2})
    findings = (finding("hflip", "impose", "invariant"), broken, finding("c4", "can't tell", None))
    return Discovery(
        "data", 100, (1, 6, 6), ("6", "9"), findings, findings[0], 3, 12.0, ("a note",), ("a run",), "x = 1 < 2"
    )


def test_the_sentence_can_be_acted_on() -> None:
    assert sample().sentence == (
        "Impose the hflip: worth 2.8 times the data. Don't impose the c2: 6 and 9 get confused. Not decided: the c4."
    )


def test_the_sentence_names_everything_that_can_be_imposed() -> None:
    findings = (
        finding("c4", "impose", "invariant"),
        finding("hflip", "impose", "local"),
        finding("vflip", "relax", "relaxed"),
        finding("c4 + shifts", "impose", "invariant", joint_of=("c4", "shifts")),
        finding("all", "impose", "invariant", joint_of=("c4", "shifts", "negative")),
    )
    result = replace(sample(), findings=findings, recommended=findings[4])
    assert result.sentence == (
        "Impose the all: worth 2.8 times the data. Also possible: the hflip in the layers and the vflip, relaxed."
    )


def test_the_page_has_everything_and_escapes_it() -> None:
    page = discovery_page(sample())
    for text in ("impose (invariant)", "can&#39;t tell", "2.8×", "6 and 9", "x = 1 &lt; 2", "a note", "&lt;b&gt;"):
        assert text in page, text
    assert page.count("<svg") >= 5
    data = json.loads(re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page, re.S)[1])
    assert data["candidates"][1]["confused"][0]["first"] == "6"


def test_the_summary_for_a_notebook_is_a_piece_of_the_page() -> None:
    result = sample()
    text = discovery_summary(replace(result, findings=(*result.findings, finding("<i>turn</i>", "leave", None))))
    assert "Impose the hflip: worth 2.8 times the data." in text
    assert text.count("<tr>") == 2 + len(result.findings)
    assert "&lt;i&gt;turn" in text
    assert not re.search(r"<(html|script|style|i)\b", text)


def test_the_table_fits_a_phone() -> None:
    """Tables of up to five columns put the name of a row on its own line, see page.css."""
    verdicts = re.search(
        r'<table data-sortable class="narrow"[^>]*>\s*<caption>Verdicts.*?</table>', discovery_page(sample()), re.S
    )
    assert verdicts is not None
    assert "confuses 6 and 9 (+12 %)" in verdicts[0]
    assert "impose <small>invariant</small>" in verdicts[0]


def test_the_table_has_a_row_per_candidate_and_the_reasons() -> None:
    text = discovery_text(sample())
    for part in ("hflip", "impose (invariant)", "0.90 [chance 0.45–0.55]", "2.8× [2.0 to 3.5]", "Shown: something"):
        assert part in text
    assert text.count("The rule.") == 1
