"""A training of a week in minutes: what an agent writes, through a real ring to a run directory."""

import os
from pathlib import Path

from perftui.agent.recording.output import Notes, create_ring
from perftui.recorder.drain import SpoolDrain
from perftui.recorder.sink import DownsamplingSink, FaultLog
from perftui.run.layout import create_run_directory
from perftui.run.manifest import Manifest, write_manifest
from perftui.telemetry.processes import PROCESS_COLUMNS
from perftui.telemetry.source import TIME
from perftui.wire import ring as rings
from perftui.wire.spool import Spool

SECONDS = 7 * 86_400
HOST = "elsewhere"
"""Not this one, whose process list would say that the recorder of the run is gone."""

AT_ONCE = 4000
"""Steps between two polls of the recorder: half of what the ring holds."""

GC_EVERY, EPOCH = 10, 500


class Week:
    """``steps`` steps spread over a week, each with four records or more; a sample every second.

    Every ``EPOCH`` steps workers start anew, as the agent notes. What was written is counted.
    ``sample_every`` makes it fewer samples, by so many seconds each."""

    def __init__(self, directory: Path, steps: int, sample_every: int = 1) -> None:
        self.layout = create_run_directory(directory / "runs", "r")
        manifest = Manifest("r", ("python", "t.py"), "/w", 5, HOST)
        write_manifest(self.layout.manifest, manifest)
        self.spool = Spool(directory / "spool")
        self.spool.root.mkdir()
        self.log = directory / "log"
        faults = FaultLog(self.log)
        self.step = self.pauses = self.paused = self.duration = self.waited = self.sampled = 0
        self._sample_every = sample_every
        self._apart = SECONDS * 1_000_000_000 // steps
        facts = {"pid": os.getpid(), "rank": 0, "world_size": 1}
        self._ring = create_ring(self.spool.root / f"ring-{os.getpid()}", facts)
        self._notes = Notes(self.spool.root)
        self._drain = SpoolDrain(self.spool, self.layout, faults, lambda _note: None)
        self._samples = DownsamplingSink(
            self.layout.telemetry(HOST), (TIME, *PROCESS_COLUMNS), faults, floats=True
        )

    def go_on(self, steps: int) -> None:
        """Train ``steps`` steps more."""
        until = self.step + steps
        while self.step < until:
            for _ in range(min(AT_ONCE, until - self.step)):
                self._train()
            self._drain.poll()
            self._sample()

    def finish(self) -> None:
        """The training ends."""
        self._drain.finish()
        self._samples.close()

    def _train(self) -> None:
        step, write = self.step, self._ring.write
        start = step * self._apart
        duration, wait = 10**6 + step * 7919 % 10**5, 1000 + step % 13
        write(rings.INPUT_WAIT, start, wait, step, 2)
        write(rings.FORWARD, start + 2000, 300_000, step)
        write(rings.BACKWARD, start + 400_000, 300_000, step)
        if step % GC_EVERY == 0:
            write(rings.GC, start + 800_000, 500, step, step // GC_EVERY % 3)
            self.pauses += 1
            self.paused += 500
        if step % EPOCH == 0:
            pids = [step // EPOCH % 2 + 2 * worker for worker in range(8)]
            self._notes.write("loader", {"id": 1, "workers": pids})
        write(rings.STEP, start, duration, step, 1)
        self.duration += duration
        self.waited += wait
        self.step += 1

    def _sample(self) -> None:
        count = self.step * self._apart // (self._sample_every * 1_000_000_000)
        rows = [
            [
                number * self._sample_every * 1_000_000_000,
                *(float(number % 97) for _ in PROCESS_COLUMNS),
            ]
            for number in range(self.sampled, count)
        ]
        self._samples.append(rows)
        self.sampled = count


def size_of(directory: Path) -> int:
    """Bytes of all files below ``directory``."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
