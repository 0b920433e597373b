"""Forked children behave like processes started afresh."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="forked on Linux only"),
    pytest.mark.usefixtures("forked_children"),
]


def run(*words: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60, **options)


def test_it_has_libraries_and_nothing_of_the_package() -> None:
    code = "import sys; print('torch._dynamo' in sys.modules, [n for n in sys.modules if 'intertwine' in n])"
    assert run("-c", code).stdout == "True []\n"


def test_streams_folder_environment_and_arguments(tmp_path: Path) -> None:
    code = (
        "import os, sys; print(sys.stdin.read(), os.getcwd(), os.environ['A'], sys.argv[1:]); print(2, file=sys.stderr)"
    )
    done = run("-c", code, "x", input="in", cwd=tmp_path, env={**os.environ, "A": "b"})
    assert (done.stdout, done.stderr) == (f"in {tmp_path} b ['x']\n", "2\n")


def test_its_streams_have_the_encoding_of_the_environment() -> None:
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    assert run("-c", "print('é')").stdout == "é\n"
    assert "UnicodeEncodeError" in run("-c", "print('é')", env=ascii_only).stderr


def test_a_module_of_the_folder_is_found_unless_the_path_is_safe(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("print(__name__)")
    assert run("-m", "mine", cwd=tmp_path).stdout == "__main__\n"
    assert "No module named mine" in run("-P", "-m", "mine", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(3)", 3),
        ("1 / 0", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import os; os.abort()", -6),
    ],
)
def test_how_it_ends(code: str, expected: int) -> None:
    assert run("-c", code).returncode == expected


def test_warnings_are_errors_if_asked_for() -> None:
    code = "import warnings; warnings.warn('x')"
    assert (run("-c", code).returncode, run("-W", "error", "-c", code).returncode) == (0, 1)


def test_it_is_a_child_that_can_be_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        assert process.poll() is None
        assert Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1] == str(os.getpid())
        process.kill()
    assert process.returncode == -signal.SIGKILL


def test_other_programs_are_started_as_always() -> None:
    assert subprocess.run(["echo", "a"], capture_output=True, text=True).stdout == "a\n"
    assert run("--version").stdout.startswith("Python 3")
