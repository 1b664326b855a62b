"""How the app feels: start, bytes and CPU of a live overview, keys over slow links.

    python tests/verify/benchmarks/bench_app.py

Runs `perftui attach` on a run that a stand-in for the training keeps writing, with samples of the
machine, on a pseudo-terminal that answers as one with synchronized output does. Bytes are exact;
seconds are of the wall clock, which other work on the machine makes longer; CPU is that of the
app's process. Modules are compiled beforehand, as in an installation that has been started once."""

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

import psutil  # noqa: E402 - the tests are found from the repository's root

from perftui.run.columns import STEP_COLUMNS  # noqa: E402
from perftui.run.journal import Column, JournalWriter  # noqa: E402
from perftui.run.layout import RunLayout  # noqa: E402
from tests.step_rows import step_row  # noqa: E402
from tests.tui.recorded import GPU_COLUMNS, MACHINE_COLUMNS, write_run  # noqa: E402
from tests.verify.benchmarks.slow_link import Link  # noqa: E402

SIZE = (120, 40)
LIVE_SECONDS = 20.0
KEYS = (("6", "following"), ("1", "Mean step"), ("4", "Findings, by"), ("1", "Mean step"))
LINKS = {
    "beside us": {},
    "200 ms each way": {"delay": 0.2},
    "100 kB/s": {"bytes_per_second": 100e3},
    "30 kB/s": {"bytes_per_second": 30e3},
}
COMMAND = [sys.executable, "-m", "perftui_tui"]
MS = 1_000_000


@contextmanager
def compiled() -> Iterator[None]:
    """Byte code is kept between the commands, wherever this environment forbids it."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        yield


@contextmanager
def live_run(folder: Path) -> Iterator[Path]:
    """A run that goes on: three steps a second."""
    started = time.time_ns() - 60 * 10**9
    root = write_run(folder, gpu=True, workers=2, started_ns=started)
    layout = RunLayout(root)
    journal = JournalWriter(layout.rank(0).steps, STEP_COLUMNS)
    names = ["time", *MACHINE_COLUMNS, *(f"gpu0.{name}" for name in GPU_COLUMNS)]
    machine = JournalWriter(layout.telemetry_files()[0], [Column(name) for name in names])
    ended = threading.Event()

    def write() -> None:
        number = 200
        while not ended.wait(1 / 3):
            parts = [(100 + number % 7) * MS, 0, 70 * MS, 90 * MS, 20 * MS, 0, 10 * MS]
            journal.append([step_row(number, parts, start=time.time_ns())])
            if number % 3 == 0:
                wave = number * 13 % 17
                load = [22.0 + wave, 180.0 + wave, 9.1e9, 2e8 + wave * 4e6, 1e6, 35.0, 3e5, 2e5]
                load += [21.0 * 2**30, 64.0 * 2**30]
                card = [50.0 + wave, 31.0 * 2**30, 141.0 * 2**30, 412.0 - wave, 54.0]
                machine.append([[float(time.time_ns()), *load, *card]])
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield root
    finally:
        ended.set()
        writer.join()
        journal.close()
        machine.close()


def help_seconds() -> float:
    """`perftui --help`, the median of seven after one that compiles."""
    subprocess.run([*COMMAND, "--help"], check=True, capture_output=True)
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        subprocess.run([*COMMAND, "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def first_frame(root: Path) -> tuple[float, float]:
    """From the command to the first frame with figures, and its CPU time until then: the medians of
    five after one that compiles."""
    times, cpus = [], []
    for number in range(6):
        link = Link([*COMMAND, "attach", str(root)], ROOT, SIZE)
        try:
            taken = link.wait_for("Mean step", 60)
            cpu = sum(psutil.Process(link.terminal.process.pid).cpu_times()[:2])
        finally:
            link.close()
        if number:
            times.append(taken)
            cpus.append(cpu)
    return statistics.median(times), statistics.median(cpus)


def live(root: Path) -> tuple[float, float]:
    """Bytes a second, and CPU as a share of one core, of a live overview."""
    link = Link([*COMMAND, "attach", str(root)], ROOT, SIZE)
    try:
        link.wait_for("Mean step", 60)
        link.run(5)
        process = psutil.Process(link.terminal.process.pid)
        bytes_before, cpu_before = link.received, sum(process.cpu_times()[:2])
        link.run(LIVE_SECONDS)
        cpu = sum(process.cpu_times()[:2]) - cpu_before
        return (link.received - bytes_before) / LIVE_SECONDS, cpu / LIVE_SECONDS
    finally:
        link.close()


def keys(root: Path, **how: float) -> list[float]:
    """Seconds from each key to the screen that it opens, while the run is live."""
    link = Link([*COMMAND, "attach", str(root)], ROOT, SIZE, **how)
    try:
        link.wait_for("Mean step", 60)
        link.run(4)
        # Screens are made on their first visit: the second round is what a person feels.
        found = []
        for number in range(4):
            for key, words in KEYS:
                taken = link.answer(key, words)
                link.run(0.7)
                if number:
                    found.append(taken)
        return found
    finally:
        link.close()


def show(what: str, measured: str, least: str, aim: str) -> None:
    print(f"{what:44} {measured:>22}   at least {least:>9}   aim {aim:>8}", flush=True)


def main() -> None:
    with compiled():
        measure()


def measure() -> None:
    """Each figure on a line of its own."""
    show("perftui --help", f"{help_seconds():.2f} s", "0.15 s", "0.1 s")
    with tempfile.TemporaryDirectory() as folder, live_run(Path(folder)) as root:
        taken, cpu = first_frame(root)
        words = f"{taken:.2f} s, CPU {cpu:.2f} s"
        show("first frame after the command", words, "0.8 s", "0.4 s")
        rate, cpu = live(root)
        show("live overview, 120x40, 1 Hz: bytes", f"{rate / 1000:.1f} kB/s", "20 kB/s", "8 kB/s")
        show("live overview, 120x40, 1 Hz: CPU", f"{100 * cpu:.1f} % of a core", "5 %", "2 %")
        for name, how in LINKS.items():
            times = sorted(keys(root, **how))
            words = f"{statistics.median(times):.3f}, worst {times[-1]:.2f} s"
            least, aim = ("0.5 s", "0.1 s") if name == "100 kB/s" else ("-", "-")
            show(f"key to screen, live, {name}", words, least, aim)


if __name__ == "__main__":
    main()
