"""Reads every import in src/intertwine and reports those that break the floor plan of docs/architecture.md.

All imports count, wherever they stand: at the top, inside a function, under ``if TYPE_CHECKING``, and
``import_module("a.literal.name")``. Each rule is shown a planted violation that it must report.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = "intertwine"
SOURCE = Path(__file__).parents[1] / "src" / PACKAGE

# From the ground up. A room is a folder or a file directly under src/intertwine; rooms of one tuple share a floor.
FLOORS: tuple[tuple[str, ...], ...] = (
    (
        "errors",
        "_checked",
        "_warn",
        "_registry",
        "_numerics",
        "_digest",
        "_files",
        "_kept",
        "_views",
        "_plain_form",
        "_cost_rules",
        "_devices",
        "_torchvision",
        "_untrusted",
        "_figures",
        "_importing",
        "_lazy",
        "_console",
        "_ray",
    ),
    ("groups",),
    ("spaces",),
    ("kernels",),
    ("measure", "data"),  # any torch network, any images: they never see our layers
    ("nn",),
    ("relaxed", "topographic"),
    ("testing",),
    ("models",),
    ("train",),
    ("experiments", "discovery"),
    ("demo",),
    ("report",),
    ("cli",),
    ("__init__", "__main__"),
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
MATHEMATICS = ("groups", "spaces", "kernels")

# Inside a room, from the ground up: its sub-packages, and TOP for the files beside its face. A file imports only from
# its own sub-package and from those before it.
TOP = "(top)"
INSIDE: dict[str, tuple[str, ...]] = {
    "groups": (TOP, "special", "finite", "lie", "names", "tensors"),
    "measure": (TOP, "metrics", "graph", "matching", "surgery", "load", "audits"),
    "data": ("sources", TOP, "readers", "named", "catalog"),
    "nn": (
        *("basis", "filters", "pointwise", TOP),
        *("linear", "clouds", "sets", "scales", "nonlinear", "norms", "resizing", "types", "networks", "twins"),
    ),
    "relaxed": (TOP, "low_rank", "soft", "loosened"),
    "train": (TOP, "loading", "records", "loop", "tuning"),
    "experiments": ("lab", "classics", "lrlc", "soft", "relu", "tvae", "clouds", "sphere", "shapes", "theory"),
    "report": (TOP, "draw", "experiment", "audit", "discovery", "explore", "demo"),
}

# Sub-packages with an API page of their own. They hold the public names that are too special for the face of their
# room, and other rooms may import from them as from a face.
FACES = frozenset({"measure.metrics", "measure.graph", "measure.surgery", "experiments.relu"})

# Rooms of one floor do not import each other, except the ground floor, which is one room in several files, and the
# pairs (importer, imported) listed here. Each pair is a decision: give the reason beside it.
SIDEWAYS: frozenset[tuple[str, str]] = frozenset()

# The one import that goes up: a room below asks _views for a table or a page, which report draws.
UPWARD: frozenset[tuple[str, str]] = frozenset({("_views", "report")})

# Downward, and forbidden all the same: the training loop is written for any model and any dataset.
# The layers know nothing of measurements and datasets.
BLIND: frozenset[tuple[str, str]] = frozenset(
    {("train", "models"), ("train", "data"), ("nn", "data"), ("relaxed", "data"), ("topographic", "data")}
)


@dataclass(frozen=True)
class Import:
    """One imported module, by its full name, and the names taken from it (empty for ``import module``)."""

    line: int
    module: str
    names: tuple[str, ...] = ()
    binds_root: bool = False


def imports_of(tree: ast.Module, package: str) -> Iterator[Import]:
    """Every import in a file of ``package``, relative names resolved."""
    torch_names = {"torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "torch" and alias.asname:
                    torch_names.add(alias.asname)
                yield Import(node.lineno, alias.name, binds_root=alias.asname is None)
        elif isinstance(node, ast.ImportFrom):
            module = absolute(package, node.level, node.module or "")
            yield Import(node.lineno, module, tuple(alias.name for alias in node.names))
        elif isinstance(node, ast.Call) and node.args and is_import_call(node.func):
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                bare = name.value.lstrip(".")
                yield Import(node.lineno, absolute(package, len(name.value) - len(bare), bare))
    for node in ast.walk(tree):  # torch.nn reached through `import torch` is an import of torch.nn all the same
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "nn"
            and isinstance(node.value, ast.Name)
            and node.value.id in torch_names
        ):
            yield Import(node.lineno, "torch.nn")


def is_import_call(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__")


def absolute(package: str, level: int, module: str) -> str:
    if level == 0:
        return module
    parts = package.split(".")
    return ".".join(parts[: len(parts) - level + 1] + ([module] if module else []))


def violations(source: Path) -> list[str]:
    """One line for each import below ``source`` that breaks a rule, naming file, line and both floors."""
    problems: list[str] = []
    for file in sorted(source.rglob("*.py")):
        parts = file.relative_to(source).with_suffix("").parts
        room = parts[0]
        where = (Path(source.name) / file.relative_to(source)).as_posix()
        if room not in FLOOR:
            problems.append(f"{where}:1: {room} has no floor; give it one in FLOORS and in docs/architecture.md")
            continue
        package = ".".join((PACKAGE, *parts[:-1]))
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
        for item in sorted(imports_of(tree, package), key=lambda item: item.line):
            messages = [*faults(room, item), *inner_faults(parts, item)]
            problems += [f"{where}:{item.line}: {message}" for message in messages]
    return problems


def inner_faults(parts: tuple[str, ...], item: Import) -> Iterator[str]:
    """What is wrong with an import from the room of the file itself; ``parts`` is the path of the file."""
    room = parts[0]
    if room not in INSIDE or parts == (room, "__init__"):  # the face imports all sub-packages
        return
    own = parts[1] if len(parts) > 2 else TOP
    if own not in INSIDE[room]:
        yield f"{room}.{own} has no place; give it one in INSIDE and in the docstring of {room}"
        return
    face = f"{PACKAGE}.{room}"
    if item.module == face:
        modules = [f"{face}.{name}" for name in item.names]
    else:
        modules = [item.module] if item.module.startswith(f"{face}.") else []
    for module in modules:
        first = module.split(".")[2]
        if first in INSIDE[room]:
            target = first
        elif first.startswith("_"):
            target = TOP
        else:
            yield f"{room}.{own} imports {first} from the face of its room: import from the file that defines it"
            continue
        if INSIDE[room].index(target) > INSIDE[room].index(own):
            yield f"{room}.{own} imports {room}.{target}: inside {room}, imports go down only"


def floor(room: str, inner: str = "") -> str:
    return f"{room}{inner} (floor {FLOOR[room]})"


def faults(room: str, item: Import) -> Iterator[str]:
    module, names = item.module, item.names
    if module.split(".")[0] != PACKAGE:
        if "*" in names:
            yield f"{floor(room)} imports * from {module}: name what is used"
        torch_nn = f"{module}.".startswith("torch.nn.") or (module == "torch" and "nn" in names)
        if room in MATHEMATICS and torch_nn:
            yield f"{floor(room)} imports torch.nn, which belongs to {floor('nn')}: mathematics has no layers"
        return

    inner = module.split(".")[1:]
    if not inner and not names:
        yield f"{floor(room)} imports {floor('__init__')}, from which every floor is reached: import a room of it"
    elif not inner:  # from intertwine import groups, __version__
        for name in names:
            if name == "*":
                yield f"{floor(room)} imports * from {floor('__init__')}: name what is used"
            elif name in FLOOR:
                yield from room_faults(room, name, Import(item.line, f"{PACKAGE}.{name}"))
            elif not name.startswith("__"):  # __version__ and the like are plain values
                yield f"{floor(room)} imports {name}, which has no floor"
    else:
        if item.binds_root:
            yield (
                f"{floor(room)} imports {module} and with it binds {floor('__init__')}, from which every floor is "
                f"reached: write from {PACKAGE} import {inner[0]}"
            )
        yield from room_faults(room, inner[0], item)


def room_faults(room: str, target: str, item: Import) -> Iterator[str]:
    if target not in FLOOR:
        yield f"{floor(room)} imports {target}, which has no floor"
        return
    if "*" in item.names:
        yield f"{floor(room)} imports * from {floor(target)}: name what is used"
    if room == target:
        return
    if FLOOR[target] > FLOOR[room] and (room, target) not in UPWARD:
        yield f"{floor(room)} imports {floor(target)}: imports go down only"
    elif FLOOR[target] == FLOOR[room] != 0 and (room, target) not in SIDEWAYS:
        yield f"{floor(room)} imports {floor(target)}: rooms of one floor do not import each other"
    elif (room, target) in BLIND:
        yield f"{floor(room)} imports {floor(target)}: it must work with any"
    path = item.module.split(".")[1:]
    face = ".".join(path[:2]) if ".".join(path[:2]) in FACES else target
    behind = ".".join(path).removeprefix(face).removeprefix(".")
    private = [name for name in item.names if name.startswith("_") and not name.startswith("__")]
    for name in [behind] if behind else private:
        inner = f"{face}.{name}".removeprefix(target)
        yield f"{floor(room)} imports {floor(target, inner)} behind its face: import from {PACKAGE}.{face}"


def test_the_package_keeps_to_its_floors() -> None:
    assert len(list(SOURCE.rglob("*.py"))) > 5, "the checker must have something to read"
    assert violations(SOURCE) == []


def test_every_room_in_the_plan_is_documented() -> None:
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = [room for rooms in FLOORS[:-1] for room in rooms]
    assert [room for room in rooms if f"`{room}`" not in page] == []


# The planted violations. The last line of each text is the one that must be reported.


@pytest.mark.parametrize(
    "text",
    [
        "from intertwine.nn import Conv2d",
        "import torch\nfrom ..nn import Conv2d",
        "from .. import nn",
        "from intertwine import errors, nn",
        "import intertwine.nn as layers",
        "def f():\n    from ..nn import Conv2d",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..nn import Conv2d",
        "import importlib\nimportlib.import_module('intertwine.nn')",
        "from importlib import import_module\nimport_module('..nn', __package__)",
    ],
)
def test_an_import_that_climbs_is_reported_however_it_is_written(tmp_path: Path, text: str) -> None:
    check_planted(tmp_path, "spaces/_a.py", text, "spaces (floor 2) imports nn (floor 5): imports go down only")


@pytest.mark.parametrize(
    ("file", "text", "floors"),
    [
        ("errors.py", "from ._numerics import X\nfrom .groups import Y", "errors (floor 0) imports groups (floor 1)"),
        ("_numerics.py", "from . import groups", "_numerics (floor 0) imports groups (floor 1)"),
        ("_views.py", "from .cli import X", "_views (floor 0) imports cli (floor 13)"),
        ("measure/_a.py", "from ..report import X", "measure (floor 4) imports report (floor 12)"),
        ("groups/__init__.py", "from ..kernels import X", "groups (floor 1) imports kernels (floor 3)"),
        ("spaces/deep/_a.py", "from ...nn import X", "spaces (floor 2) imports nn (floor 5)"),
        ("nn/_a.py", "from ..testing import X", "nn (floor 5) imports testing (floor 7)"),
        ("measure/_a.py", "from ..nn import X", "measure (floor 4) imports nn (floor 5)"),
        ("data/_a.py", "from ..relaxed import X", "data (floor 4) imports relaxed (floor 6)"),
        ("nn/_a.py", "from ..relaxed import X", "nn (floor 5) imports relaxed (floor 6)"),
        ("testing.py", "from .models import X", "testing (floor 7) imports models (floor 8)"),
        ("models/_a.py", "from ..train import X", "models (floor 8) imports train (floor 9)"),
        ("report/_a.py", "from ..cli import X", "report (floor 12) imports cli (floor 13)"),
    ],
)
def test_no_floor_imports_a_higher_one(tmp_path: Path, file: str, text: str, floors: str) -> None:
    check_planted(tmp_path, file, text, f"{floors}: imports go down only")


@pytest.mark.parametrize(
    ("file", "text", "floors"),
    [
        ("measure/_a.py", "from ..data import X", "measure (floor 4) imports data (floor 4)"),
        ("relaxed/_a.py", "from ..topographic import X", "relaxed (floor 6) imports topographic (floor 6)"),
        ("discovery/_a.py", "from ..experiments import X", "discovery (floor 10) imports experiments (floor 10)"),
    ],
)
def test_rooms_of_one_floor_do_not_import_each_other(tmp_path: Path, file: str, text: str, floors: str) -> None:
    check_planted(tmp_path, file, text, f"{floors}: rooms of one floor do not import each other")


def test_training_knows_no_model(tmp_path: Path) -> None:
    message = "train (floor 9) imports models (floor 8): it must work with any"
    check_planted(tmp_path, "train/_a.py", "from ..models import VGG11", message)


@pytest.mark.parametrize(
    "text",
    [
        "from intertwine.groups._finite import X",
        "from ..groups._finite import X",
        "from ..groups import FiniteGroup, _finite",
        "import intertwine.groups._finite as finite",
        "def f():\n    from ..groups._finite import X",
    ],
)
def test_reaching_behind_a_face_is_reported(tmp_path: Path, text: str) -> None:
    message = "spaces (floor 2) imports groups._finite (floor 1) behind its face: import from intertwine.groups"
    check_planted(tmp_path, "spaces/_a.py", text, message)


@pytest.mark.parametrize(
    ("text", "name", "face"),
    [
        ("from ..measure.surgery._merge import X", "surgery._merge", "measure.surgery"),
        ("from ..measure.surgery import _merge", "surgery._merge", "measure.surgery"),
        ("from ..measure.matching import match", "matching", "measure"),
        ("from ..measure.load._onnx import X", "load._onnx", "measure"),
    ],
)
def test_reaching_behind_a_sub_package_is_reported(tmp_path: Path, text: str, name: str, face: str) -> None:
    message = f"nn (floor 5) imports measure.{name} (floor 4) behind its face: import from intertwine.{face}"
    check_planted(tmp_path, "nn/_a.py", text, message)


def test_every_public_sub_package_has_an_api_page() -> None:
    pages = (SOURCE.parents[1] / "docs" / "api").glob("*.*.md")
    assert {page.stem for page in pages} == FACES


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("from ._grid import *", "spaces (floor 2)"),
        ("from ..groups import *", "groups (floor 1)"),
        ("from math import *", "math"),
    ],
)
def test_a_star_is_reported(tmp_path: Path, text: str, source: str) -> None:
    check_planted(tmp_path, "spaces/_a.py", text, f"spaces (floor 2) imports * from {source}: name what is used")


@pytest.mark.parametrize(
    "text",
    [
        "import torch.nn as nn",
        "from torch import Tensor, nn",
        "from torch.nn.functional import pad",
        "import torch as t\n\npad = t.nn.functional.pad",
    ],
)
@pytest.mark.parametrize("room", MATHEMATICS)
def test_layers_in_the_mathematics_are_reported(tmp_path: Path, room: str, text: str) -> None:
    message = "imports torch.nn, which belongs to nn (floor 5): mathematics has no layers"
    check_planted(tmp_path, f"{room}/_a.py", text, f"{room} (floor {FLOOR[room]}) {message}")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("import intertwine as tw", "__init__ (floor 14), from which every floor is reached: import a room of it"),
        (
            "import intertwine.groups",
            "intertwine.groups and with it binds __init__ (floor 14), from which every floor is reached: "
            "write from intertwine import groups",
        ),
        ("from ..misc import X", "misc, which has no floor"),
        ("from .. import misc", "misc, which has no floor"),
    ],
)
def test_a_way_around_the_plan_is_reported(tmp_path: Path, text: str, what: str) -> None:
    check_planted(tmp_path, "kernels/_a.py", text, f"kernels (floor 3) imports {what}")


def test_a_room_outside_the_plan_is_reported(tmp_path: Path) -> None:
    message = "misc has no floor; give it one in FLOORS and in docs/architecture.md"
    check_planted(tmp_path, "misc/_a.py", "x = 1", message)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("spaces/_a.py", "from ..groups import FiniteGroup\nfrom .. import groups"),
        ("spaces/_a.py", "from intertwine.errors import InputError"),
        ("spaces/_a.py", "from ._homogeneous import _private\nfrom . import _grid"),
        ("groups/_a.py", "import torch\nfrom torch import Tensor\nfrom .._numerics import LAW_TOLERANCE"),
        ("_numerics.py", "from .errors import SizeLimitError"),
        ("nn/_a.py", "import torch.nn as nn\nimport torch\nx = torch.nn.Parameter\nfrom ..kernels import solve"),
        ("cli/_app.py", "from .. import __version__\nfrom .. import report"),
        ("testing/_laws.py", "from ..nn import Layer"),
        ("nn/_a.py", "from ..measure.surgery import tie\nfrom ..measure import surgery"),
        ("__init__.py", "from . import groups as groups\nfrom . import cli as cli"),
        ("__main__.py", "from .cli import main"),
    ],
)
def test_what_is_allowed_passes(tmp_path: Path, file: str, text: str) -> None:
    assert plant(tmp_path, file, text) == []


def test_a_listed_pair_may_go_sideways_in_its_direction_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SIDEWAYS", frozenset({("relaxed", "nn")}))
    assert plant(tmp_path, "relaxed/_a.py", "from ..nn import Layer") == []
    assert len(plant(tmp_path, "nn/_a.py", "from ..relaxed import X")) == 1


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("measure/graph/_a.py", "from ..surgery._merge import X", "measure.graph imports measure.surgery"),
        ("measure/graph/_a.py", "from ...measure.surgery import X", "measure.graph imports measure.surgery"),
        ("measure/graph/_a.py", "from .. import surgery", "measure.graph imports measure.surgery"),
        ("measure/graph/__init__.py", "def f():\n    from ..load import X", "measure.graph imports measure.load"),
        ("measure/_a.py", "from .metrics._invariance import X", "measure.(top) imports measure.metrics"),
    ],
)
def test_no_sub_package_imports_a_later_one(tmp_path: Path, file: str, text: str, message: str) -> None:
    check_planted(tmp_path, file, text, f"{message}: inside measure, imports go down only")


def test_the_inside_of_a_room_does_not_use_its_face(tmp_path: Path) -> None:
    message = "measure.load imports Symmetry from the face of its room: import from the file that defines it"
    check_planted(tmp_path, "measure/load/_a.py", "from .. import Symmetry", message)


def test_a_sub_package_outside_the_plan_is_reported(tmp_path: Path) -> None:
    message = "measure.misc has no place; give it one in INSIDE and in the docstring of measure"
    check_planted(tmp_path, "measure/misc/_a.py", "import math", message)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("measure/surgery/_a.py", "from ..graph._permute import X\nfrom .._batches import Y\nfrom ._merge import Z"),
        ("measure/surgery/_a.py", "from .. import _batches\nfrom ..graph import _permute"),
        ("measure/__init__.py", "from .audits import audit as audit\nfrom ._symmetry import Symmetry as Symmetry"),
    ],
)
def test_what_is_allowed_inside_a_room_passes(tmp_path: Path, file: str, text: str) -> None:
    assert plant(tmp_path, file, text) == []


@pytest.mark.parametrize("room", INSIDE)
def test_every_sub_package_is_listed_in_order(room: str) -> None:
    tree = ast.parse((SOURCE / room / "__init__.py").read_text(encoding="utf-8"))
    words = [line.split()[0] for line in (ast.get_docstring(tree) or "").splitlines() if line.startswith("    ")]
    words = [word for word in words if not (SOURCE / room / f"_{word.rstrip(',')}.py").exists()]  # lines about files
    there = {path.parent.name for path in (SOURCE / room).glob("*/__init__.py")}
    assert words == [name for name in INSIDE[room] if name != TOP]
    assert set(words) == there


def check_planted(folder: Path, file: str, text: str, message: str) -> None:
    assert plant(folder, file, text) == [f"{PACKAGE}/{file}:{text.count(chr(10)) + 1}: {message}"]


def plant(folder: Path, file: str, text: str) -> list[str]:
    path = folder / PACKAGE / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return violations(folder / PACKAGE)


def second_exports(source: Path) -> list[str]:
    """Public names that a sub-package exports beside its room. A name is exported once, by the face of its room."""
    exports = []
    for file in sorted(source.glob("*/*/__init__.py")):
        package = ".".join(file.parent.relative_to(source).parts)
        nodes = ast.parse(file.read_text(encoding="utf-8")).body
        imported = [alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names]
        if package not in FACES:
            exports += [f"{package} exports {name}" for name in imported if not name.startswith("_")]
    return exports


def test_a_public_name_is_exported_once(tmp_path: Path) -> None:
    assert second_exports(SOURCE) == []
    for package, text in {
        "nn/linear": "from ._conv2d import Conv2d as Conv2d",
        "report/audit": "from . import _views as _views  # registers them",
        "measure/metrics": "from ._lie import lie_derivative as lie_derivative",  # a face of its own
    }.items():
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "__init__.py").write_text(text)
    assert second_exports(tmp_path) == ["nn.linear exports Conv2d"]
