"""Runs the script again, with a fix or as it is now."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perftui.experiments.trial_verdict import FEWEST_STEPS
from perftui.run.layout import TRIAL_FILE, trials_of
from perftui_tui.actions.experiment import Experiment, NewProofs, PairedTrials, Probing, Tuning
from perftui_tui.keys.own_keys import hint
from perftui_tui.reading.experiment_state import NO_RUN, no_fix, plan_of, tuning_plan, warnings_of
from perftui_tui.reading.source import running_script

if TYPE_CHECKING:
    from textual.geometry import Size

    from perftui.diagnosis.model import Finding
    from perftui.fixes.option import FixOption
    from perftui.run.reader import RunSnapshot
    from perftui_tui.actions.host import Host
    from perftui_tui.actions.other_traces import Baseline
    from perftui_tui.actions.requests import RecorderRequests
    from perftui_tui.actions.source_fixes import SourceFixes
    from perftui_tui.look.rows import Row
    from perftui_tui.reading.snapshot import Snapshot


EDITED = (
    "the script and the modules beside it are the same in both runs: save your edit, then "
    "{compare.rerun} runs it again"
)

BY_HAND = (
    "{diagnosis.rerun} runs it again and compares both runs, where {compare.prove_fix} proves it"
)


@dataclass(frozen=True)
class Change:
    """The difference of a run again; without an option it is only repeated."""

    label: str
    option: FixOption | None = None
    is_written: bool = False
    """Whether the option is in the source already."""


class Trials:
    """Runs the script again, and shows the comparison once the new run has steps enough.

    One start at a time: two trainings would disturb each other, and asking the old one twice to
    stop would cut its checkpoint short."""

    def __init__(
        self, app: Host, baseline: Baseline, source_fixes: SourceFixes, requests: RecorderRequests
    ) -> None:
        self._app = app
        self._baseline = baseline
        self._source_fixes = source_fixes
        self._requests = requests
        self.proofs = NewProofs()
        """Proofs of the runs on screen that were made here."""
        self.pairs = PairedTrials(app, source_fixes, self.proofs)
        """Trials by pairs of runs, which prove what a single run cannot."""
        self.tuning = Tuning(app, source_fixes, self.proofs)
        """All fixes one by one."""
        self.probing = Probing(app, source_fixes, self.proofs)
        """Measures the peak rates of this machine."""
        self.change: Change | None = None
        """The change that was tried last."""
        self.is_starting = False
        """Whether a run is being started, which may first have to wait for the old one's end."""
        of_source = self.pairs, self.tuning
        source_fixes.measuring = lambda: "".join(one.kind for one in of_source if one.is_running)
        self._cancelled = threading.Event()
        self._compare_when_steady = False
        self._looked_at: set[Path] = set()
        """Runs of which it is known whether a trial goes on."""

    def cancel(self) -> None:
        """Start nothing any more."""
        self._cancelled.set()
        for experiment in self._experiments:
            experiment.leave()

    @property
    def _experiments(self) -> tuple[Experiment[Any], ...]:
        return self.pairs, self.tuning, self.probing

    @property
    def latest(self) -> Experiment[Any] | None:
        """The trial or the tuning that was begun last; None before any."""
        newest = max(self._experiments, key=lambda experiment: experiment.began)
        return newest if newest.state is not None else None

    @property
    def running(self) -> Experiment[Any] | None:
        """The one that runs now, or still stops its training."""
        latest = self.latest
        return latest if latest is not None and latest.is_running else None

    @property
    def tried(self) -> FixOption | None:
        """What was tried: by the last run again, or where there was none by pairs of runs."""
        in_pairs = self.pairs.state.job.tried if self.pairs.state is not None else None
        return self.change.option if self.change else in_pairs

    @property
    def row(self) -> Callable[[int], Row] | None:
        """Draws the row under each screen; None where there is nothing to show."""
        latest = self.latest
        return latest.row if latest is not None and latest.is_shown else None

    def show_latest(self) -> None:
        """Show the one that runs, or the last one; of a saved run what was proven last."""
        from perftui_tui.dialogs.experiment import proof_dialog
        from perftui_tui.panes.experiments import newest

        snapshot = self._app.snapshot
        proof = newest(snapshot.proofs) if snapshot is not None else None
        if self.latest is not None:
            self.latest.show()
        elif proof is not None:
            self._app.ask(proof_dialog(proof))
        else:
            where = hint("{app.show('diagnosis')} and then {diagnosis.try_fix} or {diagnosis.tune}")
            self._app.warn(f"no trial by pairs of runs and no tuning yet: {where}")

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
            app.notify("the new run has steps enough: this compares it with the one before")

    def take_up(self) -> None:
        """Follow the trial of the run on screen, if one goes on that was begun elsewhere."""
        snapshot = self._app.snapshot
        if snapshot is None or snapshot.run is None or snapshot.source in self._looked_at:
            return
        self._looked_at.add(snapshot.source)
        if self.running is None and (trials_of(snapshot.source) / TRIAL_FILE).exists():
            self.pairs.take_up(snapshot)

    def offer(
        self, finding: Finding | None, option: FixOption | None = None, *, proves: bool = False
    ) -> None:
        """Offer ``option``, by default the best fix of ``finding``, and try it as is answered, or
        prove it.

        While a trial by pairs runs that is shown instead."""
        from perftui.facts.source.source_calls import edited_since

        if self.running is not None:
            self.running.show()
            return
        snapshot = self._app.snapshot
        if snapshot is None or snapshot.run is None:
            self._app.warn(NO_RUN)
            return
        options = snapshot.fixes(finding) if finding is not None else ()
        option = option or next((fix for fix in options if fix.is_triable), None)
        if option is None or not option.is_triable:
            first = option or next(iter(options), None)
            why = first.why_not_tried if first else "perftui writes no fix for this finding"
            names = edited_since(snapshot.facts) if snapshot.facts else []
            edit = f"you edited {', '.join(names)}:" if names else f"{why}: save your edit, then"
            self._app.warn(f"{edit} {hint(BY_HAND)}" if names or finding else no_fix(snapshot))
            return
        # For the first finding the top of the screen says it.
        top = snapshot.diagnosis.top
        other = finding.rule if finding and top and finding.rule != top.rule else ""
        self._ask_how(snapshot, snapshot, option, "" if proves else other, proves=proves)

    def prove(self, of: Snapshot | None, edit: FixOption | None = None) -> None:
        """Offer to prove what was tried last on the run of the snapshot ``of``, or where nothing
        was, a person's own ``edit`` since, or else the best fix of the run on screen."""
        option, snapshot = self.change.option if self.change else None, self._app.snapshot
        option = option or edit
        if self.running is not None:
            self.running.show()
        elif self.change and option is None:
            self._app.warn(hint(EDITED))
        elif of is None or snapshot is None or option is None:
            self.offer(snapshot.diagnosis.top if snapshot is not None else None, proves=True)
        elif self.change and self.change.is_written:
            self._app.warn(hint("it is written: {diagnosis.undo_fix} undoes it, then prove it"))
        else:
            self._ask_how(of, snapshot, option, "", proves=True)

    def offer_tuning(self) -> None:
        """Offer to tune the training of the run on screen, and do it as is answered.

        While a trial or a tuning runs that is shown instead."""
        snapshot = self._app.snapshot
        if self.running is not None:
            self.running.show()
        elif snapshot is None or snapshot.run is None:
            self._app.warn(NO_RUN)
        elif not (plan := tuning_plan(snapshot)).steps:
            self._app.warn(plan.note)
        elif self._may_start(snapshot.run):
            self.tuning.offer(snapshot.source, plan, warnings_of(snapshot))

    def offer_probe(self) -> None:
        """Offer to measure this machine, which a running training would disturb."""
        import socket

        snapshot = self._app.snapshot
        if self.running is not None:
            self.running.show()
        elif snapshot is None or snapshot.run is None:
            self._app.warn("a trace does not name its machine: run `perftui probe` there")
        elif (host := snapshot.run.manifest.host) != socket.gethostname():
            self._app.warn(f"this run is of {host}: run `perftui probe` there")
        elif snapshot.goes_on:
            self._app.warn(
                "the training is still running, and both would disturb each other: measure the "
                "machine once it has ended"
            )
        elif self._may_start(snapshot.run):
            self.probing.offer(snapshot.source, snapshot.run.manifest)

    def run_again(self) -> None:
        """Run again with what was tried last, or with the source as it is now."""
        from perftui_tui.dialogs.experiment import run_again_dialog

        snapshot = self._app.snapshot
        if snapshot is None or snapshot.run is None:
            self._app.warn(NO_RUN)
            return
        written, change = self._source_fixes.written, self.change
        if written:
            name = Path(written[-1].applied.path).name
            change = Change(f"{name} as written", written[-1].option, is_written=True)
        elif change is None or change.is_written:
            change = Change("the source as it is now")
        run, chosen = snapshot.run, change
        if self._may_start(run):
            command, start = run.manifest.command, partial(self._start, run, chosen)
            self._app.ask(run_again_dialog(chosen.label, command, warnings_of(snapshot), start))

    def _ask_how(
        self, of: Snapshot, snapshot: Snapshot, option: FixOption, finding: str, *, proves: bool
    ) -> None:
        """Ask how a fix is tried on the run ``of``, while that of ``snapshot`` is on screen: by one
        run or pairs of runs, or whether it is proven by those."""
        from perftui_tui.dialogs.experiment import try_dialog

        if of.run is None or snapshot.run is None or not self._may_start(snapshot.run):
            return
        plan, command = plan_of(of.facts, option), of.run.manifest.command
        if proves and not plan.label:
            self._app.warn(plan.note)
            return
        in_pairs = partial(self.pairs.start, of.run, option, plan, snapshot.source)
        once = None if proves else partial(self._start, of.run, Change(option.title, option))
        warnings = warnings_of(snapshot)
        self._app.ask(try_dialog(option, command, plan, warnings, finding, in_pairs, once))

    def _may_start(self, run: RunSnapshot) -> bool:
        """Whether a training may be started now; where not, the reason is shown."""
        own = self._app.own
        busy = running_script(own) if own is not None and own != run.root else None
        reason = ""
        if self.is_starting:
            reason = "a run is already starting: wait until it is shown"
        elif run.root != self._app.target:
            reason = "the new run has not shown anything yet: wait until it does"
        elif (running := self.running) is not None:
            stop = hint("{app.trial} can stop it")
            reason = f"a {running.view.name} is running, and another run would disturb it: {stop}"
        elif busy is not None:
            reason = (
                f"{busy} is still running, and two trainings would disturb each other: wait until "
                "it ends or stop it, then try again"
            )
        if reason:
            self._app.warn(reason)
        return not reason

    def _start(self, run: RunSnapshot, change: Change) -> None:
        self.is_starting, self.change = True, change
        self._app.notify(f"starting again with {change.label}", markup=False)
        size = self._app.size

        def start() -> None:
            from perftui_tui.actions.requests import run_again

            try:
                root = run_again(run, change.option, change.is_written, size, self._cancelled)
                if root is not None and self._cancelled.is_set():
                    self._leave_running(root)
                elif root is not None:
                    self._app.call_from_thread(self._started, root, size)
            finally:
                self.is_starting = False

        self._app.on_thread(start)

    def _started(self, root: Path, size: Size) -> None:
        if self._cancelled.is_set():
            self._leave_running(root)
            return
        shown = self._app.newest
        # What ended before it had steps, as after a mistake in an edit, is nothing to compare with.
        if self._baseline.snapshot is None or (shown and shown.diagnosis.steady_steps):
            self._baseline.snapshot = shown
        self._compare_when_steady = True
        self._requests.started(size)
        self._app.open_own(root)

    def _leave_running(self, root: Path) -> None:
        """The app was left while the run was being started: the farewell is about that run."""
        self._app.target = self._app.own = root
        if self._app.is_stopping:
            self._requests.stop()
