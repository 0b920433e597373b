"""How often does ``tw.discover`` give the correct verdict on data whose symmetries are known?

Run as ``python benchmarks/discover.py --folder FOLDER [--row NAME ...] [--seeds 5] [--budget SECONDS]``. Each row is a
dataset with a known answer, generated from a seed. For every row and seed, the verdicts are compared with the truth:
the share of correct verdicts, the share of false ``impose`` (imposing invariance where there is none, or anything where
nothing can be known), and the CPU time. Finished rows are read back from the folder, and training runs continue from
their checkpoints: run the same command again after an interruption. Delete a file ``verdicts.json`` to judge its row
again, from the stored training runs.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from _timing import write_result

import intertwine as tw

IMPOSE = ("impose invariant", "impose local")
NOT_INVARIANT = ("impose local", "relax relaxed", "leave free")
RELAX = ("relax relaxed",)
LEAVE = ("leave free",)
OPEN = ("can't tell",)

# Dataset → candidate → verdicts that are correct. "local" imposes equivariance in the layers only, which labels that
# depend on the orientation allow. Upright digits are no mirror images of others, except a few that are.
TRUTH: dict[str, dict[str, tuple[str, ...]]] = {
    "digits": {"vflip": NOT_INVARIANT, "c2": NOT_INVARIANT, "c4": NOT_INVARIANT},
    "digits-turned": {"c2": IMPOSE, "c4": IMPOSE},
    "digits-rotated": {"c4": IMPOSE, "rotation": IMPOSE},
    "digits-mirrored": {"hflip": IMPOSE, "c4": NOT_INVARIANT},
    "digits-but-six": {"d4": RELAX},
    "digits6-180": {"c2": NOT_INVARIANT},
    "ising": {"d4": IMPOSE, "shifts": IMPOSE, "negative": IMPOSE},
    "tic-tac-toe": {"hflip": IMPOSE, "c4": IMPOSE, "d4": IMPOSE},
    "tic-tac-toe-corner": {"transpose": IMPOSE, "hflip": NOT_INVARIANT, "c4": NOT_INVARIANT},
    "bars-by-color": {"colors": LEAVE, "hflip": IMPOSE},
    "bars-by-direction": {"colors": IMPOSE, "c4": NOT_INVARIANT},
    "digits-shuffled": {"hflip": OPEN, "c4": OPEN},
    "digits-few": {"hflip": OPEN, "c4": OPEN},
}
JOINT = {"tic-tac-toe": "d4"}  # follows from the others, and is not asked for
IMAGES = 1000  # of the upright digits, drawn by the seed


@dataclass(frozen=True)
class Outcome:
    """The verdicts of one row and seed, and the classes that confuse an invariant network."""

    verdicts: dict[str, str]
    confused: dict[str, list[list[str]]]
    cpu_seconds: float


def is_false_impose(verdict: str, truth: tuple[str, ...]) -> bool:
    """Imposing although the truth does not allow it; ``local`` counts only where nothing can be known."""
    return verdict.startswith("impose") and verdict not in truth


def judged(row: str, seed: int, folder: Path, budget: float | None) -> Outcome:
    """The verdicts of one row and seed, from the folder or computed now."""
    place = folder / row / f"seed-{seed}"
    path = place / "verdicts.json"
    if path.exists():
        return Outcome(**json.loads(path.read_text()))
    data = tw.data.load(row).subset(IMAGES, seed=seed) if row == "digits" else tw.data.load(row, seed=seed)
    begun = time.process_time()
    candidates = [name for name in TRUTH[row] if name != JOINT.get(row)]
    result = tw.discover(data, candidates, folder=place, budget=budget, name=row)
    result.save(place)
    outcome = Outcome(
        {
            each.symmetry: " ".join(filter(None, (each.verdict.word, each.verdict.strictness)))
            for each in result.findings
        },
        {each.symmetry: [[pair.first, pair.second] for pair in each.confused] for each in result.findings},
        time.process_time() - begun,
    )
    if not result.left_out:
        path.write_text(json.dumps(vars(outcome)))
    return outcome


def lines_of(row: str, seed: int, outcome: Outcome) -> list[dict[str, object]]:
    """One line per candidate with a known answer."""
    lines = []
    for name, truth in TRUTH[row].items():
        verdict = outcome.verdicts.get(name, "not tried")
        line = {"row": row, "seed": seed, "symmetry": name, "verdict": verdict, "correct": verdict in truth}
        lines.append(line | {"false_impose": is_false_impose(verdict, truth)})
        pairs = ", ".join("/".join(pair) for pair in outcome.confused.get(name, []))
        mark = "correct" if verdict in truth else f"WRONG, expected {' or '.join(truth)}"
        print(f"{row:20} seed {seed}  {name:10} {verdict:18} {mark}{f' ({pairs})' if pairs else ''}", flush=True)
    print(f"{row:20} seed {seed}  {outcome.cpu_seconds:.0f} CPU seconds", flush=True)
    return lines


def main() -> None:
    """Print one line per verdict, and the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--row", action="append", choices=list(TRUTH))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=10, help="lower seeds were looked at while making the rules")
    parser.add_argument("--budget", type=float, help="seconds per row and seed")
    options = parser.parse_args()
    lines: list[dict[str, object]] = []
    seconds: list[float] = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for row in options.row or TRUTH:
            outcome = judged(row, seed, options.folder, options.budget)
            seconds.append(outcome.cpu_seconds)
            lines += lines_of(row, seed, outcome)
    summary = {
        "correct": sum(bool(line["correct"]) for line in lines) / len(lines),
        "false_impose": sum(bool(line["false_impose"]) for line in lines) / len(lines),
        "cpu_seconds": sum(seconds),
        "median_cpu_seconds": median(seconds),
    }
    print(
        f"correct: {100 * summary['correct']:.0f} % of {len(lines)} verdicts; "
        f"false impose: {100 * summary['false_impose']:.0f} %; {summary['cpu_seconds'] / 60:.0f} CPU minutes in all, "
        f"{min(seconds):.0f} to {max(seconds):.0f} seconds per dataset, median {summary['median_cpu_seconds']:.0f}"
    )
    if options.row is None and options.seeds >= 5:
        write_result("discover", {"verdicts": lines, **summary})


if __name__ == "__main__":
    main()
