"""The site builds without a warning, its links lead somewhere, and a page loads nothing from the network."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import intertwine
from tests.report.chromium import CHROMIUM, DRIVER, REQUIRED, Browser

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LOADING = {  # elements that make a browser fetch something, and the attribute that says what
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("video", "src"),
}


class Page(HTMLParser):
    """What a page links to, what it loads, and which places in it can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name == "id":
                self.places.add(value)
            elif value and tag == "a" and name == "href":
                self.links.append(value)
            elif value and (tag, name) in LOADING:
                self.loads.append(value)


def faults(site: Path) -> list[str]:
    """Links that lead nowhere, and whatever is loaded from elsewhere."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    problems = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    problems.append(f"{name} loads {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                problems.append(f"{name} points to {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                problems.append(f"{name} points to a place that is not there: {link}")
    for path in site.rglob("*.css"):
        for address in re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)", path.read_text("utf-8")):
            problems.append(f"{path.name} loads {address}")
    return sorted(set(problems))


def shown_by(room: str) -> set[str]:
    """The public names in the source of a room's face; of a room that is one file, its classes and functions."""
    face = ROOT / "src" / "intertwine" / room.replace(".", "/") / "__init__.py"
    file = face if face.exists() else face.parent.with_suffix(".py")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]  # also under TYPE_CHECKING
    names = {alias.asname for node in imports for alias in node.names if alias.asname}  # `as` marks what a face shows
    names |= {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    return {name for name in names if not name.startswith("_")}


def look_at(site: Path, profile: Path) -> None:
    """Pages of every kind in a real browser, on a desk in the light and on a phone in the dark."""
    browser = Browser(profile)
    try:
        for name in ("index", "tutorials/impose", "concepts/kernels", "api/nn", "commands", "from_escnn", "relax"):
            for width, scheme in ((1300, "light"), (390, "dark")):
                browser.open(site / f"{name}.html", width=width, scheme=scheme)
                assert browser.console() == []
                assert [url for url in browser.requests() if not url.startswith("file:")] == []
                wide = "return document.documentElement.scrollWidth > window.innerWidth"
                assert not browser.run(wide), f"{name} scrolls sideways at {width}"
        browser.open((site / "search.html").as_uri() + "?q=symmetrize")
        browser.wait("return document.querySelectorAll('#search-results li').length > 3")
    finally:
        browser.driver.quit()


@pytest.mark.whole
def test_the_site(tmp_path: Path) -> None:
    """Everything about one build, since building takes a while."""
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", tmp_path / "doctrees", DOCS, site],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert faults(site) == []
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    assert {page for page in pages if not (site / page).exists()} == set()
    for room in intertwine._ROOMS:
        places = Page((site / "api" / f"{room}.html").read_text(encoding="utf-8")).places
        assert {f"intertwine.{room}.{name}" for name in shown_by(room)} - places == set()
    for page in (DOCS / "api").glob("*.*.md"):  # sub-packages: what their room does not show
        places = Page((site / "api" / f"{page.stem}.html").read_text(encoding="utf-8")).places
        names = shown_by(page.stem) - shown_by(page.stem.partition(".")[0])
        assert {f"intertwine.{page.stem}.{name}" for name in names} - places == set()
    assert "Measure how symmetric a trained network is" in (site / "commands.html").read_text(encoding="utf-8")
    assert "<math" in (site / "concepts/kernels.html").read_text(encoding="utf-8")
    if REQUIRED or (CHROMIUM and DRIVER):
        look_at(site, tmp_path / "profile")


def test_the_checker_sees_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "style.css").write_text("@import url('https://fonts.example/a.css'); b { background: url(x.png) }")
    (tmp_path / "other.html").write_text("<p id='here'>text</p>")
    (tmp_path / "index.html").write_text(
        "<a href='gone.html'>1</a><a href='other.html#there'>2</a><script src='//cdn.example/x.js'></script>"
        "<a href='other.html#here'>fine</a><a href='https://example.org'>fine</a><img src='data:image/png;base64,'>"
    )
    assert faults(tmp_path) == [
        "index.html loads //cdn.example/x.js",
        "index.html points to a place that is not there: other.html#there",
        "index.html points to gone.html",
        "style.css loads https://fonts.example/a.css",
    ]


@pytest.fixture(scope="module")
def conf() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "conf.py"))


@pytest.mark.parametrize("page", sorted(path.stem for path in (DOCS / "api").glob("*.md") if path.stem != "index"))
def test_every_name_is_in_one_kind(page: str, conf: dict[str, Any]) -> None:
    kinds = conf["kinds_of"](page)
    names = [name for kind in kinds.values() for name in kind]
    assert sorted(names) == sorted(name for name, _ in conf["public_names"](page))
    if page in ("nn", "groups", "measure", "models", "data", "train", "relaxed", "report", "experiments"):
        assert sum(bool(kind) for kind in kinds.values()) > 1
        assert "Classes" not in kinds


def test_layers_are_grouped_by_what_they_do(conf: dict[str, Any]) -> None:
    kinds = conf["kinds_of"]("nn")
    assert {"Conv1d", "Conv2d", "Linear"} <= set(kinds["Convolutions and linear layers"])
    assert {"BatchNorm", "Dropout"} <= set(kinds["Normalization and dropout"])
    assert "Layer" in kinds["Layers and claims, the geometry of windows, and export"]


def test_a_file_that_the_docstring_forgets_is_noticed(conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    text = intertwine.models.__doc__
    assert text is not None
    monkeypatch.setattr(intertwine.models, "__doc__", text.replace("resnet, wide_resnet", "wide_resnet"))
    with pytest.raises(ValueError, match="resnet comes from resnet, which no line of its docstring names"):
        conf["kinds_of"]("models")


@pytest.mark.parametrize("room", intertwine._ROOMS)
def test_every_room_has_a_page(room: str) -> None:
    assert (DOCS / "api" / f"{room}.md").exists()
    assert f"\n{room}\n" in (DOCS / "api" / "index.md").read_text(encoding="utf-8")
