"""The first and the second opening of a large trace, each as a whole process.

    python tests/verify/benchmarks/bench_cache.py [TRACE] [--megabytes 100] [--rounds 5]

Opens TRACE, or a synthetic trace, up to the first draw of all tracks: once with keeping turned off,
once so that it is kept, and then from what was kept. CPU seconds are those of the whole process
with its imports, and for the opening that keeps also with the thread that does so."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_load import write_trace

MB = 1_000_000
COLUMNS = 200
OPEN = f"""
import sys
from pathlib import Path
from perftui.analysis.open_trace import open_trace
analysis = open_trace(Path(sys.argv[1]))
tracks = analysis.timeline_tracks
if not tracks:
    from perftui.analysis.timeline.tracks import (timeline_tracks)
    tracks = timeline_tracks(analysis.trace)
end = int(analysis.trace.end.max())
for track in tracks:
    track.index.busy(0, end, {COLUMNS})
    track.index.dominant(0, end, {COLUMNS})
"""
IMPORTS = "import numpy, msgspec"


def measured(code: str, path: Path, cache: str) -> tuple[float, float]:
    """CPU seconds and peak MB of a process that runs ``code``."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], env={**os.environ, "PERFTUI_CACHE": cache}
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the process that was measured failed: {process.returncode}")
    # Linux counts in KiB.
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / MB


def report(name: str, runs: list[tuple[float, float]]) -> float:
    """Print the medians, and return that of the seconds."""
    seconds = statistics.median(each[0] for each in runs)
    peak = statistics.median(each[1] for each in runs)
    print(f"  {name:34} {seconds:7.3f} s of CPU {peak:7.0f} MB at most")
    return seconds


def compare(path: Path, rounds: int) -> None:
    """All ways of opening one file."""
    print(f"{path.name}: {path.stat().st_size / MB:.0f} MB")
    with tempfile.TemporaryDirectory() as cache:
        first = report("not kept", [measured(OPEN, path, "off")])
        report("kept", [measured(OPEN, path, cache)])
        kept = sum(file.stat().st_size for file in Path(cache).rglob("*") if file.is_file())
        if not kept:
            raise SystemExit(f"{path.name} was not kept: traces of few rows open fast enough")
        again = [measured(OPEN, path, cache) for _ in range(rounds)]
        second = report("opened again", again)
        report("numpy and msgspec imported", [measured(IMPORTS, path, "off") for _ in again])
        print(f"  kept in {kept / MB:.0f} MB; opened again in 1/{first / second:.0f} of the time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, nargs="?")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.trace:
        compare(options.trace, options.rounds)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trace.json"
        write_trace(path, options.megabytes)
        compare(path, options.rounds)


if __name__ == "__main__":
    main()
