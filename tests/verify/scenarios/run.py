"""How right the diagnosis is: trainings with planted causes, run and judged, in one table.

    python -m tests.verify.scenarios.run [--only NAME...] [--keep DIR | --judge DIR]
        [--recordings DIR]

Trains every file of ``trainings`` under perftui, judges it and every recording, and exits with 1
where the first finding is too often another than the planted cause. CONTRIBUTING.md tells how a
training says what must be found."""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.described import described
from tests.verify.scenarios.expected import Expected, Training, read_training
from tests.verify.scenarios.recordings import recordings
from tests.verify.scenarios.score import Row, failed, judge, summary, table, totals

TRAININGS = Path(__file__).parent / "trainings"
RECORDINGS = Path(__file__).parents[3].parent / "shared" / "gpu"


def train(training: Training, directory: Path, timeout: float) -> str:
    """Run it under perftui in ``directory``, quietly; why that failed, or nothing.

    ``output.log`` there has what it printed."""
    directory.mkdir(parents=True, exist_ok=True)
    script = training.path.name
    (directory / script).write_text(training.source)
    launched = ("--", *training.launcher, script) if training.launcher else (script,)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    with (directory / "output.log").open("wb") as output:
        process = subprocess.Popen(
            (sys.executable, "-m", "perftui_tui", "--headless", *launched),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "PATH": path, "PERFTUI_CACHE": "off"},
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            # It ends the training, which is in a process group of its own.
            process.terminate()
            process.wait()
            return f"ended after {timeout:.0f} s"
    return "" if code == 0 else f"exit code {code}, see {directory / 'output.log'}"


def report_of(path: Path) -> str:
    """What ``perftui report --json`` prints for ``path``, or its error and exit code."""
    command = [sys.executable, "-m", "perftui_tui", "report", "--json", str(path)]
    environment = {**os.environ, "PERFTUI_CACHE": "off"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    return done.stdout if done.returncode == 0 else f"exit {done.returncode}\n{done.stderr}"


def judge_run(expected: Expected, run: Path) -> Row:
    """What the report says of the run or trace in ``run``."""
    printed = report_of(run)
    try:
        return judge(described("report", printed), expected)
    except json.JSONDecodeError:
        lines = printed.strip().splitlines()
        return failed(expected, f"{lines[0]}: {lines[-1]}" if lines else "no report")


def judge_training(training: Training, directory: Path) -> Row:
    """What the report says of the newest run of a training in ``directory``."""
    runs = sorted((directory / ".perftui" / "runs").glob("*/run.json"))
    if not runs:
        return failed(training.expected, "no run")
    return judge_run(training.expected, runs[-1].parent)


def trained(trainings: Sequence[Training], directory: Path, timeout: float) -> Iterator[Row]:
    """Each training's row as it has ended, told on stderr."""
    for training in trainings:
        started = time.monotonic()
        where = directory / training.expected.name
        error = train(training, where, timeout)
        row = failed(training.expected, error) if error else judge_training(training, where)
        said, verdict = row.error or row.rule or "nothing", "ok" if row.ok else "WRONG"
        took = f"{time.monotonic() - started:.0f} s"
        print(f"{row.expected.name}: {said}, {verdict} ({took})", file=sys.stderr, flush=True)
        yield row


def recorded(collection: Path, only: Sequence[str], unpacked: Path) -> Iterator[Row]:
    """The row of each recording."""
    if not (collection / "truth.json").exists():
        print(f"recordings skipped: no truth.json in {collection}", file=sys.stderr)
        return
    chosen = recordings(collection, unpacked, lambda name: _chosen(name, only))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield from pool.map(lambda one: judge_run(*one), chosen)


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], help="names, or parts of them")
    parser.add_argument("--timeout", type=float, default=180, help="seconds for a training")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--keep", type=Path, help="keep the runs in this directory")
    where.add_argument("--judge", type=Path, help="judge the runs that --keep kept, train nothing")
    parser.add_argument("--recordings", type=Path, default=RECORDINGS, help="with truth.json")
    return parser.parse_args(arguments)


def main() -> int:
    """Run the command line."""
    given = options()
    found = map(read_training, sorted(TRAININGS.glob("*.py")))
    trainings = [one for one in found if _chosen(one.expected.name, given.only)]
    with tempfile.TemporaryDirectory() as scratch:
        if given.judge:
            kept = [one for one in trainings if (given.judge / one.expected.name).exists()]
            rows = [judge_training(one, given.judge / one.expected.name) for one in kept]
        else:
            runs = given.keep or Path(scratch, "trainings")
            rows = list(trained(trainings, runs.resolve(), given.timeout))
        rows += recorded(given.recordings, given.only, Path(scratch, "recordings"))
    print(table(rows), "", summary(totals(rows)), sep="\n")
    return 0 if totals(rows).met else 1


def _chosen(name: str, only: Sequence[str]) -> bool:
    return not only or any(part in name for part in only)


if __name__ == "__main__":
    sys.exit(main())
