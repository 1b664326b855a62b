"""From a key to the frame that answers it, on the timeline of ten million events, in a terminal.

    python -m tests.verify.benchmarks.bench_timeline_keys [--events 10000000] [--rounds 12]

Runs the app on a pseudo-terminal that answers as one with synchronized output does, opens the
timeline, and types: a key is answered when the first frame is complete in which the screen is
another. Prints milliseconds of the wall clock, which other work on the machine makes longer, at
80x24, 120x40 and 200x50: the median, 19 of 20, and the worst."""

import argparse
import os
import select
import statistics
import sys
import time
from pathlib import Path

from tests.terminal import Terminal

SIZES = ((80, 24), (120, 40), (200, 50))
KEYS = {
    "zoom in": "w",
    "right": "d",
    "left": "a",
    "next event": ".",
    "next of its name": ">",
    "track down": "j",
    "mark": "m",
    "zoom out": "s",
    "wheel out": "\x1b[<65;60;14M",
    "wheel in": "\x1b[<64;60;14M",
    "everything": "0",
}
ENOUGH = 600.0
"""Seconds until the timeline is drawn for the first time, on a slow machine."""

QUIET = 0.25
"""Seconds without output after which a key has had its effect."""

SYNC_QUERY, SYNC_ANSWER = b"\x1b[?2026$p", "\x1b[?2026;2$y"
FRAME_END = b"\x1b[?2026l"


def child(count: int) -> None:
    """The app with a trace that is already tensors in memory."""
    from perftui.analysis.analyse import without_tables
    from perftui_tui.app import PerftuiApp
    from perftui_tui.reading.snapshot import Phase, Snapshot
    from perftui_tui.reading.source import SnapshotReceived
    from tests.verify.benchmarks.bench_ten_million import trace_of

    path = Path("synthetic")
    snapshot = Snapshot(
        source=path,
        phase=Phase.TRACE,
        title=f"{count:,} events",
        now_ns=0,
        analysis=without_tables(trace_of(count)),
    )

    class Opened(PerftuiApp):
        """Shows the trace instead of reading a file."""

        def open(self, target: Path) -> None:
            """The one trace, whatever is asked for."""
            self.target = target
            self.post_message(SnapshotReceived(snapshot))

    app = Opened(path)
    app.run()
    if app.crash is not None:
        raise app.crash


class Timed(Terminal):
    """A terminal that notes when each piece arrives, and makes a screen of them afterwards."""

    def __init__(self, command: list[str], *size: int) -> None:
        super().__init__(command, Path.cwd(), *size)
        # The end of a frame is told to a terminal that knows what that is.
        end = time.monotonic() + ENOUGH
        while SYNC_QUERY not in self.written and time.monotonic() < end:
            self.read(0.2)
        self.press(SYNC_ANSWER)

    def arrivals(self) -> list[tuple[float, bytes]]:
        """Segments and when they came, until it is quiet."""
        found = []
        while select.select([self._master], [], [], QUIET)[0]:
            data = os.read(self._master, 65536)
            found.append((time.perf_counter(), data))
        return found

    def answer(self, key: str) -> float | None:
        """Milliseconds from ``key`` to the end of the first frame that changes the screen; None
        where nothing changes."""
        before, taken, tail = self.text, None, b""
        sent = time.perf_counter()
        self.press(key)
        for moment, data in self.arrivals():
            self._stream.feed(data)
            tail = (tail + data)[-65536:]
            if taken is None and FRAME_END in tail and self.text != before:
                taken = 1000 * (moment - sent)
        return taken


def measure(count: int, size: tuple[int, int], rounds: int) -> None:
    """One app at one size."""
    command = [sys.executable, "-m", "tests.verify.benchmarks.bench_timeline_keys"]
    command += ["--child", "--events", str(count)]
    terminal = Timed(command, *size)
    try:
        terminal.wait_for("trace", ENOUGH)
        terminal.press("2")
        terminal.wait_for("gaps>", ENOUGH)
        terminal.read(2.0)
        found, unanswered = dict[str, list[float]](), 0
        for _ in range(rounds):
            for name, key in KEYS.items():
                taken = terminal.answer(key)
                if taken is None:
                    unanswered += 1
                else:
                    found.setdefault(name, []).append(taken)
        print(f"{size[0]}x{size[1]}, {rounds} rounds, {unanswered} keys changed nothing")
        for name, times in (*found.items(), ("all", [t for each in found.values() for t in each])):
            print(f"  {name:18} {_summary(times)}")
        terminal.press("q")
        terminal.wait(10)
    finally:
        terminal.close()


def _summary(times: list[float]) -> str:
    ordered = sorted(times)
    late = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return (
        f"median {statistics.median(ordered):6.1f}   19 of 20 {late:6.1f}   "
        f"worst {ordered[-1]:6.1f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.events)
        return
    for size in SIZES:
        measure(options.events, size, options.rounds)


if __name__ == "__main__":
    main()
