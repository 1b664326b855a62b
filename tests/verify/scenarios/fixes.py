"""What the fixes of the planted causes gain, tried from the command line, in one table.

    python -m tests.verify.scenarios.fixes DIR [--only NAME...] [--json FILE]

DIR is where ``tests.verify.scenarios.run --keep DIR`` left its runs, moved nowhere since. The best
fix that answers the planted cause is tried by pairs of runs, about two minutes for each training.
Trainings that FILE has a line of are not tried again."""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.described import described
from tests.verify.scenarios.expected import read_training
from tests.verify.scenarios.run import TRAININGS


def perftui(*words: str, cwd: Path) -> tuple[int, Any]:
    """Exit code and JSON of a command."""
    ended = subprocess.run(
        [sys.executable, "-m", "perftui_tui", *words, "--json"],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        return ended.returncode, described(words[0], ended.stdout)
    except json.JSONDecodeError:
        return ended.returncode, (ended.stderr.strip().splitlines() or [""])[-1]


def fix_of(report: dict[str, Any], rules: frozenset[str]) -> str | None:
    """The best fix that answers one of ``rules`` and can be tried."""
    for fix in report["fixes"]:
        is_triable = fix["override"] is not None or fix["diff"] is not None
        if is_triable and not rules.isdisjoint(fix["answers"]):
            return str(fix["fix"])
    return None


def tried(name: str, directory: Path) -> dict[str, Any] | None:
    """The outcome of the fix of the scenario ``name``; None where no fix can be tried."""
    expected = read_training(TRAININGS / f"{name}.py").expected
    runs = sorted((directory / ".perftui" / "runs").glob("*/run.json"))
    if not runs:
        return None
    root = str(runs[-1].parent)
    _, report = perftui("report", root, cwd=directory)
    fix = fix_of(report, frozenset(expected.rules)) if isinstance(report, dict) else None
    if fix is None:
        return None
    code, told = perftui("try", fix, root, cwd=directory)
    if not isinstance(told, dict):
        return {"name": name, "fix": fix, "code": code, "headline": told}
    row = {key: told[key] for key in ("outcome", "headline", "ratio", "low", "high", "losses")}
    return {"name": name, "fix": fix, "code": code, **row, "pairs": len(told["pairs"])}


def main() -> None:
    """Try them, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", nargs="+", default=[], help="names, or parts of them")
    parser.add_argument("--json", type=Path, help="append rows to this file, one a line")
    given = parser.parse_args()
    lines = given.json.read_text().splitlines() if given.json and given.json.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {row["name"] for row in rows}
    for directory in sorted(path for path in given.directory.iterdir() if path.is_dir()):
        name = directory.name
        if name in done or (given.only and not any(part in name for part in given.only)):
            continue
        row = tried(name, directory)
        if row is None:
            continue
        rows.append(row)
        print(f"{name:<36} {row['fix']:<20} {row['headline']}", flush=True)
        if given.json:
            with given.json.open("a") as file:
                file.write(json.dumps(row) + "\n")
    proven = [row for row in rows if row.get("outcome") == "faster"]
    print(f"{len(rows)} fixes tried, {len(proven)} of them faster with an interval that excludes 1")


if __name__ == "__main__":
    main()
