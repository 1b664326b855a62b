"""Opening a trace, against the tools that people open traces with.

    python tests/verify/benchmarks/bench_peers.py [TRACE] [--megabytes 10 100] [--peers PYTHON]

TRACE, or a synthetic one, is repeated up to each size. The peers come from their packages, into an
environment of their own in a temporary directory, unless ``--peers`` names the Python of one; where
they cannot be installed, only ours is measured. Every round runs each program once, in a fresh
process; the table shows the median CPU time of the work (imports left out), its ratio to ours, and
the peak memory of the process."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench_load import write_trace

HERE = Path(__file__).parent
PACKAGES = ("HolisticTraceAnalysis==0.5.0", "torch-tb-profiler==0.4.3", "tensorboard", "pandas<3")

OURS_LOAD = """
from perftui.trace.formats import load_trace
def work(path):
    load_trace(path)
"""

OURS_WHOLE = """
from perftui.analysis.analyse import analyse
from perftui.analysis.timeline.tracks import (timeline_tracks)
from perftui.trace.formats import load_trace
def work(path):
    trace = load_trace(path)
    analyse(trace)
    end = int(trace.end.max())
    for track in timeline_tracks(trace)[:50]:
        track.index.busy(0, end, 200)
        track.index.dominant(0, end, 200)
"""

HTA = """
from hta.common.trace import parse_trace_file
def work(path):
    parse_trace_file(str(path))
"""

TENSORBOARD = """
import tempfile
from torch_tb_profiler.profiler.data import DistributedRunProfileData, RunProfileData
from torch_tb_profiler.profiler.run_generator import RunGenerator
def work(path):
    with tempfile.TemporaryDirectory() as cache:
        data = RunProfileData.parse("worker", 1, str(path), cache)
        RunGenerator("worker", 1, data).generate_run_profile()
        DistributedRunProfileData(data)
"""

MEASURED = """
import json, resource, sys, time
from pathlib import Path
began = time.process_time()
work(Path(sys.argv[1]))
took = time.process_time() - began
print(json.dumps([took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


@dataclass(frozen=True)
class Program:
    """Something to measure."""

    name: str
    code: str
    is_peer: bool
    compared_with: str = ""
    """The program of ours that does the same."""


PROGRAMS = (
    Program("perftui, load", OURS_LOAD, False),
    Program("HTA 0.5.0, default parser", HTA, True, "perftui, load"),
    Program("perftui, all tables, tracks, first draw", OURS_WHOLE, False),
    Program(
        "TensorBoard plugin 0.4.3, full run",
        TENSORBOARD,
        True,
        "perftui, all tables, tracks, first draw",
    ),
)


def run(program: Program, trace: Path, python: str) -> tuple[float, float] | None:
    """CPU seconds and peak MiB; None where the program failed."""
    command = [python, "-c", program.code + MEASURED, str(trace)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        print(f"{program.name} failed: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    seconds, mebibytes = json.loads(done.stdout.splitlines()[-1])
    return seconds, mebibytes


def peers_in(directory: Path) -> str | None:
    """The Python of a new environment with the peers; None where they cannot be installed."""
    print("installing the peers into a temporary environment ...", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    python = str(directory / "bin" / "python")
    # Twice quiet: only what stops it is told.
    command = [python, "-m", "pip", "install", "--quiet", "--quiet", *PACKAGES]
    if subprocess.run(command, check=False).returncode:
        wanted = " ".join(f"'{package}'" for package in PACKAGES)
        print(
            "the peers cannot be installed (is there a network?): only perftui is measured. To "
            "measure them too, install them elsewhere and name that Python:\n"
            f"  python -m venv peers && peers/bin/pip install {wanted}\n"
            "  python tests/verify/benchmarks/bench_peers.py --peers peers/bin/python",
            file=sys.stderr,
        )
        return None
    return python


def synthetic(directory: Path) -> Path:
    """A trace of training on a GPU, in the layout of today's PyTorch."""
    path = directory / "synthetic.json"
    write_trace(path, 10)
    return path


def rows(trace: Path, peers: str | None, rounds: int) -> Iterator[str]:
    """Lines of the table for one size."""
    pythons = {program: peers if program.is_peer else sys.executable for program in PROGRAMS}
    found: dict[str, list[tuple[float, float]]] = {program.name: [] for program in PROGRAMS}
    with trace.open("rb") as file:  # the first to read it would also pay for the disk
        while file.read(1 << 24):
            pass
    for _ in range(rounds):
        for program, python in pythons.items():
            if python is None:
                continue
            measured = run(program, trace, python)
            if measured is not None:
                found[program.name].append(measured)
    size = trace.stat().st_size / 1e6
    medians = {name: statistics.median(t for t, _ in each) for name, each in found.items() if each}
    for program, python in pythons.items():
        if program.name not in medians:
            outcome = "failed" if python else "not installed"
            yield f"| {size:.0f} MB | {program.name} | {outcome} | | |"
            continue
        seconds = medians[program.name]
        ours = medians.get(program.compared_with)
        ratio = f"{seconds / ours:.1f}x" if ours else ""
        peak = max(mebibytes for _, mebibytes in found[program.name])
        yield f"| {size:.0f} MB | {program.name} | {seconds:.2f} s | {ratio} | {peak:.0f} MiB |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, nargs="?")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--peers", metavar="PYTHON", help="has the peers; none are installed then")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        peers = options.peers or peers_in(directory / "peers")
        source = options.trace or synthetic(directory)
        print("| trace | program | CPU time | of ours | peak memory |\n|---|---|---|---|---|")
        for megabytes in options.megabytes:
            trace = directory / f"{megabytes}.pt.trace.json"
            command = [sys.executable, str(HERE / "repeat_trace.py"), str(source), str(trace)]
            subprocess.run(
                [*command, "--megabytes", str(megabytes)], check=True, stdout=subprocess.DEVNULL
            )
            for line in rows(trace, peers, options.rounds):
                print(line, flush=True)
            trace.unlink()


if __name__ == "__main__":
    main()
