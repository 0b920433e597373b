"""Every code block on a page runs and prints what the page says. The blocks of a page share their names."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS = {
    "distributed.md"
}  # its block is a script, which tests/train/test_distributed.py runs with one and two processes
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def run_page(text: str, name: str) -> doctest.TestResults:
    code = "\n".join(BLOCK.findall(text))
    test = doctest.DocTestParser().get_doctest(code, {}, name, name, 0)
    return doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(test)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    result = run_page("" if page.name in SCRIPTS else text, page.name)
    assert result.failed == 0
    shown = BLOCK.findall(text) and page.name not in SCRIPTS
    assert result.attempted > 0 or not shown, "a block without >>> shows nothing that could be checked"


def test_a_page_that_is_wrong_fails() -> None:
    assert run_page("```python\n>>> 1 + 1\n3\n\n```", "wrong").failed == 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} points to {target}"
