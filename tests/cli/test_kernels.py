from __future__ import annotations

import json
import os
import shlex
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from intertwine.cli._app import BAD_INPUT, program

runner = CliRunner()


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERTWINE_CACHE", "off")
    monkeypatch.setenv("COLUMNS", "100")


def run(arguments: str) -> Any:
    return runner.invoke(program(), ["kernels", *shlex.split(arguments)])


def answer(arguments: str) -> dict[str, Any]:
    done = run(f"{arguments} --json")
    assert done.exit_code == 0, done.output
    reply = json.loads(done.stdout)
    assert isinstance(reply, dict)
    return reply


def complaint(arguments: str) -> str:
    done = run(arguments)
    assert (done.exit_code, done.stdout) == (BAD_INPUT, ""), done.output
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return str(lines[0])


@pytest.mark.parametrize(
    ("arguments", "dimension"),
    [
        ("--group C6 --subgroup C2 --in trivial --out regular", 3),
        ("--group D4 --subgroup C2 --in trivial --out regular", 4),
        ("--group S4 --subgroup trivial --in trivial --out trivial", 24),
        ("--group S4 --subgroup whole --in regular --out regular", 24),
        ("--group S4 --subgroup S3 --in trivial --out trivial", 2),
        ("--group S4 --subgroup S3 --out-subgroup whole --in trivial --out trivial", 1),
        ("--group C4 --taps 5 --in trivial --out trivial", 7),
        ("--group C4 --taps 5 --in trivial --out regular", 25),
        ("--group C4 --taps 5 --in regular --out regular", 100),
        ("--group D4 --taps 5 --in trivial --out trivial", 6),
        ("--group D4 --taps 5 --in trivial --out regular", 25),
        ("--group D4 --taps 5 --in regular --out regular", 200),
        ("--group D4 --taps 5 --in '2*trivial + regular' --out 'trivial + quotient:C4'", 2 * 6 + 25 + 2 * 7 + 50),
        ("--group O --taps 3 --in trivial --out trivial", 4),
        ("--group C6 --taps 5 --lattice hexagonal --in trivial --out regular", 19),
        ("--group C4 --taps 5 --lattice square --in trivial --out trivial", 7),
        ("--group C4 --taps 4 --in trivial --out trivial", 4),
    ],
)
def test_known_dimensions(arguments: str, dimension: int) -> None:
    reply = answer(arguments)
    assert reply["dimension"] == reply["mackey"] == dimension
    assert reply["residual"] <= 1e-10
    assert sum(coset["kernels"] for coset in reply["double_cosets"]) == dimension
    assert [place["dimension"] for place in reply["realizations"]] == [dimension] * 3
    points = [place["points"] for place in reply["realizations"]]
    assert points == sorted(points, reverse=True)
    assert points[1] == sum(coset["points"] for coset in reply["double_cosets"])
    assert points[2] == len(reply["double_cosets"])


def test_the_json_of_a_finite_space() -> None:
    reply = answer("--group S4 --subgroup S3 --out-subgroup D4 --in trivial --out regular")
    assert reply["group"] == "S4"
    assert reply["subgroup"] == {
        "name": "S3",
        "order": 6,
        "elements": [0, 1, 2, 3, 4, 5],
        "text": "{e, (2 3), (1 2), (1 2 3), (1 3 2), (1 3)}",
    }
    assert reply["out_subgroup"]["order"] == 8
    assert reply["types"]["in"] == {"space": "S4/S3", "representation": "trivial", "dim": 1}
    assert reply["types"]["out"] == {"space": "S4/D4", "representation": "regular", "dim": 8}
    assert reply["taps"] is None
    (coset,) = reply["double_cosets"]
    assert coset == {
        "representative": 0,
        "label": "e",
        "points": 4,
        "elements": 24,
        "stabilizer_order": 2,
        "kernels": 4,
    }
    assert [(place["on"], place["points"], place["numbers"]) for place in reply["realizations"]] == [
        ("G", 24, 192),
        ("G/H1", 4, 32),
        ("H2\\G/H1", 1, 8),
    ]


def test_the_json_of_a_filter() -> None:
    reply = answer("--group D4 --taps 5 --in trivial --out regular")
    assert (reply["subgroup"], reply["taps"], reply["lattice"]) == (None, [5, 5], "square")
    assert [coset["representative"] for coset in reply["double_cosets"]][-2:] == [[0.0, 1.0], [0.0, 0.0]]
    assert [coset["label"] for coset in reply["double_cosets"]][-2:] == ["(0, 1)", "(0, 0)"]
    assert [coset["stabilizer_order"] for coset in reply["double_cosets"]] == [2, 1, 2, 2, 2, 8]
    assert answer("--group O --taps 3 --out trivial")["taps"] == [3, 3, 3]


def test_sizes_of_double_cosets_add_up_to_the_group() -> None:
    reply = answer("--group S4 --subgroup C2#2 --out-subgroup C4 --in trivial --out trivial")
    assert sum(coset["elements"] for coset in reply["double_cosets"]) == 24
    assert sum(coset["points"] for coset in reply["double_cosets"]) == 12
    for coset in reply["double_cosets"]:  # |H2 γ H1| = |H1||H2| / |H2 ∩ γH1γ⁻¹|
        assert coset["elements"] == 2 * 4 // coset["stabilizer_order"]


def test_the_tables() -> None:
    done = run("--group D4 --subgroup C2 --in trivial --out regular")
    assert done.exit_code == 0
    assert done.stdout.isascii()
    assert "\x1b" not in done.stdout
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "kernels D4/C2 -> D4/C2: trivial (1 channel) -> regular (2 channels)" in lines
    assert "H1 = H2 = C2 = {e, r^2}" in lines
    assert "double coset of points elements stabilizer order kernels" in lines
    assert "r s [5] 1 2 2 1" in lines
    assert "together 4 8 4" in lines
    assert "G 8 16 4" in lines
    assert "G/H1 4 8 4" in lines
    assert "H2\\G/H1 4 8 4" in lines
    assert lines[-3:] == ["dimension 4", "Mackey's prediction 4", "residual 0.0e+00"]


def test_the_tables_of_a_filter_and_of_two_subgroups() -> None:
    assert "3 x 3 filters on the square lattice that commute with C4" in run("--group C4 --taps 3").stdout
    text = run("--group S4 --subgroup S3 --out-subgroup 1").stdout
    assert "H1 = S3 = {e, (2 3), " in text
    assert "H2 = <1> = {e, (2 3)}" in text


def test_a_long_table_is_cut_and_says_so() -> None:
    text = run("--group C1 --taps 7 --out trivial").stdout
    assert "and 9 more (--json lists all)" in text
    assert len(text.splitlines()) < 60
    assert len(answer("--group C1 --taps 7 --out trivial")["double_cosets"]) == 49


def test_an_ambiguous_subgroup_is_noted_beside_the_answer() -> None:
    note = "D4 has several classes of subgroups C2; chosen: {e, r^2}; others: C2#2 = {e, s}, C2#3 = {e, r s}"
    done = run("--group D4 --subgroup C2 --json")
    assert done.stderr == f"note: {note}\n"
    assert json.loads(done.stdout)["notes"] == [note]
    for clear in ("C2#2", "C4", "2", "trivial"):
        assert run(f"--group D4 --subgroup {clear}").stderr == ""


def test_the_subgroups_a_note_offers_are_taken() -> None:
    assert answer("--group D4 --subgroup C2#3")["subgroup"]["text"] == "{e, r s}"


@pytest.mark.usefixtures("forked_children")
def test_as_a_program_with_json_alone_on_stdout() -> None:
    command = "-m intertwine kernels --group C6 --subgroup C2 --in trivial --out regular --json"
    done = subprocess.run(
        [sys.executable, "-W", "error", *shlex.split(command)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    reply = json.loads(done.stdout)
    assert {"dimension", "mackey", "residual", "double_cosets", "group", "subgroup", "types"} <= reply.keys()
    assert reply["dimension"] == 3


@pytest.mark.usefixtures("forked_children")
def test_the_tables_survive_an_ascii_pipe() -> None:
    done = subprocess.run(
        [sys.executable, *shlex.split("-m intertwine kernels --group O --taps 3 --out trivial")],
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert b"residual" in done.stdout


def test_help_teaches_with_examples_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = run("--help").stdout
    assert "equivariant kernels between two field types" in " ".join(text.split())
    examples = [line.strip() for line in text.splitlines() if line.startswith("    intertwine kernels ")]
    assert len(examples) == 4
    for example in examples:
        done = runner.invoke(program(), shlex.split(example)[1:])
        assert done.exit_code == 0, (example, done.output)
    assert (tmp_path / "kernels.png").is_file()


# -- the picture -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "problem",
    [
        "--group D4 --subgroup C2",
        "--group D4 --taps 5",
        "--group C4 --taps 3 --in regular",
        "--group O --taps 3 --out trivial",
    ],
)
def test_the_picture_is_a_png_of_sensible_size(tmp_path: Path, problem: str) -> None:
    file = tmp_path / "kernels.png"
    done = run(f"{problem} --png {file}")
    assert done.exit_code == 0, done.output
    assert str(file) in done.stdout
    data = file.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    assert 600 <= width <= 3000
    assert 400 <= height <= 3000
    assert [path.name for path in tmp_path.iterdir()] == ["kernels.png"]


def test_the_picture_goes_with_json(tmp_path: Path) -> None:
    reply = answer(f"--group C4 --taps 3 --png {tmp_path / 'k.SVG'}")
    assert reply["picture"] == str(tmp_path / "k.SVG")
    assert b"<svg" in (tmp_path / "k.SVG").read_bytes()


def test_a_failure_while_drawing_leaves_the_old_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    file = tmp_path / "k.png"
    file.write_bytes(b"old")

    def half(self: Figure, name: Path) -> None:
        name.write_bytes(b"half")
        raise OSError(28, "No space left on device", str(name))

    monkeypatch.setattr(Figure, "savefig", half)
    assert "No space left on device" in complaint(f"--group C4 --taps 3 --png {file}")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("k.jpg", "expected a file that ends in .png, .svg, .pdf; got"),
        ("k", "expected a file that ends in .png, .svg, .pdf; got"),
        ("none/k.png", "none/k.png, whose folder does not. Create the folder"),
        ("folder.png", "folder.png, a folder itself"),
    ],
)
def test_a_picture_that_cannot_be_written(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "folder.png").mkdir()
    assert text in complaint(f"--group C4 --taps 3 --png {tmp_path / name}").replace("\\", "/")


@pytest.mark.usefixtures("forked_children")
def test_without_matplotlib_the_extra_is_named(tmp_path: Path) -> None:
    code = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from intertwine.cli import main
for words in ([], ["--png", sys.argv[-1]]):
    try:
        main([*sys.argv[1:-1], *words])
        code = 0
    except SystemExit as end:
        code = end.code or 0
    print("ended with", code)
"""
    problem = shlex.split("kernels --group C4 --taps 3")
    done = subprocess.run(
        [sys.executable, "-c", code, *problem, str(tmp_path / "k.png")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    plain, ended, picture = done.stdout.partition("ended with 0\n")
    assert ended, done.stderr
    assert "residual" in plain
    assert picture == f"ended with {BAD_INPUT}\n"
    assert "expected matplotlib" in done.stderr
    assert "extra plot: pip install 'intertwine[plot]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


# -- bad input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            "--group D4",
            "either --subgroup, for kernels between spaces G/H, or --taps, for filters on a lattice; got neither",
        ),
        ("--group D4 --subgroup C2 --taps 3", "or --taps, for filters on a lattice; got both. For example"),
        ("--group D4 --taps 3 --out-subgroup C2", "expected --out-subgroup together with --subgroup; got --taps"),
        ("--group D4 --subgroup C2 --lattice square", "expected --lattice together with --taps; got --subgroup"),
        ("--group E8 --taps 3", "expected a group such as C4, D4"),
        ("--group SO3 --taps 3", "a representation of SO(3): trivial, standard, irrep1, irrep2, ...; got 'regular'"),
        ("--group SE2 --taps 3", "expected a group that fixes a point: C8, D4, O, SO(2), O(3), ...; got SE(2)"),
        ("--group SO2 --subgroup C2", "expected a finite group; got 'SO2'"),
        ("--group D4 --subgroup C3", "subgroup of D4: expected trivial, whole or one of C1, C2, C2#2, C2#3, C4"),
        ("--group D4 --subgroup 1,9", "expected elements 0..7; got 9"),
        ("--group D4 --subgroup C2 --out-subgroup C5", "got 'C5'"),
        ("--group D4 --taps 3 --in foo", "irrep(1) (dim 2, real), irrep(2, +1) (dim 1, real)"),
        (
            "--group D4 --subgroup C2 --out irrep9",
            "a representation of C2: trivial, regular, standard, quotient:SUBGROUP",
        ),
        ("--group D4 --taps 3 --in '0*regular'", "a positive whole number of copies; got 0"),
        ("--group D4 --taps 0", "expected a positive kernel size"),
        ("--group D4 --taps -3", "expected a positive kernel size"),
        ("--group S4 --taps 3", "expected a group that moves the plane (C4, D4, ...) or space (T, O, Oh); got S4"),
        ("--group O --taps 3 --lattice hexagonal", "expected a group that moves the plane (C4, D4, ...); got O"),
        (
            "--group C4 --taps 3 --lattice hexagonal",
            "maps the hexagonal lattice to itself: C1, C2, C3, C6, D1, D2, D3, D6; got C4.",
        ),
        ("--group O --taps 100000", "a filter of 100000 x 100000 x 100000 taps"),
        ("--group D4 --taps 3 --in irrep(0,-1) --out trivial", "the only layer between these types is zero"),
    ],
)
def test_bad_input_is_one_line(arguments: str, text: str) -> None:
    assert text in complaint(arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("--taps 3", "Missing option '--group'"),
        ("--group D4 --taps three", "Invalid value for '--taps'"),
        ("--group C6 --taps 3 --lattice round", "'round' is not one of 'square', 'hexagonal'"),
    ],
)
def test_bad_usage(arguments: str, text: str) -> None:
    done = run(arguments)
    assert (done.exit_code, done.stdout) == (BAD_INPUT, "")
    assert text in done.stderr


def test_a_large_problem_skips_the_measurement_and_says_so() -> None:
    reply = answer("--group D4 --taps 3 --in '3*regular' --out '3*regular'")
    assert reply["dimension"] == reply["mackey"]
    assert reply["realizations"][0]["dimension"] is None
    assert reply["realizations"][2]["dimension"] == reply["dimension"]
    assert "too large to measure" in run("--group D4 --taps 3 --in '3*regular' --out '3*regular'").stdout


@pytest.mark.usefixtures("forked_children")
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_on_a_terminal_the_tables_have_rules() -> None:
    import pty

    terminal, end = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, *shlex.split("-m intertwine kernels --group C4 --taps 3")],
            stdout=end,
            timeout=120,
            check=False,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
        )
        text = os.read(terminal, 16384).decode()
    finally:
        os.close(end)
        os.close(terminal)
    assert "─" in text
    assert "\x1b[1m" in text
    assert "orbits of taps" in text


@pytest.mark.parametrize(
    ("arguments", "dimension", "rings"),
    [
        ("--group C8 --taps 5 --in trivial --out regular", 11, [1, 5, 5]),
        ("--group SO(2) --taps 3 --in trivial+irrep1 --out irrep1", 8, [2, 6]),
        ("--group O(2) --taps 3 --in irrep(0,-1) --out irrep1", 1, [0, 1]),
        ("--group I --taps 3 --in trivial --out regular", 10, [1, 9]),
        ("--group SO(3) --taps 3 --in irrep1 --out irrep1", 4, [1, 3]),
    ],
)
def test_groups_that_do_not_keep_the_lattice(arguments: str, dimension: int, rings: list[int]) -> None:
    words = ["kernels", *arguments.split()]
    reply = json.loads(CliRunner().invoke(program(), [*words, "--json"]).stdout)
    assert reply["dimension"] == reply["mackey"] == dimension
    assert reply["residual"] < 1e-10
    assert [ring["kernels"] for ring in reply["double_cosets"]] == rings
    printed = CliRunner().invoke(program(), words)
    assert printed.exit_code == 0
    assert "sampled from kernels that commute with" in printed.stdout
    assert "ring of radius" in printed.stdout
