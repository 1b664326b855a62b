"""From a key to the end of its frame, in the Ops screen of a trace with very many kernels.

    python tests/verify/benchmarks/bench_tables.py [--kernels 100000]

The app runs on a pseudo-terminal of 120 by 40, on a trace of so many kernels of as many names and
on one of a thousand. Prints the median and the 95th percentile in ms, and how much longer a frame
of the large table takes.
"""

from __future__ import annotations

import argparse
import os
import select
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.terminal import Terminal
from tests.traces.events import gpu, write

FEW = 1_000
QUIET = 0.06
"""Seconds without a byte after which a frame is over."""

PATIENCE = 3.0
KEYS = {
    "down": ["\x1b[B"] * 30,
    "page down": ["\x1b[6~"] * 15,
    "wheel": ["\x1b[<65;20;20M"] * 20,
    "sort by another column": [">"] * 10,
    "reverse": ["R"] * 10,
    "filter, a letter": ["/", *"kernel_12", "\x1b"],
}


class Timed(Terminal):
    """Knows when the last byte of a frame came."""

    def frame(self, keys: str) -> float:
        """Seconds from the key to the last byte before the terminal falls quiet."""
        began = last = time.perf_counter()
        self.press(keys)
        seen = False
        while time.perf_counter() - began < PATIENCE:
            ready, _, _ = select.select([self._master], [], [], QUIET)
            if ready:
                os.read(self._master, 1 << 20)
                last, seen = time.perf_counter(), True
            elif seen:
                break
        return last - began


def write_trace(folder: Path, kernels: int) -> Path:
    """A trace of kernels that all have names of their own."""
    name = "void ns::kernel_{}<float, 4>(float*)"
    events = (
        gpu(name.format(number), number * 10, 1 + number * 7919 % 9, number, grid=[1, 1, 1])
        for number in range(kernels)
    )
    return write(folder / f"{kernels}.json", events)


def measure(trace: Path) -> dict[str, list[float]]:
    """Seconds of each frame, by key."""
    command = [sys.executable, "-m", "perftui_tui", str(trace)]
    terminal = Timed(command, trace.parent)
    try:
        terminal.wait_for("trace")
        terminal.press("3")
        terminal.wait_for("Ops")
        terminal.press("k")
        terminal.wait_for("kernels  ")
        terminal.read(4.0)
        return {name: [terminal.frame(key) for key in keys] for name, keys in KEYS.items()}
    finally:
        terminal.process.kill()


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
        print(
            f"{name:26} {1000 * middle:12.1f} / {1000 * late:6.1f}"
            f" {1000 * base:17.1f} {middle / base:9.1f}"
        )


if __name__ == "__main__":
    main()
