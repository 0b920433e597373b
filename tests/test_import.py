"""What importing the package costs, what it offers, and what it declares to need."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import intertwine

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "intertwine"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Where the import package is not named like its distribution.
DISTRIBUTIONS = {"PIL": "pillow", "yaml": "pyyaml", "lightning_fabric": "lightning-fabric"}
HEAVY = ("torch", "numpy", "scipy", "matplotlib", "sympy", "safetensors", "typer", "rich", "e3nn", "hypothesis")


def imported(statement: str, *, after: str = "pass") -> set[str]:
    """The modules that ``statement`` imports in a fresh process that has already run ``after``."""
    code = (
        f"import sys; {after}; before = set(sys.modules); {statement}\n"
        "import json; print(json.dumps([*sys.modules.keys() - before]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_the_probe_sees_an_import() -> None:
    assert {"json", "json.decoder"} <= imported("import json")
    assert "json" not in imported("import json", after="import json")


def test_importing_the_package_imports_nothing_heavy() -> None:
    modules = imported("import intertwine")
    assert "intertwine" in modules
    assert [name for name in HEAVY if name in modules] == []
    assert sorted(name for name in modules if name.startswith("intertwine.")) == []


# What a statement loads besides errors and private files. The goal is 0.4 CPU seconds beyond torch per room. A test
# that measured seconds would fail on a busy machine, so these tests hold what the seconds depend on: the rooms that are
# loaded, and the number of modules. benchmarks/import_time.py prints the seconds: 250 modules take about 0.4 of them
# when each one has to be compiled, and half of that otherwise.
LOADED = {
    "import intertwine.errors": "",
    "import intertwine.groups": "groups",
    "import intertwine.spaces": "groups spaces",
    "import intertwine.kernels": "groups spaces kernels",
    "import intertwine.measure": "groups spaces measure",
    "import intertwine.data": "groups spaces data",
    "import intertwine.nn": "groups spaces kernels nn",
    "import intertwine.relaxed": "groups spaces kernels nn relaxed",
    "import intertwine.topographic": "groups topographic",
    "import intertwine.testing": "groups spaces kernels nn relaxed testing",
    "import intertwine.models": "groups spaces kernels nn relaxed topographic models",
    "import intertwine.train": "train",
    "import intertwine.experiments": "train experiments",
    "import intertwine.discovery": "discovery",
    "import intertwine.demo": "demo",
    "import intertwine.report": "report",
    "from intertwine.report import write_audit_page": "groups spaces measure report",
    "from intertwine.report import kernel_figure": "groups spaces kernels report",
    "from intertwine.report import write_experiment_page": "train experiments report",
}
MAX_MODULES = 250


def test_every_room_has_a_list_of_what_it_loads() -> None:
    assert {f"import intertwine.{room}" for room in intertwine._ROOMS} <= set(LOADED)


FORKING = """
import json, os, sys, traceback, warnings
import torch
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # of fork; torch has threads
before = set(sys.modules)
for statement in sys.argv[1:]:
    child = os.fork()
    if not child:
        status = 1
        try:
            exec(statement)
            print(json.dumps([*sys.modules.keys() - before]), flush=True)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
"""
COMPILER = "import torch._dynamo"
USE_OF_DATA = "import intertwine.data as d; d.load('digits'); d.names()"


@cache
def imported_beyond_torch(*statements: str) -> dict[str, set[str]]:
    """What each statement adds to torch: a process that has imported torch is forked for each."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORKING, *statements],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(statements, (set(json.loads(line)) for line in done.stdout.splitlines()), strict=True))


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@needs_fork
@pytest.mark.whole
def test_the_forked_probe_sees_the_compiler() -> None:
    assert "torch._dynamo" in imported_beyond_torch(COMPILER)[COMPILER]


@needs_fork
@pytest.mark.parametrize("statement", LOADED)
def test_a_room_loads_nothing_that_it_does_not_need(statement: str) -> None:
    """The compiler of torch alone takes two CPU seconds."""
    modules = imported_beyond_torch(*LOADED, USE_OF_DATA)[statement]
    rooms = {name.split(".")[1] for name in modules if name.startswith("intertwine.")}
    assert rooms & set(intertwine._ROOMS) | {"errors"} == {"errors", *LOADED[statement].split()}
    assert [name for name in (*HEAVY, "torch._dynamo", "torch._inductor", "torch.onnx") if name in modules] == []
    assert len(modules) <= MAX_MODULES


@needs_fork
def test_training_loads_no_logger_and_no_compiler() -> None:
    heavy = ("lightning_fabric", "tensorboard", "rich", "yaml", "safetensors", "torch._dynamo", "scipy", "sympy")
    modules = imported_beyond_torch(*LOADED, USE_OF_DATA)["import intertwine.train"]
    assert [name for name in heavy if name in modules] == []


@needs_fork
def test_loading_data_is_light() -> None:
    modules = imported_beyond_torch(*LOADED, USE_OF_DATA)[USE_OF_DATA]
    assert "intertwine.data.catalog._load" in modules
    heavy = ("PIL", "rich", "torchvision", "scipy", "matplotlib", "safetensors")
    assert [name for name in modules if name.split(".")[0] in heavy] == []


COLLECTIONS = """
import gc, sys, torch
def note(phase, info):
    if "intertwine.nn._layer" in sys.modules and "intertwine.nn.types" not in sys.modules:  # of the first, of the last
        during.append(info)
during = []
gc.callbacks.append(note)
{before}
import intertwine.nn
print(len(during) > 0, gc.isenabled())
"""


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", "False True"),
        ("gc.disable()", "False False"),
        ("gc.disable = lambda: None", "True True"),  # the probe sees collections
    ],
)
@pytest.mark.usefixtures("forked_children")
def test_layers_are_imported_without_garbage_collections(before: str, expected: str) -> None:
    """A full one would look at every object of torch, which takes as long as the import."""
    code = COLLECTIONS.format(before=before)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == expected


@pytest.mark.parametrize("room", ["demo", "discovery", "experiments", "report"])
def test_a_lazy_room_offers_its_names(room: str) -> None:
    """What type checkers see, ``dir`` lists and attributes return."""
    module = getattr(intertwine, room)
    tree = ast.parse((SOURCE / room / "__init__.py").read_text(encoding="utf-8"))
    names = [alias.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    public = [name for name in names if name is not None]
    assert len(public) > 5
    assert set(public) <= set(dir(module))
    for name in public:
        assert getattr(module, name) is getattr(module, name)
    helpers = {"TYPE_CHECKING", "lazy_face"}
    assert {name for name in dir(module) if not name.startswith("_")} & helpers == set()
    with pytest.raises(AttributeError, match=f"module 'intertwine.{room}' has no attribute 'nothing'"):
        _ = module.nothing


@pytest.mark.usefixtures("forked_children")
def test_a_room_arrives_when_it_is_used() -> None:
    modules = imported("import intertwine as tw; tw.groups")
    assert "intertwine.groups" in modules
    assert "intertwine.kernels" not in modules


def test_every_room_is_offered_and_importable() -> None:
    # The command line is a program, not an interface for Python; private files are not for users.
    there = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    offered = {name for name in there if not name.startswith("_")} - {"cli"}
    assert set(intertwine._ROOMS) == offered
    assert offered <= set(dir(intertwine))
    for name in offered:
        assert getattr(intertwine, name).__name__ == f"intertwine.{name}"


def test_type_checkers_see_the_same_rooms() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    names = [alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert names == [*intertwine._ROOMS, *intertwine._FUNCTIONS]


@pytest.mark.usefixtures("forked_children")
def test_a_function_is_offered_beside_the_rooms() -> None:
    """``tw.discover`` stays the function when the room that defines it is imported."""
    statement = "import intertwine as tw, intertwine.discovery; assert tw.discover is tw.discovery.discover"
    assert "intertwine.discovery" in imported(statement)
    assert set(intertwine._FUNCTIONS) <= set(dir(intertwine))


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'intertwine' has no attribute 'nothing'"):
        _ = intertwine.nothing


def test_every_file_of_the_package_is_in_the_wheel() -> None:
    """Builders leave out what .gitignore names, such as a sub-package called like a folder of results."""
    from hatchling.builders.wheel import WheelBuilder

    packed = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    files = {path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    sources = {path.relative_to(SOURCE.parent).as_posix() for path in files}
    assert {"intertwine/report/templates/page.html", "intertwine/data/named/digits.npz"} <= sources
    assert sources - packed == set()


@pytest.mark.whole
def test_the_wheel_is_self_contained(tmp_path: Path) -> None:
    """Built, unpacked, and used from an empty folder: embedded data, kept results, templates and the command."""
    from hatchling.builders.wheel import WheelBuilder

    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path / "dist"), versions=["standard"])
    assert Path(wheel).name == f"intertwine-{intertwine.__version__}-py3-none-any.whl"
    site, empty = tmp_path / "site", tmp_path / "empty"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    empty.mkdir()
    statement = "import intertwine; print(intertwine.__file__)"
    audit = "audit intertwine.models:plain_cnn --arg channels=1 --arg classes=10 --data digits --images 20 --out audit"
    commands = ["-m intertwine experiment show nbody", "-m intertwine list models", f"-m intertwine {audit}"]
    outputs = [
        subprocess.run(
            [sys.executable, *words],
            cwd=empty,
            env={**os.environ, "PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        ).stdout
        for words in (["-c", statement], *(command.split() for command in commands))
    ]
    assert Path(outputs[0].strip()) == site / "intertwine" / "__init__.py"
    assert "results that come with the package" in outputs[1]
    assert "resnet18" in outputs[2]
    assert (empty / "audit" / "audit.html").is_file()


def test_the_version_is_written_once_and_has_a_changelog_entry() -> None:
    assert "version" not in PROJECT
    assert "version" in PROJECT["dynamic"]
    assert f"## [{intertwine.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def third_party(folder: Path) -> set[str]:
    """Top-level names of all packages that the files below ``folder`` import and that Python does not bring."""
    packages: set[str] = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                packages |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                packages.add(node.module.split(".")[0])
    return packages - set(sys.stdlib_module_names) - {"intertwine"}


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def test_what_is_imported_is_declared_and_the_other_way_round() -> None:
    core = names(PROJECT["dependencies"])
    extras = names(
        [text for extra, texts in PROJECT["optional-dependencies"].items() if extra != "dev" for text in texts]
    )
    used = {DISTRIBUTIONS.get(name, name) for name in third_party(SOURCE)}
    assert used - core - extras == set(), "imported, but declared neither in the core nor in an extra"
    assert core - used == set(), "declared in the core, but imported nowhere"


def test_the_reader_of_imports_finds_undeclared_ones(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os, torch.nn\ndef f():\n    from pandas.core import x\nfrom . import y\n")
    assert third_party(tmp_path) == {"torch", "pandas"}


def closure(requirements: list[str]) -> set[str]:
    """Names of everything that installing ``requirements`` installs, read from what is installed here."""
    names: set[str] = set()
    todo = list(requirements)
    while todo:
        requirement = Requirement(todo.pop())
        name = canonicalize_name(requirement.name)
        if name in names or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        try:
            todo += requires(name) or []
        except PackageNotFoundError:
            continue  # an extra that is not installed here
        names.add(name)
    return names


def test_the_tested_set_is_pinned_completely() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)] == []
    assert "torch==2.13.0" in pins
    extras = [text for texts in PROJECT["optional-dependencies"].values() for text in texts]
    wanted = closure([*PROJECT["dependencies"], *extras, "hatchling", "editables"])
    assert "mpmath" in wanted, "an indirect requirement: the closure must reach it"
    # What builds of torch for accelerators bring along is pinned by torch itself.
    wanted = {name for name in wanted if not name.startswith(("cuda-", "nvidia-", "triton"))}
    assert wanted - names(pins) == set()
