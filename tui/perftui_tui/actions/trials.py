"""Runs the script again, with a fix or as it is now."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.experiments.fewest_steps import FEWEST_STEPS
from perftui_tui.dialogs.choice import YES, Prose
from perftui_tui.dialogs.fix import TrialDialog, describe
from perftui_tui.look.rows import Row, row

if TYPE_CHECKING:
    from textual.geometry import Size

    from perftui.diagnosis.model import Finding
    from perftui.experiments.rerun import Form
    from perftui.fixes.model import FixOption
    from perftui.run.reader import RunSnapshot
    from perftui_tui.actions.baseline import Baseline
    from perftui_tui.actions.host import Host
    from perftui_tui.actions.recorder_requests import RecorderRequests
    from perftui_tui.actions.source_fixes import SourceFixes


@dataclass(frozen=True)
class Change:
    """What a run again does differently; both are None where it is only repeated."""

    label: str
    option: FixOption | None = None
    form: Form | None = None


class Trials:
    """Runs the script again, and shows the comparison once the new run has steps enough.

    One start at a time: two trainings would disturb each other, and asking the old one twice to
    stop would cut its checkpoint short."""

    def __init__(
        self,
        app: Host,
        baseline: Baseline,
        source_fixes: SourceFixes,
        requests: RecorderRequests,
    ) -> None:
        self._app = app
        self._baseline = baseline
        self._source_fixes = source_fixes
        self._requests = requests
        self.change: Change | None = None
        """What was tried last."""
        self.is_starting = False
        """Whether a run is being started, which may first have to wait for the old one's end."""
        self._cancelled = threading.Event()
        self._compare_when_steady = False

    def cancel(self) -> None:
        """Start nothing any more."""
        self._cancelled.set()

    def compare_when_steady(self) -> None:
        """Go to the comparison once a trial has enough steps, unless paused or a dialog is open."""
        app, snapshot = self._app, self._app.snapshot
        if not self._compare_when_steady or snapshot is None or snapshot.source != app.target:
            return
        steady = snapshot.diagnosis.steady_steps
        enough = steady >= FEWEST_STEPS or (steady > 0 and not snapshot.phase.is_live)
        if enough and not app.paused and not app.is_asking:
            self._compare_when_steady = False
            app.action_show("compare")

    def offer(self, finding: Finding | None, option: FixOption | None = None) -> None:
        """Offer ``option``, by default the best fix of ``finding``, and start it on yes."""
        from perftui.experiments.rerun import Form

        snapshot = self._app.snapshot
        if snapshot is None or snapshot.run is None:
            self._app.warn(NO_RUN)
            return
        options = snapshot.fixes(finding) if finding is not None else ()
        option = option or next((one for one in options if one.is_triable), None)
        if option is None or not option.is_triable:
            self._app.warn(_why_no_trial(option, options))
            return
        self._ask(snapshot.run, Change(option.title, option, Form.OVERRIDE), describe(option))

    def run_again(self) -> None:
        """Run again with what was tried last, or with the source as it is now."""
        from perftui.experiments.rerun import Form

        snapshot = self._app.snapshot
        if snapshot is None or snapshot.run is None:
            self._app.warn(NO_RUN)
            return
        written, change = self._source_fixes.written, self.change
        if written is not None:
            name = Path(written.applied.path).name
            change = Change(f"{name} as written", written.option, Form.SOURCE)
        elif change is None or change.form is Form.SOURCE:
            change = Change("the source as it is now")
        self._ask(snapshot.run, change, [row("With ", (change.label, "bold"))])

    def _ask(self, run: RunSnapshot, change: Change, body: list[Row | Prose]) -> None:
        snapshot = self._app.snapshot
        if snapshot is None:
            return
        if self.is_starting:
            self._app.warn("a run is being started already: wait until it shows")
            return
        if run.root != self._app.target:
            self._app.warn("the new run has not shown anything yet: wait until it does")
            return

        def answered(answer: str | None) -> None:
            if answer == YES:
                self._start(run, change)

        running = snapshot.goes_on
        steady = snapshot.diagnosis.steady_steps
        if running and steady < FEWEST_STEPS:
            body = [*body, (), Prose(_too_early(steady), "warn")]
        self._app.ask(TrialDialog(body, run.manifest.command, running), answered)

    def _start(self, run: RunSnapshot, change: Change) -> None:
        self.is_starting, self.change = True, change
        self._app.notify(f"starting again with {change.label}", markup=False)
        size = self._app.size

        def start() -> None:
            from perftui_tui.actions.rerun import StartCancelledError, run_again

            try:
                root = run_again(run, change.option, change.form, size, self._cancelled)
                if self._cancelled.is_set():
                    self._leave_running(root)
                else:
                    self._app.call_from_thread(self._started, root, size)
            except StartCancelledError:
                return
            finally:
                self.is_starting = False

        self._app.on_thread(start)

    def _started(self, root: Path, size: Size) -> None:
        if self._cancelled.is_set():
            self._leave_running(root)
            return
        self._baseline.snapshot = self._app.newest
        self._compare_when_steady = True
        self._requests.started(size)
        self._app.open_own(root)

    def _leave_running(self, root: Path) -> None:
        """The app was left while the run was being started: what is printed on exit is about it."""
        from perftui.run.layout import RunLayout
        from perftui.run.requests import STOP, request

        self._app.target = self._app.own = root
        if self._app.is_stopping:
            request(RunLayout(root), STOP)


NO_RUN = "a trace cannot be run again: start the script with perftui"


def _too_early(steady: int) -> str:
    return (
        f"This run has {steady} of the {FEWEST_STEPS} steady steps that a comparison needs; "
        "stopped now, it cannot serve as the baseline. Wait a little, then try again."
    )


def _why_no_trial(option: FixOption | None, options: tuple[FixOption, ...]) -> str:
    first = option or (options[0] if options else None)
    if first is None:
        return "there is no fix to try for this"
    return first.why_not_tried
