"""What the user does to runs: capture a window, stop, try a fix, write it, run again, compare."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.dialogs.fix import TEXT_WIDTH, YES, TrialDialog, WriteDialog, describe
from perftui_tui.rows import Row, row, wrap

if TYPE_CHECKING:
    from textual.geometry import Size

    from perftui.diagnosis.model import Finding
    from perftui.fixes.apply import AppliedPatch
    from perftui.fixes.model import FixOption, Patch
    from perftui.run.reader import RunSnapshot
    from perftui_tui.app import PerftuiApp
    from perftui_tui.snapshot import Snapshot


@dataclass(frozen=True)
class Change:
    """What a run again does differently; ``option`` is None where it is only repeated."""

    label: str
    option: FixOption | None = None
    form: str = "override"
    """One of ``experiments.rerun.Form``."""


@dataclass(frozen=True)
class Written:
    """A patch that stands in the source, and where its original is kept."""

    applied: AppliedPatch
    store: Path
    option: FixOption


class Trials:
    """The app's dealings with the recorder and the fixes; all slow work is on threads."""

    def __init__(self, app: PerftuiApp) -> None:
        self._app = app
        self.before: Snapshot | None = None
        """The newest picture of the run that the one on screen is compared with."""
        self.change: Change | None = None
        """What was tried last."""
        self.written: Written | None = None
        """What ``u`` undoes, where it was written in this session."""
        self._windows_awaited: int | None = None
        self._size: Size | None = None
        self._compare_when_steady = False

    @property
    def written_path(self) -> str | None:
        """The source file that was written in this session."""
        return self.written.applied.path if self.written else None

    # Watching the run on screen

    def watch(self, snapshot: Snapshot) -> None:
        """Notice a captured window, and a trial that has steps enough to be compared."""
        count = _window_count(snapshot)
        if self._windows_awaited is not None and count > self._windows_awaited:
            self._windows_awaited = None
            self._app.notify("captured: the timeline and the ops show the new window")
        steady = snapshot.diagnosis.steady_steps
        enough = steady >= COMPARABLE_STEPS or (steady > 0 and not snapshot.phase.is_live)
        if self._compare_when_steady and enough:
            self._compare_when_steady = False
            self._app.action_show("compare")

    def request_capture(self, snapshot: Snapshot) -> None:
        """Ask the recorder for a window."""
        if self._request("capture"):
            self._windows_awaited = _window_count(snapshot)
            self._app.notify("requested: a window is profiled at the next step")

    def request_stop(self) -> None:
        """Ask the recorder to interrupt the training."""
        self._request("stop")

    def _request(self, kind: str, **data: int) -> bool:
        """Whether the request could be left for the recorder; else why not is said."""
        from perftui.run.control import request
        from perftui.run.layout import RunLayout

        try:
            request(RunLayout(self._app.target), kind, **data)
        except OSError as error:
            self._warn(f"the run cannot be reached: {error}")
            return False
        return True

    def resized(self, size: Size) -> None:
        """Give the script's terminal the size of ours: progress bars follow it."""
        # The first size is the one the script was started with.
        before, self._size = self._size, size
        snapshot = self._app.snapshot
        if before in (None, size) or snapshot is None or snapshot.run is None:
            return
        if snapshot.phase.is_live:
            self._request("resize", rows=size.height, columns=size.width)

    # Trying a fix

    def offer(self, finding: Finding | None, option: FixOption | None) -> None:
        """Show what a trial would do, and start it on yes."""
        snapshot = self._app.snapshot
        if snapshot is None or snapshot.manifest is None:
            self._warn("a trace cannot be run again: start the script with perftui")
            return
        options = snapshot.fixes(finding) if finding is not None else ()
        option = option or next((one for one in options if one.override or one.argv), None)
        if option is None or not (option.override or option.argv):
            self._warn(_why_no_trial(option, options))
            return
        form = "override" if option.override else "command"
        self._ask(Change(option.title, option, form), describe(option))

    def run_again(self) -> None:
        """Run again with what was tried last, or with the source as it is now."""
        snapshot = self._app.snapshot
        if snapshot is None or snapshot.manifest is None:
            self._warn("a trace cannot be run again: start the script with perftui")
            return
        change = self.change or Change("the source as it is now")
        if self.written is not None:
            name = Path(self.written.applied.path).name
            change = Change(f"{name} as written", self.written.option, "source")
        self._ask(change, [row("With ", (change.label, "bold"))])

    def _ask(self, change: Change, body: list[Row]) -> None:
        snapshot = self._app.snapshot
        if snapshot is None or snapshot.run is None:
            return
        run = snapshot.run

        def answered(answer: str | None) -> None:
            if answer == YES:
                self._start(snapshot, run, change)

        command = run.manifest.command
        if change.form == "command" and change.option is not None:
            command = change.option.argv or command
        running = snapshot.phase.is_live
        steady = snapshot.diagnosis.steady_steps
        if running and steady < COMPARABLE_STEPS:
            body = [*body, (), *wrap(_too_early(steady), TEXT_WIDTH, "warn")]
        self._app.push_screen(TrialDialog(body, command, running), answered)

    def _start(self, snapshot: Snapshot, run: RunSnapshot, change: Change) -> None:
        self.before, self.change = snapshot, change
        self._app.notify(f"starting again with {change.label}", markup=False)

        def start() -> None:
            from perftui.experiments.rerun import Form
            from perftui_tui.rerun import run_again

            root = run_again(run, change.option, Form(change.form))
            self._app.call_from_thread(self._started, root)

        self._app.run_worker(start, thread=True, exclusive=True, exit_on_error=False)

    def _started(self, root: Path) -> None:
        self._compare_when_steady = True
        self._app.is_replay = False
        self._app.open(root)

    # The baseline

    def find_baseline(self) -> None:
        """Compare with the run that the one on screen repeats, where none was chosen."""
        snapshot = self._app.snapshot
        parent = snapshot.manifest.parent if snapshot and snapshot.manifest else None
        if self.before is None and snapshot is not None and parent:
            self._read_baseline(snapshot.source.with_name(parent))

    def choose_baseline(self) -> None:
        """Ask which recorded run to compare with."""
        from perftui.run.history import list_runs
        from perftui_tui.dialogs.baseline import BaselineDialog

        snapshot = self._app.snapshot
        if snapshot is None or snapshot.run is None:
            self._warn("a trace cannot be compared: only recorded runs can")
            return
        runs = snapshot.source.parent
        entries = [e for e in list_runs(runs) if e.manifest and e.root != snapshot.source]
        if not entries:
            self._warn(f"there is no other run in {runs}")
            return

        def answered(run_id: str | None) -> None:
            if run_id:
                self._read_baseline(runs / run_id)

        self._app.push_screen(BaselineDialog(entries), answered)

    def _read_baseline(self, root: Path) -> None:
        def read() -> None:
            from perftui_tui.run_view import read_once

            before = read_once(root)
            self._app.call_from_thread(self._compare_with, before)

        self._app.run_worker(read, thread=True, exit_on_error=False)

    def _compare_with(self, before: Snapshot) -> None:
        self.before = before
        self._app.refresh_screen()

    # Writing a fix

    def write(self, option: FixOption | None) -> None:
        """Show the diff of ``option``, or of the fix tried last, and write it on yes."""
        option = option or (self.change.option if self.change else None)
        if option is None or option.patch is None:
            self._warn((option.why_not or option.advice) if option else "no fix is chosen")
            return
        chosen, patch = option, option.patch

        def answered(answer: str | None) -> None:
            if answer == YES:
                self._write(chosen, patch)

        self._app.push_screen(WriteDialog(option, patch), answered)

    def _write(self, option: FixOption, patch: Patch) -> None:
        from perftui.fixes.apply import SourceChangedError, apply_patch

        store = patch_store(self._app.target)
        try:
            applied = apply_patch(patch, store, option.title)
        except (SourceChangedError, OSError) as error:
            self._say_error(error)
            return
        self.written = Written(applied, store, option)
        self._app.notify(f"{patch.path.name} written; u undoes, r runs it again", markup=False)
        self._app.refresh_screen()

    def undo(self) -> None:
        """Restore the source that was written last, in this session or an earlier one."""
        from perftui.fixes.apply import SourceChangedError, last_applied, undo

        store = patch_store(self._app.target)
        applied = last_applied(store) if self.written is None else self.written.applied
        if applied is None:
            self._warn("nothing has been written to the source")
            return
        try:
            path = undo(applied, self.written.store if self.written else store)
        except (SourceChangedError, OSError) as error:
            self._say_error(error)
            return
        self.written = None
        self._app.notify(f"{path.name} restored byte for byte", markup=False)
        self._app.refresh_screen()

    def _say_error(self, error: Exception) -> None:
        self._app.notify(str(error), severity="error", markup=False, timeout=10)

    def _warn(self, text: str) -> None:
        self._app.notify(text, severity="warning", markup=False)


COMPARABLE_STEPS = 20
"""Steady steps from which a trial is shown beside its baseline: what a critical finding needs."""


def _too_early(steady: int) -> str:
    return (
        f"This run has {steady} of the {COMPARABLE_STEPS} steady steps that a comparison needs; "
        "stopped now, it cannot serve as the baseline. Wait a little, then try again."
    )


def patch_store(root: Path) -> Path:
    """Where originals are kept: beside the runs, or in the run itself where it lies elsewhere."""
    if root.parent.name == "runs" and root.parent.parent.name == ".perftui":
        return root.parent.parent / "patches"
    return root / "patches"


def _window_count(snapshot: Snapshot) -> int:
    rank = snapshot.rank
    return len(rank.windows) if rank else 0


def _why_no_trial(option: FixOption | None, options: tuple[FixOption, ...]) -> str:
    first = option or (options[0] if options else None)
    if first is None:
        return "there is no fix to try for this"
    return first.why_not or first.advice or "this fix cannot be tried at run time"
