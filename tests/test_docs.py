"""Every code block on a page runs and prints what the page says. The blocks of a page share their names."""

from __future__ import annotations

import doctest
import re
import runpy
from pathlib import Path
from statistics import fmean

import pytest
import torch
from typer.main import get_command

from intertwine.cli import program
from intertwine.experiments import classification, experiment_named, kept_runs
from intertwine.report import with_tables

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS = {
    "distributed.md"
}  # its block is a script, which tests/train/test_distributed.py runs with one and two processes
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def run_page(text: str, name: str) -> doctest.TestResults:
    """Run the blocks of a page in one namespace: those with >>> as doctests, others as they would be pasted."""
    names: dict[str, object] = {}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    attempted = 0
    for block in BLOCK.findall(text):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, names, name, name, 0)
            test.globs = names  # a copy otherwise: later blocks use what earlier ones define
            runner.run(test, clear_globs=False)
        else:
            exec(compile(block, name, "exec"), names)
            attempted += 1
    return doctest.TestResults(runner.summarize(verbose=False).failed, runner.tries + attempted)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    result = run_page("" if page.name in SCRIPTS else text, page.name)
    assert result.failed == 0
    shown = BLOCK.findall(text) and page.name not in SCRIPTS
    assert result.attempted > 0 or not shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_agree_with_the_kept_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert with_tables(text) == text, "run python docs/tables.py"


def test_a_table_that_disagrees_is_noticed() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    marked = page.index("<!-- claims:")
    digit = re.compile(r"\d").search(page, page.index("| --- |", marked))
    assert digit is not None
    wrong = page[: digit.start()] + ("1" if digit[0] != "1" else "2") + page[digit.end() :]
    assert with_tables(wrong) == page


def test_a_page_that_is_wrong_fails() -> None:
    assert run_page("```python\n>>> 1 + 1\n3\n\n```", "wrong").failed == 1
    with pytest.raises(ZeroDivisionError):
        run_page("```python\nx = 0\n```\ntext\n```python\n1 / x\n```", "wrong")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_the_classification_on_its_page_is_the_one_in_the_code() -> None:
    page = (ROOT / "docs" / "classification.md").read_text(encoding="utf-8").replace("`", "")
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    shown = [tuple(row) for row in cells if len(row) == 7][1:]
    assert shown == [
        (
            row.group,
            row.stabilizer,
            row.base,
            row.rho,
            row.papers,
            row.layer if row.check else row.builder,
            row.trained_by,
        )
        for row in classification()
    ]


def slugs(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub and the site make them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_headings_find_them(page: Path) -> None:
    for target, place in re.findall(r"\]\((?!https?://)([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        file = page.parent / target if target else page
        assert place in slugs(file), f"{page.name} points to {target}#{place}"


def test_every_command_is_on_its_page() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert {name for name in get_command(program()).commands if f"`{name}`" not in page} == set()


def test_the_readme_keeps_its_samples_short() -> None:
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(blocks) == 4
    assert max(block.strip().count("\n") + 1 for block in blocks) <= 15


def test_the_readme_has_the_errors_of_the_kept_results() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    experiment = experiment_named("rotated-mnist")
    runs = kept_runs(experiment, "small")
    c4, plain = (fmean(run.metrics["test_error"] for run in runs if run.row == row) for row in ("c4", "plain"))
    theirs, theirs_plain = (experiment.row(row).published["test_error"].mean for row in ("c4", "plain"))
    assert f"equivariant to quarter turns has {c4:.1f} % error, and a plain one" in readme
    assert f"weights {plain:.1f} %; {theirs:.1f} and {theirs_plain:.1f} were published" in readme


def test_the_picture_of_the_verbs_shows_what_it_says() -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "pictures" / "verbs.py"))
    (_, turned), (_, mirrored) = drawn["imposed"]()
    for k in range(1, 4):
        assert any(torch.allclose(turned[k], turned[0].rot90(n)) for n in (1, 2, 3))
    assert all(any(torch.allclose(f, turned[0].T.rot90(n)) for n in range(4)) for f in mirrored)
    (_, strict), *soft = drawn["relaxed"]()
    assert torch.allclose(strict, strict[:1].expand_as(strict))
    assert not any(torch.allclose(filters, filters[:1].expand_as(filters), rtol=0.1) for _, filters in soft)
