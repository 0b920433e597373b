from __future__ import annotations

import os
import pkgutil
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import intertwine
import intertwine.cli
from intertwine.cli._app import BAD_INPUT, CHECK_FAILED, program
from intertwine.errors import InputError

# Files in cli/ that support commands without being one.
HELPERS = frozenset({"_values", "_options", "_stopping", "_kernel_summary", "_kernel_tables", "_network", "_progress"})
FILES = sorted(info.name for info in pkgutil.iter_modules(intertwine.cli.__path__) if info.name != "_app")

runner = CliRunner()


@pytest.fixture
def app() -> typer.Typer:
    """The program with commands that go wrong, each in its own way."""
    app = program()

    @app.command("wrong-input")
    def _wrong_input() -> None:
        raise InputError("solve", expected="a subgroup\n  of D4", got="C3", fix="Try C2.")

    @app.command("missing-file")
    def _missing_file() -> None:
        Path("no/such/folder/file.png").write_text("")

    @app.command("failed-check")
    def _failed_check() -> None:
        raise typer.Exit(CHECK_FAILED)

    @app.command("defect")
    def _defect() -> None:
        raise RuntimeError("a defect of ours")

    @app.command("disk")
    def _disk() -> None:
        raise OSError(5, "Input/output error")

    return app


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    keep = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "NO_COLOR")}
    return subprocess.run(
        [sys.executable, "-W", "error", *shlex.split(code)],
        capture_output=True,
        text=True,
        env={**keep, **environment},
        timeout=120,
        check=False,
    )


def test_without_arguments_it_explains_itself() -> None:
    done = runner.invoke(program(), [])
    lines = done.stdout.splitlines()
    assert done.exit_code == 0
    assert lines[0].startswith(f"intertwine {intertwine.__version__}: ")
    assert len(lines) == 10
    assert max(map(len, lines)) <= 120


def test_the_explanation_and_the_help_list_every_command() -> None:
    app = program()
    names = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
    names += [group.name for group in app.registered_groups if group.name]
    assert len(names) == len(FILES) - len(HELPERS)
    text = runner.invoke(program(), ["--help"]).stdout
    assert [name for name in names if not re.search(rf"^  {name} +\S", text, re.MULTILINE)] == []
    text = runner.invoke(program(), []).stdout
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


def test_the_example_in_the_explanation_runs() -> None:
    start = next(line for line in runner.invoke(program(), []).stdout.splitlines() if line.startswith("Start"))
    done = runner.invoke(program(), shlex.split(start)[2:])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("file", sorted(set(FILES) - HELPERS))
def test_every_file_is_a_command_or_a_listed_helper(file: str) -> None:
    assert callable(getattr(import_module(f"intertwine.cli.{file}"), "register", None))


def test_version() -> None:
    done = runner.invoke(program(), ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"intertwine {intertwine.__version__}\n")


@pytest.mark.parametrize("arguments", [["no-such-command"], ["--no-such-option"]])
def test_wrong_usage_leaves_with_2_and_no_trace(arguments: list[str]) -> None:
    done = runner.invoke(program(), arguments)
    assert (done.exit_code, done.stdout) == (BAD_INPUT, "")
    assert re.fullmatch(r"error: intertwine: No such .* See 'intertwine --help'\.\n", done.stderr)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list"], "intertwine list: Missing argument 'kind'."),
        (["kernels", "--group", "D4", "--taps", "x"], "intertwine kernels: Invalid value for '--taps': "),
        (["explore", "--port", "99999"], "intertwine explore: Invalid value for '--port': "),
        (["theory", "extra"], "intertwine theory: Got unexpected extra argument"),
        (["sweep", "run"], "intertwine sweep run: Missing argument 'NAME'."),
        (["experiment", "nope"], "intertwine experiment: No such command 'nope'."),
    ],
)
def test_wrong_options_are_one_line_that_names_the_help(arguments: list[str], words: str) -> None:
    done = runner.invoke(program(), arguments)
    assert (done.exit_code, done.stdout) == (BAD_INPUT, "")
    assert done.stderr.startswith(f"error: {words}")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(" --help'.\n")


@pytest.mark.parametrize("group", ["experiment", "sweep"])
def test_a_group_without_a_command_shows_its_help(group: str) -> None:
    done = runner.invoke(program(), [group])
    assert f"Usage: intertwine {group}" in done.output
    assert "Commands:" in done.output


def test_wrong_input_is_one_line_on_stderr(app: typer.Typer) -> None:
    done = runner.invoke(app, ["wrong-input"])
    assert (done.exit_code, done.stdout) == (BAD_INPUT, "")
    assert done.stderr == "error: solve: expected a subgroup of D4; got C3. Try C2.\n"


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--debug", "wrong-input"], {}),
        (["wrong-input", "--debug"], {}),
        (["wrong-input"], {"INTERTWINE_DEBUG": "1"}),
    ],
)
def test_debug_shows_the_trace(app: typer.Typer, arguments: list[str], environment: dict[str, str]) -> None:
    done = runner.invoke(app, arguments, env=environment)
    assert done.exit_code == BAD_INPUT
    assert "Traceback" in done.stderr
    assert "_wrong_input" in done.stderr
    assert done.stderr.endswith("error: solve: expected a subgroup of D4; got C3. Try C2.\n")


def test_a_file_that_cannot_be_written_is_named(
    app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = runner.invoke(app, ["missing-file"])
    assert done.exit_code == BAD_INPUT
    assert re.fullmatch(r"error: no.such.folder.file\.png: No such file or directory\n", done.stderr)


def test_a_failed_check_leaves_with_1(app: typer.Typer) -> None:
    assert runner.invoke(app, ["failed-check"]).exit_code == CHECK_FAILED


@pytest.mark.parametrize(("command", "kind"), [("defect", RuntimeError), ("disk", OSError)])
def test_a_defect_is_not_dressed_up_as_wrong_input(app: typer.Typer, command: str, kind: type[Exception]) -> None:
    done = runner.invoke(app, [command])
    assert isinstance(done.exception, kind)
    assert "error:" not in done.stderr


def test_the_module_runs_as_a_program() -> None:
    done = python("-m intertwine --version")
    assert (done.returncode, done.stdout) == (0, f"intertwine {intertwine.__version__}\n")


def test_help_does_not_import_torch() -> None:
    code = """-c '
import sys
from intertwine.cli import main
try:
    main(["--help"])
except SystemExit as done:
    print(done.code, [name for name in ("torch", "numpy", "scipy", "matplotlib", "rich") if name in sys.modules])
'"""
    done = python(code)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr


def test_shell_completion_answers() -> None:
    done = python("-m intertwine", _INTERTWINE_COMPLETE="complete_bash", COMP_WORDS="intertwine --ver", COMP_CWORD="1")
    assert "--version" in done.stdout.split(), done.stderr
    words = {"COMP_WORDS": "intertwine list l", "COMP_CWORD": "2"}
    assert "layers" in python("-m intertwine", _INTERTWINE_COMPLETE="complete_bash", **words).stdout.split()


FAIL = """-c '
from intertwine.cli._app import program
from intertwine.errors import InputError
app = program()
@app.command()
def fail():
    raise InputError("solve", expected="C2", got="C3", fix="Try C2.")
app(["fail"], prog_name="intertwine")
'"""


def test_no_color_in_a_pipe() -> None:
    done = python(FAIL)
    assert (done.returncode, done.stderr) == (BAD_INPUT, "error: solve: expected C2; got C3. Try C2.\n")


def on_a_terminal(**environment: str) -> str:
    """What the failing program writes to stderr if that is a terminal."""
    import pty

    keep = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "PY_COLORS", "NO_COLOR")}
    terminal, end = pty.openpty()
    try:
        command = [sys.executable, *shlex.split(FAIL)]
        subprocess.run(command, stderr=end, timeout=120, check=False, env={**keep, **environment})
        return os.read(terminal, 4096).decode()
    finally:
        os.close(end)
        os.close(terminal)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
def test_color_on_a_terminal_unless_it_is_not_wanted(environment: dict[str, str]) -> None:
    text = on_a_terminal(**environment)
    assert ("\x1b[" in text) == (not environment)
    assert "solve: expected C2; got C3" in text
