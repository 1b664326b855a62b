"""How long one poll of a run takes: every rule asked, with a profiled window of a million events.

    python tests/verify/benchmarks/bench_poll.py RUN [RUN ...] [--events 1000000] [--against CORE]

The newest window of each RUN is repeated up to that many events and stands in its place; record
one training on a GPU and one on the CPU. The first poll works out all that is known of the window,
later ones take that as it is: CPU milliseconds, the least of some rounds. ``--against`` is the
``core`` directory of another checkout: both are measured in turns, each in processes of its own."""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from repeat_trace import MB, write

CORE = Path(__file__).parents[3] / "core"
ROUNDS = 3
LATER_POLLS = 5


def million(window: Path, events: int, target: Path) -> None:
    """Write ``window`` as often as makes ``events``."""
    from perftui.trace.formats import load_trace

    size = window.stat().st_size * events / len(load_trace(window))
    with target.open("wb") as file:
        write(window, file, round(size / MB))


def measure(run: Path, window: Path) -> None:
    """Print what the polls take in this process, as JSON."""
    from perftui.analysis.analyse import analyse
    from perftui.diagnosis.diagnose import diagnosis
    from perftui.facts.fact import Facts
    from perftui.run.reader import RunReader
    from perftui.trace.formats import load_trace

    trace, times = load_trace(window), []
    for _ in range(ROUNDS):
        # Another trace to all that is kept with one.
        analysis = analyse(replace(trace))
        gc.collect()
        polls = []
        for _ in range(1 + LATER_POLLS):
            facts = Facts(RunReader(run).poll(), analysis)
            began = time.process_time()
            found = diagnosis(facts)
            polls.append(1000 * (time.process_time() - began))
        times.append((polls[0], min(polls[1:])))
    first, later = (min(column) for column in zip(*times, strict=True))
    rules = [finding.rule for finding in found.findings]
    print(json.dumps({"rows": len(trace), "first": first, "later": later, "rules": rules}))


def measured(core: Path, run: Path, window: Path) -> dict[str, float]:
    """What the code at ``core`` takes, in a fresh process."""
    command = [sys.executable, __file__, str(run), "--window", str(window)]
    environment = {**os.environ, "PYTHONPATH": str(core)}
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(output.stdout)
    return found


def report(run: Path, events: int, cores: list[Path], directory: Path) -> None:
    """Measure each of ``cores`` and print a line of each."""
    from perftui.run.reader import RunReader

    rank = RunReader(run).poll().rank(0)
    if rank is None or not rank.windows:
        raise SystemExit(f"{run} has no profiled window")
    window = directory / "window.pt.trace.json"
    million(rank.windows[-1], events, window)
    print(f"{run}:")
    for core in cores:
        found = measured(core, run, window)
        print(
            f"  {found['rows']:,.0f} events: first poll {found['first']:.0f} ms, "
            f"later {found['later']:.1f} ms  ({core})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--against", type=Path, metavar="CORE")
    parser.add_argument("--window", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.window:
        measure(options.runs[0], options.window)
        return
    cores = [CORE, *([options.against.resolve()] if options.against else [])]
    for run in options.runs:
        with tempfile.TemporaryDirectory() as directory:
            report(run, options.events, cores, Path(directory))


if __name__ == "__main__":
    main()
