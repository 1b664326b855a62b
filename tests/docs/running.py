"""How commands of the documents are run: where, what they print, and each training once."""

import io
import os
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from perftui.experiments import trial_runs
from perftui.recorder import launch
from perftui.recorder.launch import Launch, start
from perftui.run.reader import RunReader
from perftui_tui.cli import main
from perftui_tui.commands import run
from tests.core.report.test_special_reports import three_lines, write_metrics, write_snapshot
from tests.tui.recorded import ENDED, write_run, write_script
from tests.tui.traces import write_trace


@dataclass(frozen=True)
class Printed:
    """What a command prints on stdout, on both streams in their order, and its exit code."""

    out: str
    both: str
    code: int


class Both(io.StringIO):
    """Keeps what is written, and adds it to what ``both`` keeps."""

    def __init__(self, both: io.StringIO) -> None:
        super().__init__()
        self._both = both

    def write(self, text: str) -> int:
        self._both.write(text)
        return super().write(text)


def printed(words: list[str]) -> Printed:
    both = io.StringIO()
    with redirect_stdout(Both(both)) as out, redirect_stderr(Both(both)):
        code = main(words)
    return Printed(out.getvalue(), both.getvalue(), code)


IDS = "20231114-221320-train", "20231114-231320-train"


def write_place(place: Path) -> None:
    """Write them into ``place``: the second run waits for data for a sixth of the time."""
    script = write_script(place)
    runs = place / ".perftui" / "runs"
    made = {"script": script, "loader_line": 4, "cwd": str(place), **ENDED}
    write_run(runs, run_id=IDS[0], **made)
    write_run(runs, run_id=IDS[1], wait_ms=20, **made)
    write_trace(place)
    write_snapshot(place / "snapshot.pickle", three_lines())
    write_metrics(place / "kernels.csv", [("gemm", "1000", "80", "30", "50")])


SECOND = 1_000_000_000


class Recordings:
    """Stands in for ``perftui.recorder.launch.start``.

    A launch that differs in nothing, of a script that does not either, gives the run that is there
    already. So the pairs of a trial take two runs in place of thirteen."""

    PLACES = ((launch, "start"), (run, "start"), (trial_runs, "start"))
    """Where it is called."""

    def __init__(self, script: Path) -> None:
        self.script = script
        self.asked: list[Launch] = []
        self._made: dict[tuple[str, bytes], Path] = {}

    def __call__(self, launch: Launch) -> Path:
        self.asked.append(launch)
        key = repr(launch), self.script.read_bytes()
        if key not in self._made:
            self._made[key] = start(launch)
        elif not launch.options.losses:  # which trials alone ask for
            self._backdate(self._made[key])
        return self._made[key]

    def _backdate(self, root: Path) -> None:
        """A script that was written after a run is not what ran."""
        began = RunReader(root).poll().manifest.started_ns - SECOND
        os.utime(self.script, ns=(began, began))
