"""Everything that only a GPU can show, in a table: ``make gpu-check``.

    python -m tests.gpu.check [--minutes N] [--wheels DIR] [--only WORD...] [--out DIR] [--played]

Runs in the interpreter that has torch, which needs nothing else: perftui and what it needs come
from its own installation, or from a directory of wheels. Checks run in the order of their worth,
each in a process of its own; what does not fit into the time is named as not done. The table, its
JSON, a log and all recorded runs are written to one directory. With ``--played`` the same list runs
anywhere against a machine that is played. Exits with 1 where something is wrong or failed, and with
2 where nothing can be checked.
"""

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from tests.gpu.checks.machine import Machine, Row

ROOT = Path(__file__).parents[2]
OUT = ROOT / "build" / "gpu-check"

PACKING_SECONDS = 25.0
"""Of the minutes, left for packing what was recorded."""

PATIENCE = 3.0
"""A check may take as many times as long as is expected of it."""

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
    """How long it takes on a GPU, with 16 slow cores beside it."""
    rows: Callable[[Machine], Iterator[Row]]


def checks() -> tuple[Check, ...]:
    """All of them, in the order of their worth."""
    from tests.gpu.checks import measured, planted, same_results, surroundings

    return (
        Check(1, "same results", 45, same_results.same_results),
        Check(2, "hooks", 45, measured.hooks),
        Check(2, "whole runs", 55, measured.whole_runs),
        *(
            Check(3, f"planted {case.name}", 10, partial(planted.is_named, case))
            for case in planted.CASES
        ),
        Check(5, "readings", 5, measured.readings),
        Check(6, "telemetry", 15, surroundings.telemetry),
        Check(6, "doctor", 6, surroundings.doctor),
        *(
            Check(
                4,
                f"fix {case.fix}",
                45 if case.fix == "compile" else 25,
                partial(planted.is_mended, case),
            )
            for case in planted.FIXES
        ),
        Check(6, "probe", 20, surroundings.probe),
        Check(6, "NVTX", 25, surroundings.nvtx),
        *(
            Check(3, f"mended {case.name}", 10, partial(planted.is_left_alone, case))
            for case in planted.CASES
        ),
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


def rows_of(check: Check, machine: Machine, log: Path, limit: float) -> Iterator[Row]:
    """The rows of a check in a process of its own, as they come; it is ended after ``limit``
    seconds."""
    from tests.gpu.checks.machine import Row, State

    # Forked: a new interpreter would take seconds to import what all checks share. No torch is
    # imported here, and nothing has touched the GPU.
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=run_one, args=(check, machine, log, sender))
    process.start()
    sender.close()
    until = time.monotonic() + limit
    count, is_late = 0, False
    try:
        while not (is_late := not receiver.poll(max(until - time.monotonic(), 0))):
            yield Row.decode(receiver.recv_bytes().decode())
            count += 1
    except EOFError:
        process.join()
    finally:
        _end(process)
    if is_late:
        yield Row(check.name, State.FAILED, f"stopped after {limit:.0f} s")
    elif process.exitcode or not count:
        said = log.read_text(errors="replace").strip().splitlines()[-1]
        yield Row(check.name, State.FAILED, f"exit code {process.exitcode}: {said}")


def run_one(check: Check, machine: Machine, log: Path, sender: Connection) -> None:
    """Run one check, and send its rows; what else it says goes to the log."""
    from tests.gpu.checks.machine import CheckError, Row, State

    os.setsid()
    with log.open("a") as errors:
        errors.write(f"== {check.name}\n")
        errors.flush()
        os.dup2(errors.fileno(), sys.stderr.fileno())
    try:
        for row in check.rows(machine):
            sender.send_bytes(row.encode().encode())
    except CheckError as error:
        sender.send_bytes(Row(check.name, State.FAILED, str(error)).encode().encode())


def _end(process: BaseProcess) -> None:
    """End a check with all commands that it has started; a training under perftui ends by the
    first signal."""
    for number, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, 5)):
        with contextlib.suppress(ProcessLookupError, PermissionError, TypeError):
            os.killpg(process.pid or 0, number)
        process.join(seconds)


class Told:
    """The table so far: printed line by line, and written at the end."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._lines: list[str] = []
        self._rows: list[dict[str, Any]] = []

    def say(self, line: str = "") -> None:
        """A line of text alone."""
        self._lines.append(line)
        print(line, flush=True)

    def add(self, group: int, row: Row, seconds: float) -> None:
        """A row, with the seconds since the one before it."""
        self.say(f"{row.state.value:<9}{group} {row.name:<44} {seconds:5.1f} s  {row.text}")
        known = {"group": group, "name": row.name, "state": row.state.value, "text": row.text}
        self._rows.append({**known, "seconds": round(seconds, 2), "values": row.values})

    def count(self, *states: str) -> int:
        """Rows in one of ``states``."""
        return sum(row["state"] in states for row in self._rows)

    def write(self, facts: dict[str, Any]) -> None:
        """Write the table and its JSON."""
        (self._out / "table.txt").write_text("\n".join(self._lines) + "\n")
        told = {"machine": facts, "rows": self._rows}
        (self._out / "results.json").write_text(json.dumps(told, indent=1, default=str) + "\n")


def run_all(given: argparse.Namespace, facts: dict[str, Any], started: float) -> int:
    """Run the list, print and write the table; the exit code."""
    from tests.gpu.checks.archive import pack
    from tests.gpu.checks.machine import Row, State

    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("recordings-*.tar"), out / "log.txt"):
        old.unlink(missing_ok=True)
    told = Told(out)
    told.say(", ".join(f"{name} {value}" for name, value in facts.items() if value is not None))
    until = started + 60 * given.minutes - PACKING_SECONDS
    wanted = [check for check in checks() if _is_chosen(check.name, given.only)]
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as scratch:
        machine = make_machine(Path(scratch).resolve(), is_played=given.played)
        try:
            for check in wanted:
                left = until - time.monotonic()
                if left < check.seconds and not given.played:
                    text = f"takes {check.seconds:.0f} s, {max(left, 0):.0f} s are left"
                    told.add(check.group, Row(check.name, State.NOT_DONE, text), 0.0)
                    continue
                limit = min(PATIENCE * check.seconds, left)
                before = time.monotonic()
                for row in rows_of(check, machine, out / "log.txt", limit):
                    now = time.monotonic()
                    told.add(check.group, row, now - before)
                    before = now
        except KeyboardInterrupt:
            told.say("interrupted; what was done is kept")
        finally:
            left_out = pack(machine, out)
            if left_out:
                told.say(f"too large to keep: {', '.join(left_out)}")
            states = ("ok", "wrong", "failed", "unknown", "not done")
            told.say(", ".join(f"{told.count(state)} {state}" for state in states))
            took = time.monotonic() - started
            told.say(f"{took:.0f} s; {out}")
            told.write({**facts, "seconds": round(took)})
    return 1 if told.count("wrong", "failed") else 0


def _is_chosen(name: str, only: Sequence[str]) -> bool:
    return not only or any(word in name for word in only)


class NothingToCheckError(Exception):
    """The message says what is missing, and what to do."""


def torch_facts() -> dict[str, Any]:
    """What torch says of this machine.

    Raises:
        NothingToCheckError: there is no torch, or it sees no GPU.
    """
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
    The directory that it is installed into.

    Raises:
        NothingToCheckError: it cannot be installed or imported.
    """
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
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, *([before] if before else [])])
    probe = (sys.executable, "-c", "import perftui.report.report, perftui_tui.cli, libcst, psutil")
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
        return run_all(given, facts, started)


if __name__ == "__main__":
    sys.exit(main())
