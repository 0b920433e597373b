"""What does importing intertwine cost beyond importing torch?

Each statement runs in fresh processes. The runs are interleaved and counted in CPU seconds, so that other work on
the machine disturbs all of them alike; the figures are medians. Run as ``python benchmarks/import_time.py``.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

STATEMENTS = {
    "nothing": "pass",
    "intertwine": "import intertwine",
    "intertwine --help": "from intertwine.cli import main; main(['--help'])",
    "torch": "import torch",
    "torch and the mathematics": "import torch, intertwine.groups, intertwine.spaces, intertwine.kernels",
    "torch and the layers": "import torch, intertwine.nn",
}
PEERS = {"e3nn.o3": "import e3nn.o3", "escnn": "import escnn"}
GOAL, LAYERS_GOAL = 0.3, 1.1


def cpu_seconds(statement: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "import_time.json")
    options = parser.parse_args()

    statements = STATEMENTS | {name: text for name, text in PEERS.items() if find_spec(name.partition(".")[0])}
    for statement in statements.values():  # fills the file cache and writes the bytecode
        cpu_seconds(statement)
    runs = [{name: cpu_seconds(text) for name, text in statements.items()} for _ in range(options.repeats)]

    medians = {name: statistics.median(run[name] for run in runs) for name in statements}
    to_torch = {
        name: statistics.median(run[name] / run["torch"] for run in runs)
        for name in ("torch and the layers", *(name for name in PEERS if name in statements))
    }
    pairs = [(run["torch"], run["torch and the mathematics"]) for run in runs]
    ratio = statistics.median(with_it / without for without, with_it in pairs)
    extra = statistics.median(with_it - without for without, with_it in pairs)

    print(f"CPU seconds, median of {options.repeats} interleaved runs in fresh processes")
    for name, seconds in medians.items():
        print(f"  {name:<28}{seconds:6.3f}")
    print(f"the mathematics beyond torch: {extra:+.3f} s, ratio {ratio:.2f} (goal: less than {GOAL} s)")
    for name, value in to_torch.items():
        goal = f" (goal: at most {LAYERS_GOAL})" if "layers" in name else ""
        print(f"{name} over torch: {value:.2f}{goal}")

    result = {
        "question": __doc__.splitlines()[0],
        "python": platform.python_version(),
        "repeats": options.repeats,
        "cpu_seconds": medians,
        "beyond_torch_seconds": extra,
        "beyond_torch_ratio": ratio,
        "goal_seconds": GOAL,
        "over_torch": to_torch,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
