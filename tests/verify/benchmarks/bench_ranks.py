"""The traces of many ranks: against HTA, and how time and memory grow with their number.

    python tests/verify/benchmarks/bench_ranks.py TRACE [--peer PYTHON] [--counts 8 64 512]

The ranks are made from TRACE, a real one of a group of two, such as HTA's ``nccl_data.json.gz``, as
the tests do. ``perftui report`` and HTA (temporal breakdown, and overlap of communication and
computation) then read the same directory, in turn, each in a fresh process; HTA by the Python that
``--peer`` or ``PERFTUI_HTA`` names. Wall and CPU time are those of the process and of all that it
starts, memory is sampled: of the largest process, and of all at once."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.traces.real_ranks import RealRank, read_real, write_real_ranks

MISSING = """HTA is not measured: install it elsewhere, and name that Python
  python -m venv peers && peers/bin/pip install HolisticTraceAnalysis==0.5.0 'pandas<3'
  python tests/verify/benchmarks/bench_ranks.py TRACE --peer peers/bin/python"""

HTA = """
import json, sys
from hta.trace_analysis import TraceAnalysis
if __name__ == "__main__":
    found = TraceAnalysis(trace_dir=sys.argv[1], include_last_profiler_step=True)
    parts = found.get_temporal_breakdown(visualize=False).set_index("rank")
    overlap = found.get_comm_comp_overlap(visualize=False).set_index("rank")
    print(json.dumps([
        float(parts["idle_time(us)"][0]), float(overlap["comp_comm_overlap_pctg"][0]), len(parts)
    ]))
"""

OURS = """
import json, sys
from pathlib import Path
from perftui.analysis import kinds
from perftui.analysis.intervals import intersect, union
from perftui.analysis.open_trace import open_trace
from perftui.trace.model import KERNEL
opened = open_trace(Path(sys.argv[1], "rank-0.json"))
trace = opened.trace
met = kinds.communication(trace)
works = trace.in_category(KERNEL) & ~met
both = [union(trace.start[rows], trace.ends_of(rows)) for rows in (met, works)]
print(json.dumps([
    opened.activity[0].idle / 1000, 100 * intersect(*both).total / both[0].total
]))
"""


@dataclass(frozen=True)
class Measured:
    """What a command took: seconds and bytes."""

    wall: float
    cpu: float
    largest: int
    together: int
    output: str

    def __str__(self) -> str:
        mib = 1 << 20
        return (
            f"{self.wall:.1f} s | {self.cpu:.1f} s | {self.largest / mib:.0f} MiB | "
            f"{self.together / mib:.0f} MiB"
        )


def measured(command: Sequence[str]) -> Measured:
    """Run ``command`` to its end; raises CalledProcessError where it fails."""
    environment = {**os.environ, "PERFTUI_CACHE": "off"}
    with tempfile.TemporaryFile("w+") as output:
        began, before = time.monotonic(), os.times()
        process = psutil.Popen(command, stdout=output, env=environment)
        largest = together = 0
        while process.poll() is None:
            sizes = _sizes(process)
            largest, together = max([largest, *sizes]), max(together, sum(sizes))
            time.sleep(0.02)
        wall, after = time.monotonic() - began, os.times()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        cpu = sum(after[2:4]) - sum(before[2:4])
        output.seek(0)
        return Measured(wall, cpu, largest, together, output.read())


def _sizes(process: psutil.Process) -> list[int]:
    sizes = []
    with suppress(psutil.NoSuchProcess):
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                sizes.append(one.memory_info().rss)
    return sizes


def report(folder: Path) -> list[str]:
    """The command that reads all ranks of ``folder``."""
    return [sys.executable, "-m", "perftui_tui", "report", str(folder), "--json"]


def ranks(real: RealRank, folder: Path, count: int) -> Path:
    """So many ranks, of which the one before the last comes late."""
    return write_real_ranks(
        real, folder, count, lambda rank: rank * 1000, lambda rank: 1_000_000 * (rank == count - 2)
    )


def against(folder: Path, peer: str, rounds: int) -> None:
    """The table of both programs."""
    commands = {"perftui report": report(folder), "HTA": [peer, "-c", HTA, str(folder)]}
    found: dict[str, list[Measured]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(measured(command))
            print(f"| {name} | {found[name][-1]} |", flush=True)
    for what in ("wall", "cpu", "largest", "together"):
        ours, theirs = ([getattr(one, what) for one in each] for each in found.values())
        print(f"HTA / perftui, {what}: {statistics.median(theirs) / statistics.median(ours):.1f}x")
    idle, overlap, count = json.loads(found["HTA"][-1].output.splitlines()[-1])
    own = subprocess.run(
        [sys.executable, "-c", OURS, str(folder)], check=True, capture_output=True, text=True
    )
    ours_idle, ours_overlap = json.loads(own.stdout)
    print(f"rank 0 of {count}: idle {ours_idle:.0f} us, HTA {idle:.0f} us")
    print(f"collectives behind computation {ours_overlap:.2f} %, HTA {overlap:.2f} %")


def growth(real: RealRank, counts: Sequence[int], directory: Path) -> None:
    """The table of numbers of ranks."""
    for count in counts:
        folder = ranks(real, directory / f"{count}", count)
        size = sum(one.stat().st_size for one in folder.iterdir())
        print(f"| {count} | {size / 1e6:.0f} MB | {measured(report(folder))} |", flush=True)
        for one in folder.iterdir():
            one.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, nargs="?")
    parser.add_argument("--peer", metavar="PYTHON", default=os.environ.get("PERFTUI_HTA"))
    parser.add_argument("--counts", type=int, nargs="*", default=[8, 64, 512])
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    if options.trace is None:
        print("name a real trace: its ranks are made from it")
        return
    with tempfile.TemporaryDirectory() as name:
        print("| | wall | CPU | largest process | all at once |\n|---|---|---|---|---|")
        if options.peer:
            folder = ranks(read_real(options.trace), Path(name, "peers"), 64)
            against(folder, options.peer, options.rounds)
            for one in folder.iterdir():
                one.unlink()
        else:
            print(MISSING)
        growth(read_real(options.trace, shortest=30_000), options.counts, Path(name))


if __name__ == "__main__":
    main()
