"""Records one run, from its first moment to its last: what begins and what ends with it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from perftui.recorder.drain import SpoolDrain
from perftui.recorder.launch import (
    git_state,
    options_of,
    patched_command,
    start_diagnosis,
    training_environment,
)
from perftui.recorder.machine_sampling import Heartbeat, MachineSampling
from perftui.recorder.nsys import below_nsys
from perftui.recorder.pyspy import CHECK_SECONDS, StackSampling, tracer
from perftui.recorder.relay import OutputLog
from perftui.recorder.sink import FaultLog, LiveManifest, Repeating
from perftui.recorder.spool import Note, SpoolDirectory
from perftui.recorder.training import (
    Command,
    Silence,
    StartError,
    families,
    left_behind_message,
    living,
    no_start,
)
from perftui.run.columns import ASKED, INNER_EVERY, NO_STACKS, stack_rate_of
from perftui.run.control import BEAT_SECONDS
from perftui.run.layout import RunLayout
from perftui.run.manifest import Status, StopReason, read_manifest, recorded_by_this_process
from perftui.wire.spool import DETAILS

DRAIN_SECONDS = 0.25
"""Seconds between reads of the rings: with the second a step may wait for its last records, a
killed recorder loses little more than a second."""

SAMPLE_SECONDS = 0.5
"""Seconds between samples of the machine: one takes 1.5 ms of a core with one process to watch, 4
ms with forty, without a GPU (``tests/verify/benchmarks/bench_sampler.py``)."""

JUDGED = 2, 4
"""Windows after which a run that nobody watches is diagnosed for what the next one should record:
each time takes 1 s of a core, more with large windows, at the lowest priority."""

PATIENCE = 2.0
"""Seconds for unanswered questions when the training ends: a driver that lost its card never
answers, and the script's exit code must not wait for that."""


class RunRecorder:
    """Records the run that is prepared in ``layout``.

    ``begin`` once the training has started (no thread runs before), ``end`` when it has ended. The
    manifest names our process from the start: later readers can see that we are gone.

    Raises:
        StartError: there is no room for the spool; the manifest says so, too.
    """

    def __init__(self, layout: RunLayout) -> None:
        manifest = recorded_by_this_process(read_manifest(layout.manifest))
        self.layout = layout
        self.faults = FaultLog(layout.recorder_log)
        self.manifest = LiveManifest(layout.manifest, manifest, self.faults)
        self.manifest.update()
        try:
            with no_start("there is no directory to record to"):
                self.output = OutputLog(layout.output, self.faults)
                self._spool = SpoolDirectory()
        except StartError as error:
            self._conclude_unstarted(str(error))
            raise
        self._drain = SpoolDrain(self._spool.spool, layout, self.faults, self._know_process)
        self._repeated: list[tuple[Repeating, Callable[[], object]]] = []
        """Repeated work, and its last call at the end."""
        self._reported: dict[str, str] = {}
        """Problems of this recording, by subject."""
        self._judged = 0
        """Windows at the last diagnosis."""
        self._is_ending = threading.Event()
        self._git = threading.Thread(target=self._ask_git, name="git", daemon=True)

    def command(self, restore: Callable[[], None]) -> Command:
        """The command of the run, with the agent in its environment, below nsys if requested.

        ``restore`` resets signals in the child before it begins.

        Raises:
            StartError: nsys cannot be used here.
            OSError: the spool cannot be written.
        """
        manifest, spool = self.manifest.current, self._spool.spool.root
        requested = options_of(manifest.profile)
        traced, spared = tracer(stack_rate_of(manifest.profile)), str(self.layout.spared.resolve())
        options = replace(requested, tracer=traced, spared=spared if requested.spares_files else "")
        environment = training_environment(os.environ, spool, options, manifest.overrides)
        words = patched_command(manifest.command, manifest.overrides)
        command = Command(words, Path(manifest.cwd), environment, restore)
        return below_nsys(command, self.layout, spool) if options.nsys else command

    def begin(self, pid: int) -> None:
        """The training runs as ``pid``."""
        self.manifest.update(status=Status.RUNNING, pid=pid)
        spool = self._spool.spool
        self._silence = Silence(pid, partial(self._report, "silence"))
        self._draining = Repeating("drain", DRAIN_SECONDS, self._poll, self.faults)
        machine = MachineSampling(pid, spool, self.layout, self.manifest, self.faults)
        self._repeat("sample", SAMPLE_SECONDS, machine.sample, machine.finish)
        self._stacks = self._begin_stacks()
        heartbeat = Heartbeat(self.layout, self.manifest.current.host, pid, spool.root)
        self._repeat("heartbeat", BEAT_SECONDS, heartbeat.beat, heartbeat.end)
        self._git.start()

    def count_capture(self) -> None:
        """Ask the agents for a window."""
        self._spool.control.requests += 1

    def ask(self, evidence: object) -> None:
        """Ask the agents for windows that record ``evidence`` too, and note that in the manifest.
        Raises ValueError if windows can record nothing of that name."""
        self._spool.control.details |= 1 << DETAILS.index(str(evidence))
        self.manifest.note(ASKED, [*self.manifest.current.profile.get(ASKED, ()), evidence])

    def judge_now_and_then(self) -> None:
        """Diagnose the run while it goes on, where nobody else does."""
        self._repeat("questions", BEAT_SECONDS, self._judge, lambda: None)

    def _judge(self) -> None:
        ranks = self.layout.ranks()
        windows = len(self.layout.rank(ranks[0]).window_files()) if ranks else 0
        if any(self._judged < number <= windows for number in JUDGED):
            self._judged = windows
            start_diagnosis(self.layout)

    def note_stop(self, reason: object) -> None:
        """Record why the training was asked to stop; the first reason stays. Raises ValueError if
        there is no such reason."""
        if reason is not None and self.manifest.current.stop_reason is None:
            self.manifest.update(stop_reason=StopReason(reason))

    def fail(self, message: str) -> None:
        """The training could not be started."""
        self._spool.remove()
        self.output.close()
        self._conclude_unstarted(message)

    def end(self, returncode: int, failure: str) -> None:
        """The training has ended: write everything, and last of all that it is over.

        ``failure`` is why nsys around the command has not started it; empty where it has.
        """
        ended_ns = time.time_ns()
        if failure:
            self.manifest.update(message=failure)
        was_killed = returncode < 0
        left: set[int] = set()
        if not was_killed:
            # Otherwise all processes of the run are about to end.
            self.attempt("what lives on", lambda: left.update(living(self._spool.spool.root)))
        if self._stacks is not None:
            self._stacks.interrupt()
        self._draining.stop()
        self._report_unheard()
        if not was_killed:
            reported = self._drain.leave_behind
            self.attempt("what goes on", lambda: left.difference_update(families(reported())))
        problem = self.attempt("the last records", self._drain.finish)
        if problem:
            self._report("the end", f"the last records could not be written: {problem}")
        for repeating, finish in self._repeated:
            if repeating.stop(PATIENCE):
                self.attempt(f"the last {repeating.name}", finish)
            else:
                hangs = f"it did not answer for {PATIENCE:g} s at the end"
                self.faults.report(repeating.name, hangs)
        self._git.join(PATIENCE)
        self._is_ending.set()
        self._git.join(PATIENCE)
        self.output.flush()
        self.attempt("removal of the spool", self._spool.remove)
        # By now, some ms later, processes that ended with the command are gone.
        self.attempt("what lives on", lambda: self._report("left", left_behind_message(left)))
        self.manifest.update(
            status=Status.KILLED if was_killed else Status.EXITED,
            exit_code=128 - returncode if was_killed else returncode,
            ended_ns=ended_ns,
        )
        self.attempt("start of the diagnosis", self._start_diagnosis)

    def attempt(self, what: str, work: Callable[[], object]) -> str:
        """Call ``work``; an error is written to the log of the recorder, under ``what``.

        Returns the error, empty for none.
        """
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the script's exit code must still be handed on
            problem = f"{type(error).__name__}: {error}"
            self.faults.report(what, problem)
            return problem
        return ""

    def _repeat(
        self, name: str, seconds: float, work: Callable[[], object], finish: Callable[[], object]
    ) -> None:
        """Call ``work`` repeatedly until the end, and then ``finish``."""
        self._repeated.append((Repeating(name, seconds, work, self.faults), finish))

    def _begin_stacks(self) -> StackSampling | None:
        rate = stack_rate_of(self.manifest.current.profile)
        if not rate:
            return None
        place, drain = self._spool.spool.root, self._drain
        stacks = StackSampling(
            rate, drain.training, drain.loading, place, self.faults, self._sample_inside
        )
        self._repeat("stacks", CHECK_SECONDS, stacks.advance, stacks.finish)
        return stacks

    def _sample_inside(self, why: str) -> None:
        """Have the agents take stack samples inside their windows, as nobody can from outside."""
        self.manifest.note(NO_STACKS, why)
        self._spool.control.sample_every = INNER_EVERY

    def _conclude_unstarted(self, message: str) -> None:
        self.manifest.update(status=Status.EXITED, ended_ns=time.time_ns(), message=message)

    def _start_diagnosis(self) -> None:
        if self.layout.ranks():
            start_diagnosis(self.layout)

    def _poll(self) -> None:
        self._drain.poll()
        self._report_unheard()
        self._silence.check()

    def _report_unheard(self) -> None:
        if count := self._spool.control.unheard:
            place = self._spool.spool.root.parent
            message = f"{place} could not be written, so part of the run is not recorded"
            self._report("unheard", f"{message}; processes affected: {count}")

    def _report(self, subject: str, message: str | None) -> None:
        """Show ``message`` about ``subject`` in the run; None withdraws the last one."""
        self._reported[subject] = message or ""
        notes = tuple(filter(None, self._reported.values()))
        if notes != self.manifest.current.notes:
            self.manifest.update(notes=notes)

    def _know_process(self, note: Note) -> None:
        self._silence.end()
        data = note.data
        devices = data.get("devices")
        changes = {
            "python_version": data.get("python"),
            "torch_version": data.get("torch"),
            "gpus": tuple(map(str, devices)) if isinstance(devices, list) else (),
        }
        self.manifest.update(**{name: value for name, value in changes.items() if value})

    def _ask_git(self) -> None:
        commit, is_dirty = git_state(Path(self.manifest.current.cwd), self._is_ending)
        if commit is not None:
            self.manifest.update(git_commit=commit, git_dirty=is_dirty)
