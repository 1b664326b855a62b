"""From a key to the end of its frame, in the Ops screen of a trace with very many kernels.

    python -m tests.verify.benchmarks.bench_tables [--kernels 100000]

The app runs on a pseudo-terminal of 120 by 40, on a trace of so many kernels of as many names and
on one of a thousand. Prints the median and the 95th percentile in ms, and how much longer a frame
of the large table takes."""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from tests.traces.events import gpu, write
from tests.verify.benchmarks.bench_timeline_keys import Timed

FEW = 1_000
KEYS = {
    "down": ["\x1b[B"] * 30,
    "page down": ["\x1b[6~"] * 15,
    "wheel": ["\x1b[<65;20;20M"] * 20,
    "sort by another column": [">"] * 10,
    "reverse": ["R"] * 10,
    "filter, a letter": ["/", *"kernel_12", "\x1b"],
}


def write_trace(folder: Path, kernels: int) -> Path:
    """A trace of kernels that all have names of their own."""
    name = "void ns::kernel_{}<float, 4>(float*)"
    events = (
        gpu(name.format(number), number * 10, 1 + number * 7919 % 9, number, grid=[1, 1, 1])
        for number in range(kernels)
    )
    return write(folder / f"{kernels}.json", events)


def measure(trace: Path) -> dict[str, list[float]]:
    """Milliseconds of each frame, by key."""
    terminal = Timed([sys.executable, "-m", "perftui_tui", str(trace)])
    try:
        terminal.wait_for("trace")
        terminal.press("3")
        terminal.wait_for("Ops")
        terminal.press("k")
        terminal.wait_for("kernels  ")
        terminal.read(4.0)
        answers = {name: map(terminal.answer, keys) for name, keys in KEYS.items()}
        return {name: [ms for ms in each if ms is not None] for name, each in answers.items()}
    finally:
        terminal.close()


def main() -> None:
    """Measure both, and print them side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=100_000)
    many = parser.parse_args().kernels
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PERFTUI_CACHE"] = "off"
        large = measure(write_trace(Path(folder), many))
        small = measure(write_trace(Path(folder), FEW))
    print(f"{'ms from key to frame':26} {many:>9,} rows (p50 / p95)   {FEW:,} rows     ratio")
    for name, times in large.items():
        middle, base = statistics.median(times), statistics.median(small[name])
        late = statistics.quantiles(times, n=20)[-1]
        print(f"{name:26} {middle:12.1f} / {late:6.1f} {base:17.1f} {middle / base:9.1f}")


if __name__ == "__main__":
    main()
