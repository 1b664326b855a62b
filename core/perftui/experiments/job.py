"""A trial in a process of its own: it outlives whoever began it, and can be taken up again."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import psutil

from perftui.experiments.journal import keep_proof
from perftui.experiments.rerun import repeat_launch, rerun_launch
from perftui.experiments.trial import trial
from perftui.experiments.trial_runs import (
    NO_PAIRS,
    STOP_SECONDS,
    NextRun,
    Progress,
    TrialCancelledError,
    TrialError,
    TrialSetup,
    run_at,
)
from perftui.experiments.trial_verdict import Stage, next_look
from perftui.fixes.option import FixOption
from perftui.recorder.launch import reap, start_in_run
from perftui.run.control import STOP, request
from perftui.run.files import UnreadableError, read_regular, replace_file
from perftui.run.layout import PRIVATE_MODE, TRIAL_FILE, RunLayout, trials_of
from perftui.run.manifest import ManifestError, StopReason, run_state, wait_until_over
from perftui.run.reader import RunSnapshot

STOP_FILE = "trial.stop"
"""A file whose presence asks the trial to stop."""

LARGEST = 1 << 24
"""Most bytes of the file: it holds the text of a patch."""

POLL_SECONDS = 0.2

MOST_FILES = 20_000
"""Files below the working directory beyond which it is not known whether the source changed."""


@dataclass(frozen=True)
class Job:
    """A trial at one moment, as its process wrote it; times are ns since the epoch."""

    root: str
    """The run on whose training the fix is tried."""
    option: FixOption
    steps: int
    """Steps of each run."""
    began_ns: int
    key: str = ""
    """The same for trials whose pairs may be put together; empty where that is not known."""
    stage: Stage = Stage.RUNNING
    problem: str = ""
    """Why it failed, or what went wrong beside it."""
    pid: int = 0
    """The process, 0 before it runs."""
    progress: Progress = NO_PAIRS
    run: NextRun | None = None
    """The run that is made now; None before the first."""
    run_began_ns: int = 0
    made: tuple[tuple[NextRun, float], ...] = ()
    """The runs so far, oldest first, with the seconds that each took."""
    earlier: int = 0
    """Pairs that an earlier trial of the same had made."""

    @property
    def tried(self) -> FixOption:
        """The option that is tried: runs may show another number of workers to be best."""
        return self.progress.option or self.option

    def begin_run(self, following: NextRun, now_ns: int) -> Job:
        """The trial once the run before is over and the ``following`` begins."""
        took = () if self.run is None else ((self.run, (now_ns - self.run_began_ns) / 1e9),)
        return replace(self, run=following, run_began_ns=now_ns, made=(*self.made, *took))


def read_job(root: Path) -> Job | None:
    """The trial of the run at ``root`` that was begun last, ``STOPPED`` where its process is gone;
    None where there is none that can be read."""
    job = _read(trials_of(root))
    if job is None or job.stage.is_over or _is_alive(job):
        return job
    # It may have ended since it was read.
    job = _read(trials_of(root))
    return replace(job, stage=Stage.STOPPED) if job and not job.stage.is_over else job


def running_trial(root: Path) -> str:
    """What the trial of the run at ``root`` that goes on tries; empty where none does."""
    job = read_job(root)
    return job.option.title if job is not None and not job.stage.is_over else ""


def _read(directory: Path) -> Job | None:
    try:
        text = read_regular(directory / TRIAL_FILE, LARGEST)
        return msgspec.json.decode(text, type=Job, dec_hook=lambda _, path: Path(path))
    except (OSError, UnreadableError, msgspec.DecodeError):
        return None


def _is_alive(job: Job) -> bool:
    """Whether the process of ``job`` is there, or may not be yet."""
    if not job.pid:
        return time.time_ns() - job.began_ns < 60e9
    try:
        # A later process may have its number.
        return bool(psutil.Process(job.pid).create_time() * 1e9 < job.began_ns + 60e9)
    except psutil.Error:
        return False


def _write(directory: Path, job: Job) -> None:
    directory.mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
    replace_file(directory / TRIAL_FILE, msgspec.json.encode(job, enc_hook=str))


def begin(run: RunSnapshot, option: FixOption, steps: int) -> Job:
    """Begin to try ``option`` on the training of ``run`` in runs of so many ``steps``, with the
    pairs of an earlier trial of the same command and source that came to no result.

    Raises:
        TrialError: another trial of the run goes on.
        ForeignRunError: the run may be somebody else's, and so may its command.
        ValueError: the option cannot be tried without writing it.
        OSError: no process can be started.
    """
    directory, last = trials_of(run.root), read_job(run.root)
    if last is not None and not last.stage.is_over:
        raise TrialError(f"a trial of {last.option.title} is running")
    key = _key(run, option, steps)
    job = Job(str(run.root), option, steps, time.time_ns(), key)
    if last and key and last.key == key and _goes_on(last.progress):
        job = replace(job, progress=last.progress, earlier=len(last.progress.pairs))
    (directory / STOP_FILE).unlink(missing_ok=True)
    _write(directory, job)
    start_process(run.root)
    return job


def _goes_on(progress: Progress) -> bool:
    is_open = not progress.verdict.outcome.is_decided and next_look(len(progress.pairs)) is not None
    return is_open and bool(progress.pairs) and progress.block_steps is None


def start_process(root: Path) -> None:
    """Start the process of the trial that was written for the run at ``root``."""
    reap(start_in_run(RunLayout(root), "perftui.experiments.job", close_fds=True))


def follow(root: Path, cancelled: threading.Event, left: threading.Event) -> Iterator[Job]:
    """The trial of the run at ``root`` whenever it has changed, until it is over or nobody looks
    any more (``left``). It is asked to stop once ``cancelled`` is set. Raises OSError if it cannot
    be asked."""
    before: Job | None = None
    while not left.is_set():
        if cancelled.is_set():
            (trials_of(root) / STOP_FILE).touch(0o600)
        job = read_job(root)
        if job is None:
            return
        if job != before:
            yield job
            before = job
        if job.stage.is_over:
            return
        left.wait(POLL_SECONDS)


def _key(run: RunSnapshot, option: FixOption, steps: int) -> str:
    """A digest of what both launches run, on which host, and of the source; empty if unknown."""
    before, after = repeat_launch(run, option), rerun_launch(run, option)
    folders = {before.cwd, *(before.cwd / word for word in before.command[1:2])}
    files = _sources([path if path.is_dir() else path.parent for path in folders])
    if files is None:
        return ""
    same = [before.command, before.cwd, before.overrides, after.command, after.overrides]
    what: list[Any] = [*same, option.title, steps, socket.gethostname(), files]
    return hashlib.sha256(msgspec.json.encode(what, enc_hook=str)).hexdigest()


def _sources(folders: list[Path]) -> list[tuple[str, int, int]] | None:
    """Path, size and time of each Python file below ``folders``; None where there are too many."""
    found, seen = set[tuple[str, int, int]](), 0
    for folder in folders:
        for place, inner, names in os.walk(folder):
            inner[:] = [name for name in inner if not name.startswith((".", "__pycache__"))]
            seen += len(names) + len(inner)
            if seen > MOST_FILES:
                return None
            for path in (Path(place, name) for name in names if name.endswith(".py")):
                status = path.stat()
                found.add((str(path), status.st_size, status.st_mtime_ns))
    return sorted(found)


class _Written:
    """The trial as it stands, written at each change."""

    def __init__(self, directory: Path, job: Job) -> None:
        self.directory, self.job = directory, job

    def change(self, **changes: Any) -> None:
        self.job = replace(self.job, **changes)
        _write(self.directory, self.job)

    def begin_run(self, following: NextRun) -> None:
        self.job = self.job.begin_run(following, time.time_ns())
        self.change()


def work(root: Path, cancelled: threading.Event) -> None:
    """Make the runs of the trial that was written for the run at ``root``, and write how it stands;
    it ends early where it is asked to stop, or ``cancelled`` is set."""
    directory, over = trials_of(root), threading.Event()
    job = _read(directory)
    if job is None:
        return
    written = _Written(directory, job)
    threading.Thread(target=_watch, args=(directory, cancelled, over), daemon=True).start()
    stage, problem = Stage.FAILED, "its process was ended"
    try:
        written.change(pid=os.getpid())
        _end_strays(directory)
        _try(run_at(root), written, cancelled)
        stage, problem = Stage.DONE, ""
    except TrialCancelledError:
        stage, problem = Stage.STOPPED, ""
    except (TrialError, ManifestError, OSError, ValueError) as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - whoever follows it has to learn of it
        problem = f"it ended with an internal error: {error!r}"
        traceback.print_exc()
    finally:
        over.set()
        written.change(stage=stage, problem=problem)


def _end_strays(directory: Path) -> None:
    """Stop trainings of a trial whose process was killed: nobody waits for them."""
    for root in directory.glob("*/"):
        with suppress(ManifestError):
            if not run_state(root).status.is_over:
                request(RunLayout(root), STOP, reason=StopReason.TRIAL)
                wait_until_over(root, STOP_SECONDS)


def _try(run: RunSnapshot, written: _Written, cancelled: threading.Event) -> None:
    job, directory = written.job, written.directory
    setup = TrialSetup(directory, job.steps, cancelled, written.begin_run)
    title, key = job.option.title, job.key
    for progress in trial(run, job.option, setup, earlier=job.progress):
        tried = progress.option or job.option
        if tried.title != title:
            # The number of workers that was found to be best is offered from now on.
            title, key = tried.title, _key(run, tried, job.steps)
        written.change(progress=progress, key=key)
        keep_proof(tried, progress, directory, time.time_ns())


def _watch(directory: Path, cancelled: threading.Event, over: threading.Event) -> None:
    """Cancel the trial once it is asked to stop."""
    while not over.wait(POLL_SECONDS):
        if (directory / STOP_FILE).exists():
            cancelled.set()


def main(root: str) -> None:
    """The process of a trial: a signal to end stops its training first."""
    cancelled = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: cancelled.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    work(Path(root), cancelled)


if __name__ == "__main__":
    main(sys.argv[1])
