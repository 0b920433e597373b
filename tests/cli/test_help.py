"""Every command's help ends with examples, and these run as they stand, pasted into an empty folder."""

from __future__ import annotations

import http.client
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from intertwine.cli import program

runner = CliRunner()
SLOW = {("demo",)}
STAYS = {("explore",)}  # ends when it is told to


def commands() -> Iterator[tuple[str, ...]]:
    """All commands by their words, the program itself and groups of commands included."""

    def below(command, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield words
        for name, child in getattr(command, "commands", {}).items():
            yield from below(child, (*words, name))

    yield from below(typer.main.get_command(program()), ())


def help_of(words: tuple[str, ...]) -> str:
    done = runner.invoke(program(), [*words, "--help"])
    assert done.exit_code == 0
    return done.stdout


def examples_in(text: str) -> list[str]:
    """The lines below ``Example:`` or ``Examples:``."""
    _, heading, rest = text.partition("Example")
    return [line.strip() for line in rest.splitlines()[1:] if line.strip()] if heading else []


COMMANDS = [
    pytest.param(words, id=" ".join(words) or "intertwine", marks=[pytest.mark.slow] if words in SLOW else [])
    for words in commands()
]


def test_there_are_commands_within_commands():
    names = set(commands())
    assert {(), ("kernels",), ("explore",), ("experiment", "show"), ("sweep", "run")} <= names


WRITTEN = {("audit",): ["audit/audit.html"], ("symmetrize",): ["twin.safetensors"], ("train",): ["run/model.json"]}
"""Files that the examples write."""


@pytest.fixture(scope="module")
def left() -> dict[str, Path]:
    """What a first example leaves in its folder. Several commands begin with the same one, which is run once."""
    return {}


@pytest.mark.usefixtures("forked_children")
@pytest.mark.parametrize("words", COMMANDS)
def test_the_examples_run_in_an_empty_folder(words, tmp_path, monkeypatch, left, tmp_path_factory):
    lines = examples_in(help_of(words))
    assert lines, "the help has no example"
    assert any(line.startswith(" ".join(("intertwine", *words))) for line in lines)
    monkeypatch.chdir(tmp_path)
    first, *_ = lines
    if first in left:
        shutil.copytree(left[first], tmp_path, dirs_exist_ok=True)
        lines.remove(first)
    for line in lines:
        program_name, *arguments = shlex.split(line)
        assert program_name == "intertwine"
        if words in STAYS:
            served(arguments)
            continue
        done = runner.invoke(program(), arguments)
        assert done.exit_code == 0, f"{line}\n{done.output}{done.exception!r}"
        assert done.output.strip()
        if line == first:
            left[first] = tmp_path_factory.mktemp("left")
            shutil.copytree(tmp_path, left[first], dirs_exist_ok=True)
    assert all((tmp_path / file).exists() for file in WRITTEN.get(words, ()))


def served(arguments: list[str]) -> None:
    """Start, ask for the page, and press Ctrl-C: it must end well and at once."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "intertwine", *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = re.fullmatch(r"Open http://127\.0\.0\.1:(\d+)/  \(Ctrl-C stops it\)\n", process.stdout.readline())
            assert address
            with closing(http.client.HTTPConnection("127.0.0.1", int(address[1]), timeout=60)) as connection:
                connection.request("GET", "/")
                assert connection.getresponse().read().startswith(b"<!doctype html>")
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
            assert process.stdout.read() == "stopped\n"
        finally:
            process.kill()


def test_an_example_that_cannot_be_pasted_is_noticed():
    broken = "Example:\n  intertwine kernels --group D4\n  --taps 3\n"
    assert [shlex.split(line)[0] for line in examples_in(broken)] == ["intertwine", "--taps"]


def test_help_fits_a_terminal_and_says_the_exit_codes():
    text = help_of(())
    assert re.search(r"^ +0  success$", text, re.MULTILINE)
    assert re.search(r"^ +2  wrong usage or wrong input", text, re.MULTILINE)


@pytest.mark.parametrize("words", [w for w in commands() if w and w[-1] in ("list", "show", "kernels", "bench")])
def test_what_scripts_want_is_there_as_json(words):
    assert "--json" in help_of(words)


def test_the_folders_of_explore_must_be_there(tmp_path: Path):
    for option in ("--demo", "--audit"):
        done = runner.invoke(program(), ["explore", option, str(tmp_path / "none"), "--no-browser"])
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: {option}: expected a folder; got ")
