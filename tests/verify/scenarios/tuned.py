"""Whether tuning finds both of two planted causes, and what is left to the script mended by hand.

    python -m tests.verify.scenarios.tuned [--only NAME...] [--keep DIR]

Runs every file of ``two_causes`` under ``perftui diagnose`` and ``perftui tune``, and holds the
result against the same file with what its comments ``# fixed:`` say: the text in place of the line
below, or nothing. About ten minutes for each."""

import argparse
import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perftui.experiments.rerun import repeat_launch
from perftui.experiments.trial import paired_runs
from perftui.experiments.trial_runs import Progress, TrialSetup, facts_of, run_at, steps_of_each
from perftui.recorder.launch import Launch
from tests.described import described
from tests.verify.scenarios.expected import mended, without_marks

TRAININGS = Path(__file__).parent / "two_causes"
STEPS = 300


def fixes_of(source: str) -> tuple[tuple[str, ...], ...]:
    """The fixes that ought to be kept; of each tuple one."""
    found = re.search(r"^fixes: (.*)$", source, re.MULTILINE)
    return tuple(tuple(one.split(" or ")) for one in found[1].split(", ")) if found else ()


def perftui(*words: str, cwd: Path) -> Any:
    """The JSON of a command; what it says on the way is shown."""
    ended = subprocess.run(
        [sys.executable, "-m", "perftui_tui", *words], cwd=cwd, stdout=subprocess.PIPE, check=False
    )
    return described(words[0], ended.stdout.decode())


def against_hand(root: Path, base: Path, fixed: Path) -> Progress:
    """The tuned training held against the one that was mended by hand: above 1 where tuning is
    slower."""
    tuned = repeat_launch(run_at(base))
    words = (*tuned.command[:-1], str(fixed))
    by_hand = Launch(words, tuned.cwd, tuned.runs, options=tuned.options)
    steps = steps_of_each(facts_of(root))
    made = paired_runs(
        tuned, by_hand, TrialSetup(root.parent / "by-hand", steps, threading.Event())
    )
    return list(made)[-1]


def tuned(training: Path, directory: Path) -> str:
    """What tuning comes to, in a line."""
    source = training.read_text()
    script, fixed = directory / "train.py", directory / "fixed.py"
    script.write_text(without_marks(source))
    fixed.write_text(mended(source))
    perftui("diagnose", "--json", "--max-steps", str(STEPS), script.name, cwd=directory)
    (root,) = (directory / ".perftui" / "runs").iterdir()
    told = perftui("tune", "--json", str(root), cwd=directory)
    kept = [one["fix"] for one in told["kept"]]
    missing = [" or ".join(one) for one in fixes_of(source) if not set(one) & set(kept)]
    left = against_hand(root, Path(told["base"]), fixed).verdict.headline
    lacks = f"; not found: {', '.join(missing)}" if missing else ""
    return f"{told['headline']} by {', '.join(kept) or 'nothing'}{lacks}; by hand: {left}"


@contextlib.contextmanager
def _place(keep: Path | None, name: str) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory() as directory:
            yield Path(directory)
        return
    shutil.rmtree(keep / name, ignore_errors=True)
    (keep / name).mkdir(parents=True)
    yield keep / name


def main() -> None:
    """Tune them all, and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], help="names, or parts of them")
    parser.add_argument("--keep", type=Path, help="keep scripts and runs in this directory")
    given = parser.parse_args()
    for training in sorted(TRAININGS.glob("*.py")):
        if given.only and not any(part in training.stem for part in given.only):
            continue
        with _place(given.keep, training.stem) as directory:
            print(f"{training.stem}: {tuned(training, directory)}", flush=True)


if __name__ == "__main__":
    main()
