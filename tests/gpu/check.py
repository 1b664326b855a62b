"""Everything that only a GPU can show, in a table: ``make gpu-check``.

    python -m tests.gpu.check [--minutes N] [--wheels DIR] [--only WORD...] [--out DIR] [--played]

Runs in the interpreter that has torch, which needs nothing else: perftui and what it needs come
from its own installation, or from a directory of wheels. Checks run in the order of their worth,
each in a process of its own; what does not fit into the time is named as not done. The table, its
JSON, a log and all recorded runs are written to one directory. With ``--played`` the same list runs
anywhere against a machine that is played. Exits with 1 where something is wrong or failed, and with
2 where nothing can be checked."""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from tests.gpu.checks.machine import Machine, Row

ROOT = Path(__file__).parents[2]
OUT = ROOT / "build" / "gpu-check"

PACKING_SECONDS = 25.0
"""Of the minutes, left for packing what was recorded."""

PATIENCE = 3.0
"""A check may take as many times as long as is expected of it."""

AT_ONCE = 3
MOST_OVERLAPPED_SECONDS = 120.0
"""How many checks overlap, and how long one may take then, those before it included."""

END_SECONDS = 20.0
"""For a check to end what it runs."""

ASK_TORCH = """
import json, torch
has = torch.cuda.is_available()
print(json.dumps({
    "torch": torch.__version__,
    "gpu": torch.cuda.get_device_name(0) if has else None,
    "capability": torch.cuda.get_device_capability(0) if has else None,
}))
"""


@dataclass(frozen=True)
class Check:
    """One process of the list."""

    group: int
    name: str
    seconds: float
    """How long it takes on a GPU with 16 slow cores beside it, of overlapping ones more or less."""
    rows: Callable[[Machine], Iterator[Row]]
    overlaps: bool = False
    """Others may start meanwhile: their trainings wait for each other behind a gate."""

    @property
    def limit(self) -> float:
        """Seconds after which it is ended."""
        return MOST_OVERLAPPED_SECONDS if self.overlaps else PATIENCE * self.seconds


def checks() -> tuple[Check, ...]:
    """All of them, in the order of their worth."""
    from tests.gpu.checks import measured, planted, same_results, surroundings

    def named(cases: Sequence[planted.Case]) -> Iterator[Check]:
        for case in cases:
            yield Check(3, f"planted {case.name}", 8, partial(planted.is_named, case), True)

    return (
        Check(1, "same results", 60, same_results.same_results),
        Check(2, "hooks", 55, measured.hooks),
        *(
            Check(
                2,
                f"run {kind} {option}".strip(),
                12,
                partial(measured.whole_run, kind, option),
                True,
            )
            for kind in measured.RUNS
            for option in ("", "--shapes")
        ),
        *named(planted.KNOWN),
        Check(5, "readings", 10, measured.readings),
        Check(6, "telemetry", 20, surroundings.telemetry),
        Check(6, "doctor", 6, surroundings.doctor),
        *named(planted.NEW),
        *(
            Check(4, f"fix {case.fix}", 15, partial(planted.is_mended, case), True)
            for case in planted.FIXES
        ),
        Check(6, "probe", 20, surroundings.probe),
        *(
            Check(3, f"mended {case.name}", 8, partial(planted.is_left_alone, case), True)
            for case in planted.CASES
        ),
        Check(6, "NVTX", 25, surroundings.nvtx),
        *(
            Check(4, f"try {case.fix}", 90, partial(planted.is_proven, case))
            for case in planted.FIXES
        ),
    )


def make_machine(work: Path, *, is_played: bool) -> Machine:
    """The one at hand, or one that is played."""
    from tests.gpu.checks.machine import Machine

    if not is_played:
        return Machine(work)
    from tests.gpu.checks.played import PlayedMachine

    return PlayedMachine(work)


class Running:
    """A check in a process of its own."""

    def __init__(self, check: Check, machine: Machine, log: Path, limit: float) -> None:
        # Forked: a new interpreter would take seconds to import what all checks share. No torch is
        # imported here, and nothing has touched the GPU.
        context = multiprocessing.get_context("fork")
        self.receiver, sender = context.Pipe(duplex=False)
        self.check, self._log, self._limit = check, log, limit
        self._process = context.Process(target=run_one, args=(check, machine, log, sender))
        self._process.start()
        sender.close()
        self._since = time.monotonic()
        self.ends = self._since + limit
        self.is_over = False
        self._count = 0

    def rows(self) -> Iterator[tuple[Row, float]]:
        """What it has come to since it was asked last, each with the seconds that it took; it is
        ended once its time is over."""
        from tests.gpu.checks.machine import Row, State

        with contextlib.suppress(EOFError):
            while self.receiver.poll():
                self._count += 1
                yield Row.decode(self.receiver.recv_bytes().decode()), self._took()
            if time.monotonic() < self.ends:
                return
            self.end()
            text = f"stopped after {self._limit:.0f} s"
            yield Row(self.check.name, State.FAILED, text), self._took()
            return
        self._process.join(END_SECONDS)
        self.end()
        if self._process.exitcode or not self._count:
            said = self._log.read_text(errors="replace").strip().splitlines()[-1]
            text = f"exit code {self._process.exitcode}: {said}"
            yield Row(self.check.name, State.FAILED, text), self._took()

    def _took(self) -> float:
        since, self._since = self._since, time.monotonic()
        return self._since - since

    def end(self) -> None:
        """End it with all commands that it has started."""
        self.is_over = True
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(END_SECONDS)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        self._process.join()


def run_checks(
    wanted: Sequence[Check], machine: Machine, log: Path, until: float
) -> Iterator[tuple[Check, Row, float]]:
    """The rows of all checks as they come; those that do not fit into the time are named so."""
    from tests.gpu.checks.machine import Row, State

    pending, running = deque(wanted), list[Running]()
    try:
        while pending or running:
            while pending and _may_start(pending[0], running):
                check = pending.popleft()
                left = until - time.monotonic()
                if left < check.seconds:
                    text = f"takes {check.seconds:.0f} s, {max(left, 0):.0f} s are left"
                    yield check, Row(check.name, State.NOT_DONE, text), 0.0
                    continue
                running.append(Running(check, machine, log, min(check.limit, left)))
            next_end = min((one.ends for one in running), default=0) - time.monotonic()
            wait([one.receiver for one in running], max(next_end, 0))
            for one in running:
                for row, took in one.rows():
                    yield one.check, row, took
            running = [one for one in running if not one.is_over]
    finally:
        for one in running:
            one.end()


def _may_start(check: Check, running: Sequence[Running]) -> bool:
    """Whether it may start beside those that run."""
    overlap = check.overlaps and all(one.check.overlaps for one in running)
    return not running or (overlap and len(running) < AT_ONCE)


def run_one(check: Check, machine: Machine, log: Path, sender: Connection) -> None:
    """Run one check, and send its rows; what else it says goes to the log."""
    from tests.gpu.checks.machine import CheckError, Row, State

    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended as its time was over"))
    with log.open("a") as errors:
        errors.write(f"== {check.name}\n")
        errors.flush()
        os.dup2(errors.fileno(), sys.stderr.fileno())
    try:
        for row in check.rows(machine):
            sender.send_bytes(row.encode().encode())
    except CheckError as error:
        sender.send_bytes(Row(check.name, State.FAILED, str(error)).encode().encode())


class Table:
    """The results so far: printed line by line, and kept in files after each."""

    def __init__(self, out: Path, facts: Mapping[str, Any]) -> None:
        self._out, self._facts = out, facts
        self._lines: list[str] = []
        self._rows: list[dict[str, Any]] = []
        self.say(", ".join(f"{name} {value}" for name, value in facts.items()))

    def say(self, line: str) -> None:
        """A line of text alone."""
        self._lines.append(line)
        print(line, flush=True)
        (self._out / "table.txt").write_text("\n".join(self._lines) + "\n")
        results = {"machine": self._facts, "rows": self._rows}
        (self._out / "results.json").write_text(json.dumps(results, indent=1, default=str) + "\n")

    def add(self, group: int, row: Row, seconds: float) -> None:
        """A row, with the seconds since its check began or came to the row before."""
        fields = {"group": group, "name": row.name, "state": row.state.value, "text": row.text}
        self._rows.append({**fields, "seconds": round(seconds, 2), "values": row.values})
        self.say(f"{row.state.value:<9}{group} {row.name:<44} {seconds:5.1f} s  {row.text}")

    def count(self, *states: str) -> int:
        """Rows in one of ``states``."""
        return sum(row["state"] in states for row in self._rows)


def run_all(given: argparse.Namespace, facts: dict[str, Any], started: float) -> int:
    """Run the list, print and keep the table; the exit code."""
    from tests.gpu.checks.archive import pack
    from tests.gpu.checks.machine import State

    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("recordings-*.tar"), out / "log.txt"):
        old.unlink(missing_ok=True)
    table = Table(out, facts)
    until = float("inf") if given.played else started + 60 * given.minutes - PACKING_SECONDS
    wanted = [check for check in checks() if _is_chosen(check.name, given.only)]
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as scratch:
        machine = make_machine(Path(scratch).resolve(), is_played=given.played)
        try:
            for check, row, took in run_checks(wanted, machine, out / "log.txt", until):
                table.add(check.group, row, took)
        except KeyboardInterrupt:
            table.say("interrupted; what was done is kept")
        finally:
            left_out = pack(machine, out)
            if left_out:
                table.say(f"too large to keep: {', '.join(left_out)}")
            table.say(", ".join(f"{table.count(state.value)} {state.value}" for state in State))
            table.say(f"{time.monotonic() - started:.0f} s; {out}")
    return 1 if table.count("wrong", "failed") else 0


def _is_chosen(name: str, only: Sequence[str]) -> bool:
    return not only or any(word in name for word in only)


class NothingToCheckError(Exception):
    """The message says what is missing, and what to do."""


def torch_facts() -> dict[str, Any]:
    """What torch says of this machine. Raises NothingToCheckError if there is no torch, or it sees
    no GPU."""
    asked = subprocess.run([sys.executable, "-c", ASK_TORCH], capture_output=True, text=True)
    if asked.returncode:
        said = (asked.stderr.strip().splitlines() or ["no torch"])[-1]
        raise NothingToCheckError(
            f"{sys.executable} has no PyTorch ({said}); name the Python that has it: "
            "make gpu-check PYTHON=/path/to/python"
        )
    facts: dict[str, Any] = json.loads(asked.stdout)
    if facts["gpu"] is None:
        raise NothingToCheckError(
            f"torch {facts['torch']} sees no GPU here. `--played` runs the same list against a "
            "machine that is played."
        )
    return facts


def prepare(wheels: Path | None) -> Path:
    """Have every process from here on find perftui: installed from ``wheels``, or as it is here.
    The directory that it is installed into. Raises NothingToCheckError if it cannot be installed or
    imported."""
    site = Path(tempfile.mkdtemp(prefix="gpu-check-site-"))
    paths = [str(site)]
    if wheels is not None:
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-compile")
        where = ("--find-links", str(wheels), "--target", str(site), "perftui")
        made = subprocess.run((*pip, *where), capture_output=True, text=True)
        if made.returncode:
            said = (made.stderr.strip().splitlines() or ["pip failed"])[-1]
            raise NothingToCheckError(f"perftui cannot be installed from {wheels}: {said}")
    else:
        paths += [str(ROOT / "core"), str(ROOT / "tui")]
    before = os.environ.get("PYTHONPATH")
    # py-spy is a command.
    os.environ["PATH"] = os.pathsep.join([str(site / "bin"), os.environ.get("PATH", os.defpath)])
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, *([before] if before else [])])
    probe = (sys.executable, "-c", "import perftui.report.report, perftui_tui.cli, psutil")
    tried = subprocess.run(probe, capture_output=True, text=True)
    if tried.returncode:
        said = tried.stderr.strip().splitlines()[-1]
        raise NothingToCheckError(
            f"perftui does not start in {sys.executable}: {said}; name a directory of wheels: "
            "make gpu-check WHEELS=DIR (CONTRIBUTING.md, With a GPU, says how to make one)"
        )
    sys.path[:0] = paths
    return site


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=8.0, help="time for all (default 8)")
    parser.add_argument("--wheels", type=Path, help="install perftui from this directory")
    parser.add_argument("--only", nargs="+", default=[], help="names of checks, or parts of them")
    parser.add_argument("--out", type=Path, default=OUT, help="where results are written")
    parser.add_argument("--played", action="store_true", help="against a machine that is played")
    return parser.parse_args(arguments)


def main() -> int:
    """Run the command line."""
    started = time.monotonic()
    given = options()
    try:
        facts = {"gpu": "played"} if given.played else torch_facts()
        site = prepare(given.wheels.resolve() if given.wheels else None)
    except NothingToCheckError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return 2
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, site, ignore_errors=True)
        facts |= {"python": platform.python_version(), "cores": os.cpu_count()}
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        return run_all(given, facts, started)


if __name__ == "__main__":
    sys.exit(main())
