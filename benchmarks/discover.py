"""How often does ``tw.discover`` give the correct verdict on data whose symmetries are known?

Run as ``python benchmarks/discover.py --folder FOLDER [--row NAME ...] [--seeds 5] [--budget SECONDS]``. Each row is a
dataset with a known answer, generated from a seed. For every row and seed, the verdicts are compared with the truth:
the share of correct verdicts, the share of false ``impose`` (imposing invariance where there is none, or anything where
nothing can be known), and the CPU time. Finished rows are read back from the folder, and training runs continue from
their checkpoints: run the same command again after an interruption.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from _timing import write_result

import intertwine as tw

IMPOSE = ("impose invariant", "impose local")
NOT_INVARIANT = ("impose local", "relax relaxed", "leave free")
LEAVE = ("leave free",)
OPEN = ("can't tell",)

# Dataset → candidate → verdicts that are correct. "local" imposes equivariance in the layers only, which labels that
# depend on the orientation allow. Upright digits are no mirror images of others, except a few that are.
TRUTH: dict[str, dict[str, tuple[str, ...]]] = {
    "digits": {"vflip": NOT_INVARIANT, "c2": NOT_INVARIANT, "c4": NOT_INVARIANT, "d4": NOT_INVARIANT},
    "digits-turned": {"c2": IMPOSE, "c4": IMPOSE},
    "digits-rotated": {"c4": IMPOSE, "rotation": IMPOSE},
    "digits-mirrored": {"hflip": IMPOSE, "c4": NOT_INVARIANT},
    "digits6-180": {"c2": NOT_INVARIANT},
    "ising": {"hflip": IMPOSE, "d4": IMPOSE, "shifts": IMPOSE, "negative": IMPOSE},
    "tic-tac-toe": {"hflip": IMPOSE, "c4": IMPOSE, "d4": IMPOSE},
    "tic-tac-toe-corner": {"transpose": IMPOSE, "hflip": NOT_INVARIANT, "c4": NOT_INVARIANT, "d4": NOT_INVARIANT},
    "bars-by-color": {"colors": LEAVE, "hflip": IMPOSE},
    "bars-by-direction": {"colors": IMPOSE, "c4": NOT_INVARIANT},
    "digits-shuffled": {"hflip": OPEN, "c4": OPEN},
    "digits-few": {"hflip": OPEN, "c4": OPEN},
}


def is_false_impose(verdict: str, truth: tuple[str, ...]) -> bool:
    """Imposing although the truth does not allow it; ``local`` counts only where nothing can be known."""
    return verdict.startswith("impose") and verdict not in truth


def judged(row: str, seed: int, folder: Path, budget: float | None) -> dict[str, object]:
    """The verdicts of one row and seed, from the folder or computed now."""
    place = folder / row / f"seed-{seed}"
    path = place / "verdicts.json"
    if path.exists():
        return json.loads(path.read_text())
    options = {} if row == "digits" else {"seed": seed}
    data = tw.data.load(row, **options)
    if row == "digits":
        data = data.subset(1000, seed=seed)
    begun = time.process_time()
    result = tw.discover(data, list(TRUTH[row]), folder=place, budget=budget, name=row)
    result.save(place)
    verdicts = {
        each.symmetry: " ".join(filter(None, (each.verdict.word, each.verdict.strictness))) for each in result.findings
    }
    if not result.left_out:
        path.write_text(json.dumps({"verdicts": verdicts, "cpu_seconds": time.process_time() - begun}))
    return {"verdicts": verdicts, "cpu_seconds": time.process_time() - begun}


def main() -> None:
    """Print one line per verdict, and the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--row", action="append", choices=list(TRUTH))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=float, help="seconds per row and seed")
    options = parser.parse_args()
    lines = []
    for seed in range(options.seeds):
        for row in options.row or TRUTH:
            outcome = judged(row, seed, options.folder, options.budget)
            for name, truth in TRUTH[row].items():
                verdict = outcome["verdicts"][name]
                lines.append(
                    {
                        "row": row,
                        "seed": seed,
                        "symmetry": name,
                        "verdict": verdict,
                        "correct": verdict in truth,
                        "false_impose": is_false_impose(verdict, truth),
                    }
                )
                mark = "correct" if verdict in truth else "WRONG"
                print(f"{row:20} seed {seed}  {name:10} {verdict:18} {mark}", flush=True)
            print(f"{row:20} seed {seed}  {outcome['cpu_seconds']:.0f} CPU seconds", flush=True)
    correct = sum(line["correct"] for line in lines) / len(lines)
    false = sum(line["false_impose"] for line in lines) / len(lines)
    print(f"correct: {100 * correct:.0f} % of {len(lines)} verdicts; false impose: {100 * false:.0f} %")
    if options.row is None and options.seeds >= 5:
        write_result("discover", {"verdicts": lines, "correct": correct, "false_impose": false})


if __name__ == "__main__":
    main()
