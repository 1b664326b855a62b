"""What one sample of the machine costs: CPU time of the sampling thread, by source.

    python tests/verify/benchmarks/bench_sampler.py [--processes 1 40] [--samples 200]
        [--seconds 0.5]

Two processes train in each case, one where there is only one, and all others are their workers;
each worker holds some memory, two of them compute. What is read seldom is counted with the samples
in between, so that the mean is what the sampler takes."""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from perftui.recorder.machine_sampling import look_around
from perftui.recorder.sink import DownsamplingSink, FaultLog
from perftui.telemetry.processes import Roles
from perftui.telemetry.source import Sampler, Source

WORKER = "import time; held = bytearray(50_000_000); print('up', flush=True); time.sleep(1e6)"
BUSY = "import time; print('up', flush=True)\nwhile True: time.sleep(0.001)"


class Timed:
    """A source, and what each sample of it has taken."""

    def __init__(self, source: Source, times: dict[str, list[float]]) -> None:
        self.columns = source.columns
        self._source = source
        self._times = times[type(source).__name__]

    def sample(self, now: float) -> Sequence[float | None]:
        began = time.thread_time()
        row = self._source.sample(now)
        self._times.append(time.thread_time() - began)
        return row


def measure(pid: int, roles: Callable[[], Roles], samples: int, seconds: float) -> None:
    """Print a line for each source, the most expensive first."""
    times: dict[str, list[float]] = defaultdict(list)
    machine = look_around(pid, roles=roles)
    sampler = Sampler([Timed(one, times) for one in machine.sources], print)
    rows = []
    with TemporaryDirectory() as directory:
        root = Path(directory)
        faults = FaultLog(root / "log")
        sink = DownsamplingSink(root / "telemetry.jsonl", sampler.columns, faults, floats=True)
        for _ in range(samples):
            time.sleep(seconds)
            began = time.thread_time()
            sink.append([sampler.sample()])
            rows.append(time.thread_time() - began)
        sink.close()
        size = (root / "telemetry.jsonl").stat().st_size / samples
    first, *rest = rows
    mean = statistics.mean(rest)
    print(
        f"  {1000 * mean:.2f} ms a sample ({1000 * statistics.median(rest):.2f} median, "
        f"{1000 * max(rest):.1f} most, {1000 * first:.1f} the first), {100 * mean / seconds:.2f} % "
        f"of a core, {len(sampler.columns)} columns, {size:.0f} bytes a row"
    )
    # Those without columns are never asked.
    means = {name: statistics.mean(taken[1:]) for name, taken in times.items() if taken}
    for name, each in sorted(means.items(), key=lambda one: -one[1]):
        print(f"  {1e6 * each:8.0f} us  {name} (at most {1e6 * max(times[name][1:]):.0f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 40])
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0.5, help="between two samples")
    options = parser.parse_args()
    for count in options.processes:
        start = (
            "import subprocess, sys, time\n"
            f"for number in range({count - 1}):\n"
            f"    code = {BUSY!r} if number in (1, 2) else {WORKER!r}\n"
            "    child = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE)\n"
            "    child.stdout.readline()\n"
            "    print(child.pid, flush=True)\n"
            "print('all', flush=True)\n"
            "time.sleep(1e6)\n"
        )
        command = [sys.executable, "-c", start]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as main_process:
            pids = []
            while (line := main_process.stdout.readline().strip()) != "all":
                pids.append(int(line))
            ranks, workers = frozenset([main_process.pid, *pids[:1]]), frozenset(pids[1:])
            roles = Roles(ranks, workers)
            print(f"{count} processes:")
            try:
                measure(
                    main_process.pid, lambda roles=roles: roles, options.samples, options.seconds
                )
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
                main_process.kill()


if __name__ == "__main__":
    main()
