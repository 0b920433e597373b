"""Every public name of escnn and e3nn is on its page, mapped to something that exists or marked as not here.

The lists in ``tests/peers`` are made by ``tests/peers/list_names.py``, where the library is installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import reduce
from importlib import metadata
from pathlib import Path

import pytest
import torch

import intertwine as tw

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
PEERS = ("escnn", "e3nn")
VERSIONS = {"escnn": "1.0.11", "e3nn": "0.6.0"}
OWNERS = {  # what a prefix in the second column stands for: an attribute of any of these
    "tw": (tw,),
    "torch": (torch,),
    "G": (
        *(tw.groups.Group, tw.groups.FiniteGroup, tw.groups.Cyclic, tw.groups.SO2, tw.groups.O2),
        *(tw.groups.SO3, tw.groups.O3),
    ),
    "rho": (tw.groups.Representation,),
}
MISSING = "not here"


@dataclass(frozen=True)
class Row:
    """A row of a table: the peer's names, ours, and the note."""

    theirs: str
    ours: str
    note: str

    @property
    def patterns(self) -> list[str]:
        """The peer's names, without arguments; ``*`` and ``?`` stand for anything."""
        spans = re.findall(r"`([^`]+)`", self.theirs)
        return [match[0] for span in spans if (match := re.match(r"[\w.*?]+", span))]

    @property
    def paths(self) -> list[str]:
        """Our names: ``tw.nn.Conv2d``, ``G.irrep``, ``rho.terms``, ``torch.cat``."""
        spans = re.findall(r"`([^`]+)`", self.ours)
        return [path for span in spans for path in re.findall(r"(?<![\w.])(?:tw|torch|G|rho)(?:\.\w+)+", span)]


def rows(text: str) -> list[Row]:
    """All rows of three cells, without heads and rules."""
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|")
    triples = [Row(*row) for row in cells if len(row) == 3]
    return [row for row in triples if row.theirs not in PEERS and set(row.theirs) != {"-"}]


def names(peer: str) -> list[str]:
    """The stored list, without its first line."""
    return (HERE / "peers" / f"{peer}.txt").read_text().splitlines()[1:]


def missing_names(listed: list[str], table: list[Row]) -> list[str]:
    """The names that no row has."""
    patterns = [pattern for row in table for pattern in row.patterns]
    return [name for name in listed if not any(_names(pattern, name) for pattern in patterns)]


def _names(pattern: str, name: str) -> bool:
    """Whether a pattern names ``module.name``: in full, or without its module."""
    literal = re.sub(r"[*?]", "", pattern)
    return len(literal) > 4 - (pattern == literal) * 3 and (
        fnmatchcase(name, pattern) or ("." not in pattern and fnmatchcase(name.rpartition(".")[2], pattern))
    )


def resolves(path: str) -> bool:
    """Whether an attribute path leads somewhere."""
    prefix, *rest = path.split(".")
    return any(_has(owner, rest) for owner in OWNERS[prefix])


def _has(owner: object, path: list[str]) -> bool:
    try:
        reduce(getattr, path, owner)
    except AttributeError:
        return False
    return True


def faults(row: Row) -> list[str]:
    """What is wrong with a row."""
    wrong = [f"{path} does not exist" for path in row.paths if not resolves(path)]
    if row.ours == MISSING:
        return wrong + ([] if row.note else [f"{row.theirs} is missing without a reason"])
    return wrong + ([] if row.paths else [f"{row.theirs} is mapped to nothing: {row.ours!r}"])


@pytest.mark.parametrize("peer", PEERS)
def test_every_name_is_on_the_page(peer: str) -> None:
    table = rows((DOCS / f"from_{peer}.md").read_text())
    listed = names(peer)
    assert len(listed) > 100
    assert missing_names(listed, table) == []


@pytest.mark.parametrize("peer", PEERS)
def test_every_row_leads_somewhere(peer: str) -> None:
    table = rows((DOCS / f"from_{peer}.md").read_text())
    assert len(table) > 40
    assert [fault for row in table for fault in faults(row)] == []


@pytest.mark.parametrize("peer", PEERS)
def test_little_is_missing(peer: str) -> None:
    """The list of what is not here stays short; a row that leaves it is good news."""
    table = rows((DOCS / f"from_{peer}.md").read_text())
    assert sum(row.ours == MISSING for row in table) <= 8


@pytest.mark.parametrize("peer", PEERS)
def test_the_page_names_the_version(peer: str) -> None:
    first = (HERE / "peers" / f"{peer}.txt").read_text().splitlines()[0]
    assert first == f"# {peer} {VERSIONS[peer]}"
    assert VERSIONS[peer] in (DOCS / f"from_{peer}.md").read_text()


def test_what_must_fail() -> None:
    page = "| escnn | intertwine | |\n|---|---|---|\n| `nn.R2Conv`, `ReLU` | `tw.nn.Conv2d` | |\n"
    table = rows(page)
    assert len(table) == 1
    assert missing_names(["nn.R2Conv", "nn.ReLU"], table) == []
    assert missing_names(["nn.R2Conv", "nn.R3Conv", "nn.LeakyReLU"], table) == ["nn.R3Conv", "nn.LeakyReLU"]
    assert missing_names(["nn.R3Conv"], rows("| `*` | `tw.nn.Conv2d` | |\n")) == ["nn.R3Conv"]  # too much for one star
    assert faults(Row("`a`", "`tw.nn.Convolution2d`", ""))
    assert faults(Row("`a`", "`G.no_such_method(3)`", ""))
    assert faults(Row("`a`", MISSING, ""))
    assert faults(Row("`a`", "something", "a note"))
    assert not faults(Row("`a`", MISSING, "nobody needs it"))
    assert not faults(Row("`a`", "`tw.spaces.Grid3d(G, action=G.about_axis('z'))`", ""))


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS)
def test_the_list_is_current(peer: str) -> None:
    """Walk the library itself, where it is installed."""
    pytest.importorskip(peer)
    if metadata.version(peer) != VERSIONS[peer]:
        pytest.skip(f"the list is for {peer} {VERSIONS[peer]}")
    script = HERE / "peers" / "list_names.py"
    walked = subprocess.run([sys.executable, script, peer], capture_output=True, text=True, check=True).stdout
    assert walked == (HERE / "peers" / f"{peer}.txt").read_text()
