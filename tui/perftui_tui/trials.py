"""Runs the script again, with a fix or as it is now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.dialogs.fix import TEXT_WIDTH, YES, TrialDialog, describe
from perftui_tui.rows import Row, row, wrap

if TYPE_CHECKING:
    from perftui.diagnosis.model import Finding
    from perftui.fixes.model import FixOption
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


class Trials:
    """Asks, starts, and shows the comparison once the new run has steps enough."""

    def __init__(self, app: PerftuiApp) -> None:
        self._app = app
        self.change: Change | None = None
        """What was tried last."""
        self._compare_when_steady = False

    def watch(self, snapshot: Snapshot) -> None:
        """Notice a trial that can be compared."""
        steady = snapshot.diagnosis.steady_steps
        enough = steady >= COMPARABLE_STEPS or (steady > 0 and not snapshot.phase.is_live)
        if self._compare_when_steady and enough:
            self._compare_when_steady = False
            self._app.action_show("compare")

    def offer(self, finding: Finding | None, option: FixOption | None) -> None:
        """Show what a trial would do, and start it on yes."""
        snapshot = self._app.snapshot
        if snapshot is None or snapshot.manifest is None:
            self._app.warn("a trace cannot be run again: start the script with perftui")
            return
        options = snapshot.fixes(finding) if finding is not None else ()
        option = option or next((one for one in options if one.override or one.argv), None)
        if option is None or not (option.override or option.argv):
            self._app.warn(_why_no_trial(option, options))
            return
        form = "override" if option.override else "command"
        self._ask(Change(option.title, option, form), describe(option))

    def run_again(self) -> None:
        """Run again with what was tried last, or with the source as it is now."""
        snapshot = self._app.snapshot
        if snapshot is None or snapshot.manifest is None:
            self._app.warn("a trace cannot be run again: start the script with perftui")
            return
        change = self.change or Change("the source as it is now")
        written = self._app.source_fixes.written
        if written is not None:
            name = Path(written.applied.path).name
            change = Change(f"{name} as written", written.option, "source")
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
        self._app.baseline.snapshot, self.change = snapshot, change
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


COMPARABLE_STEPS = 20
"""Steady steps from which a trial is shown beside its baseline: what a critical finding needs."""


def _too_early(steady: int) -> str:
    return (
        f"This run has {steady} of the {COMPARABLE_STEPS} steady steps that a comparison needs; "
        "stopped now, it cannot serve as the baseline. Wait a little, then try again."
    )


def _why_no_trial(option: FixOption | None, options: tuple[FixOption, ...]) -> str:
    first = option or (options[0] if options else None)
    if first is None:
        return "there is no fix to try for this"
    return first.why_not or first.advice or "this fix cannot be tried at run time"
