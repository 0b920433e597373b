"""What does importing intertwine cost beyond importing torch?

Each statement runs in fresh processes, right after one that only imports torch: other work on the machine changes the
speed from second to second, and neighbors share it. The figures are medians of CPU seconds. They are taken twice: with
bytecode, as after an installation, and without it, where Python compiles each of our source files. Run as ``python
benchmarks/import_time.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import intertwine

STATEMENTS = {
    "nothing": "pass",
    "intertwine": "import intertwine",
    "intertwine --help": "from intertwine.cli import main; main(['--help'])",
    "intertwine list layers": "from intertwine.cli import main; main(['list', 'layers'])",
    "torch": "import torch",
    "torch and the mathematics": "import torch, intertwine.groups, intertwine.spaces, intertwine.kernels",
    "torch and the layers": "import torch, intertwine.nn",
}
ROOMS = ("measure", "data", "nn", "relaxed", "topographic", "testing", "models", "train", "experiments", "report")
PARTS = {room: f"import torch, intertwine.{room}" for room in ROOMS} | {
    "the page of an audit": "import torch; from intertwine.report import write_audit_page",
    "the page of an experiment": "import torch; from intertwine.report import write_experiment_page",
    "all experiments": "import torch; from intertwine.experiments import experiments; experiments()",
}
PEERS = {"e3nn.o3": "import e3nn.o3", "escnn": "import escnn"}
_BYTECODE = shutil.ignore_patterns("__pycache__")
GOAL, ROOM_GOAL, LAYERS_GOAL = 0.3, 0.4, 1.1


def cpu_seconds(statement: str, environment: dict[str, str]) -> float:
    """CPU seconds of a fresh process that runs a statement."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


Rounds = list[tuple[float, float]]
"""CPU seconds of torch alone and of a statement, once per round."""


def measured(environment: dict[str, str], repeats: int) -> dict[str, Rounds]:
    """The rounds of each statement, interleaved."""
    installed = {name: text for name, text in PEERS.items() if find_spec(name.split(".")[0])}
    statements = {**STATEMENTS, **PARTS, **installed}
    for statement in statements.values():  # fills the file cache and, if allowed, writes the bytecode
        cpu_seconds(statement, environment)
    rounds: dict[str, Rounds] = {name: [] for name in statements}
    for _ in range(repeats):
        for name, statement in statements.items():
            rounds[name].append((cpu_seconds("import torch", environment), cpu_seconds(statement, environment)))
    return rounds


def summary(rounds: dict[str, Rounds]) -> dict[str, Any]:
    """Medians over rounds."""

    def beyond_torch(name: str) -> float:
        return statistics.median(seconds - torch for torch, seconds in rounds[name])

    def over_torch(name: str) -> float:
        return statistics.median(seconds / torch for torch, seconds in rounds[name])

    return {
        "cpu_seconds": {
            name: statistics.median(seconds for _, seconds in rounds[name]) for name in rounds if name not in PARTS
        },
        "beyond_torch_seconds": beyond_torch("torch and the mathematics"),
        "beyond_torch_ratio": over_torch("torch and the mathematics"),
        "over_torch": {name: over_torch(name) for name in ("torch and the layers", *PEERS) if name in rounds},
        "rooms_beyond_torch_seconds": {name: beyond_torch(name) for name in ("intertwine list layers", *PARTS)},
    }


def show(title: str, result: dict[str, Any]) -> None:
    """Print one summary."""
    print(title)
    for name, seconds in result["cpu_seconds"].items():
        print(f"  {name:<28}{seconds:6.3f}")
    extra, ratio = result["beyond_torch_seconds"], result["beyond_torch_ratio"]
    print(f"  the mathematics beyond torch: {extra:+.3f} s, ratio {ratio:.2f} (goal: less than {GOAL} s)")
    for name, value in result["over_torch"].items():
        print(f"  {name} over torch: {value:.2f}{f' (goal: at most {LAYERS_GOAL})' * ('layers' in name)}")
    print(f"  seconds beyond torch (goal: at most {ROOM_GOAL} per room)")
    for name, seconds in result["rooms_beyond_torch_seconds"].items():
        print(f"    {name:<26}{seconds:+6.3f}")


def main() -> None:
    """Measure, print, and write the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "import_time.json")
    options = parser.parse_args()

    with TemporaryDirectory() as folder:  # a copy, because the installed package has bytecode or cannot write any
        shutil.copytree(Path(intertwine.__file__).parent, Path(folder, "intertwine"), ignore=_BYTECODE)
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
        without = summary(measured({**environment, "PYTHONDONTWRITEBYTECODE": "1"}, options.repeats))
        with_bytecode = summary(measured(environment, options.repeats))
    print(f"CPU seconds, median of {options.repeats} runs in fresh processes")
    show("with bytecode", with_bytecode)
    show("without bytecode", without)
    result = {
        "question": __doc__.splitlines()[0],
        "python": platform.python_version(),
        "repeats": options.repeats,
        "goal_seconds": GOAL,
        **with_bytecode,
        "without_bytecode": without,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
