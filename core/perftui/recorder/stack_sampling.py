"""Has py-spy look at the training's main thread, piece after piece, into the rank's journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

import perftui
from perftui.recorder.faults import FaultLog
from perftui.recorder.pyspy import REFUSED, Outcome, PySpy, find_pyspy
from perftui.recorder.stack_events import StackError, read_stretches, stays
from perftui.recorder.thinning import ThinningSink
from perftui.run.layout import RankLayout
from perftui.run.stacks import STACK_COLUMNS, STACK_TEXT

FIRST_SECONDS = 5
"""Of the first piece: who watches a run waits no longer for its first lines."""

PIECE_SECONDS = 30
"""Of the others: py-spy writes only at the end of a piece, and takes 18 ms of a core to start."""

PIECE_BYTES = 2 * 1024 * 1024
"""Of the journal's pieces: half an hour of looks at ten a second that find a new place each."""

MOST_FAILURES = 3
"""In a row, after which it is left alone: a Python it does not know stays unknown."""

TURN_SECONDS = 0.5
"""Between two looks whether a piece is complete."""

END_SECONDS = 1.0
"""It may take at the end to write what it has: whoever waits for the exit code waits, too."""

ABSENT = (
    "where Python is was not sampled: py-spy is not installed (pip install 'perftui[stacks]'; "
    "--looks 0 asks for none)"
)
NOT_ALLOWED = (
    "where Python is was not sampled: the system does not let py-spy read the training (set "
    "kernel.yama.ptrace_scope to 0, give a container SYS_PTRACE; --looks 0 asks for none)"
)
FAILED = "where Python is was not sampled further: py-spy failed: "

_OURS = str(Path(perftui.__file__).parent / "agent")
"""Our hooks stand on the training's stack; they are no place of its own."""


class StackSampling:
    """Samples the training process of the lowest rank that ``processes`` tells of.

    ``processes`` gives the directory of each process that trains, by its number; one alone is
    sampled, so that the cost does not grow with the ranks. ``say`` is told, once, why there is
    nothing more to come.
    """

    def __init__(
        self,
        rate: int,
        processes: Callable[[], Mapping[int, RankLayout]],
        directory: Path,
        faults: FaultLog,
        say: Callable[[str], object],
    ) -> None:
        self._rate = rate
        self._processes = processes
        self._directory = directory
        self._faults = faults
        self._say = say
        self._has_ended = False
        self._failures = 0
        self._pieces = 0
        self._running: PySpy | None = None
        self._layout: RankLayout | None = None
        self._journal: ThinningSink | None = None

    def turn(self) -> None:
        """Take what a piece left once it is complete, and begin the next."""
        if self._running is not None:
            if self._running.is_running and not self._running.is_late:
                return
            self._take(self._running)
        if not self._has_ended:
            self._begin()

    def interrupt(self) -> None:
        """The training has ended: have the piece that runs written; ``finish`` waits for it."""
        self._has_ended = True
        if self._running is not None:
            self._running.interrupt()

    def finish(self) -> None:
        """Take the last piece and close the journal."""
        self.interrupt()
        if self._running is not None:
            self._take(self._running)
        if self._journal is not None:
            self._journal.close()

    def _begin(self) -> None:
        known = self._processes().items()
        found = {pid: layout for pid, layout in known if psutil.pid_exists(pid)}
        if not found:
            return
        command = find_pyspy()
        if command is None:
            self._end(ABSENT)
            return
        pid = min(found, key=lambda one: int(found[one].root.name.removeprefix("rank-")))
        self._write_to(found[pid])
        seconds = PIECE_SECONDS if self._pieces else FIRST_SECONDS
        output = self._directory / f"stacks-{pid}.json"
        try:
            self._running = PySpy(command, pid, self._rate, seconds, output)
        except OSError as error:
            self._end(f"{FAILED}{error}")

    def _write_to(self, layout: RankLayout) -> None:
        if layout == self._layout:
            return
        if self._journal is not None:
            self._journal.close()
        self._layout = layout
        self._journal = ThinningSink(
            layout.stacks, STACK_COLUMNS, self._faults, text=STACK_TEXT, piece_bytes=PIECE_BYTES
        )

    def _take(self, piece: PySpy) -> None:
        self._running = None
        outcome = piece.collect(END_SECONDS)
        problem = outcome.said if outcome.content is None else self._keep(outcome)
        if problem is None:
            self._failures = 0
            self._pieces += 1
        elif psutil.pid_exists(outcome.pid) and not self._has_ended:
            self._fail(problem)

    def _keep(self, outcome: Outcome) -> str | None:
        """Write what it saw; None, or why it cannot be read."""
        try:
            stretches = read_stretches(outcome.content or b"", outcome.pid, outcome.begun_ns)
        except StackError as error:
            return str(error)
        if self._journal is not None:
            self._journal.append([stay.row() for stay in stays(stretches, _OURS)])
        return None

    def _fail(self, problem: str) -> None:
        self._failures += 1
        if REFUSED in problem:
            self._end(NOT_ALLOWED)
        elif self._failures >= MOST_FAILURES:
            self._end(f"{FAILED}{problem or 'it does not say why'}")

    def _end(self, why: str) -> None:
        self._has_ended = True
        self._say(why)
