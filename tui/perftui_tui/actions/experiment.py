"""A trial, a tuning or a probe of many runs: begun, followed, stopped, and what it proved."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from perftui.experiments.trial_verdict import Outcome, Stage
from perftui.run.layout import trials_of
from perftui.run.manifest import Manifest, ManifestError, StopReason, data_place
from perftui_tui.reading.experiment_state import (
    ExperimentState,
    ProbeState,
    TrialPlan,
    TrialState,
    TuningState,
    plan_of,
    steps_of,
)

if TYPE_CHECKING:
    from textual.timer import Timer

    from perftui.experiments.journal import Proof
    from perftui.experiments.trial_runs import NextRun, Progress
    from perftui.experiments.tune import Trying
    from perftui.fixes.option import FixOption
    from perftui.run.reader import RunSnapshot
    from perftui_tui.actions.host import Host
    from perftui_tui.actions.source_fixes import SourceFixes
    from perftui_tui.dialogs.choice import Choice
    from perftui_tui.dialogs.experiment import ExperimentDialog, View
    from perftui_tui.look.rows import Row
    from perftui_tui.reading.snapshot import Snapshot


class NewProofs:
    """Proofs made here, to be added to runs that are over: those are not read again.

    Written on the thread of a trial, read by the app."""

    def __init__(self) -> None:
        self._proofs: dict[Path, dict[str, Proof]] = {}
        self._options: dict[Path, dict[str, FixOption]] = {}

    @property
    def every(self) -> list[Proof]:
        """All proofs of this session, in the order in which runs and fixes were first tried."""
        return [proof for proofs in self._proofs.values() for proof in proofs.values()]

    def add(self, root: Path, proof: Proof) -> None:
        self._proofs[root] = {**self._proofs.get(root, {}), proof.fix: proof}

    def change(self, root: Path, option: FixOption) -> None:
        """Note the option of a fix of the run at ``root`` as it is now: with the number of workers
        that runs have shown to be best."""
        self._options[root] = {**self._options.get(root, {}), option.fix: option}

    def on(self, snapshot: Snapshot, written: frozenset[str] = frozenset()) -> Snapshot:
        """``snapshot`` with the proofs since it was read, and with the fixes that were ``written``
        to the source since then marked as such."""
        proofs = self._proofs.get(snapshot.source, {})
        changed = self._options.get(snapshot.source, {})
        options = {
            rule: tuple(_marked(changed.get(option.fix, option), written) for option in fixes)
            for rule, fixes in snapshot.options.items()
        }
        if not proofs and options == snapshot.options:
            return snapshot
        return replace(snapshot, options=options, proofs={**snapshot.proofs, **proofs})


def _marked(option: FixOption, written: frozenset[str]) -> FixOption:
    """Mark ``option`` as written or not; one written before the run was read stays marked."""
    is_written = option.fix in written
    if option.patch is None or option.is_written == is_written:
        return option
    return replace(option, is_written=is_written)


TICK = 1.0
"""Seconds between two drawings of a running experiment."""

Clock = Callable[[], float]
State = TypeVar("State", bound=ExperimentState)


class Experiment(Generic[State]):
    """Runs, or is followed, one at a time on a thread; ``state`` is replaced there, drawn here.

    The thread waits for nothing of the app, so that it always comes to stop its training."""

    def __init__(
        self, app: Host, source_fixes: SourceFixes, proofs: NewProofs, clock: Clock = time.time
    ) -> None:
        self.app = app
        self.source_fixes = source_fixes
        self.proofs = proofs
        self.clock = clock
        self.state: State | None = None
        """The state of the running or last one; None before any."""
        self.cancelled = threading.Event()
        """Set to stop the one that runs."""
        self.left = threading.Event()
        """Set once nobody looks any more."""
        self._lock = threading.Lock()
        self._timer: Timer | None = None
        self._dialog: ExperimentDialog | None = None
        self._is_unseen = False
        """Whether nobody has looked at the end of the last one yet."""
        self.is_leaving = False
        """Whether the app is left as soon as it has stopped."""
        self.has_news = False
        """Whether a screen shows something of it that is not drawn yet; set on its thread."""

    # What each kind does in its own way

    kind: ClassVar[str]
    """Its name in ``VIEWS``."""

    @property
    def view(self) -> View[State]:
        from perftui_tui.dialogs.experiment import VIEWS

        return VIEWS[self.kind]

    def afterwards(self, _: State) -> list[Choice]:
        """What can be done with its result, beside closing it."""
        return []

    def subject(self, _: State) -> str:
        """The subject of the message about its result."""
        return self.view.name

    def done(self, state: State) -> None:
        """What follows once it has come to its end; nothing by default."""

    # The same for all of them

    @property
    def began(self) -> float:
        """Its start by its clock; minus infinity before any."""
        return self.state.began if self.state is not None else float("-inf")

    @property
    def is_running(self) -> bool:
        """Whether it runs, or still stops its training."""
        return self.state is not None and not self.state.stage.is_over

    def leave(self) -> None:
        """The app ends: what needs it is stopped."""
        self.left.set()
        self.cancelled.set()

    @property
    def is_shown(self) -> bool:
        """Whether it has a row under each screen: until somebody has looked at its end."""
        return self.is_running or self._is_unseen

    def row(self, cells: int) -> Row:
        """The row under each screen; empty before there is one."""
        state = self.state
        return self.view.line(state, self.clock(), cells) if state is not None else ()

    def begin(self, state: State, work: Callable[[], None], *, shows: bool = True) -> None:
        """Do the ``work`` on a thread until it ends or is ``cancelled``, and show ``state``."""
        self.cancelled = threading.Event()
        self.state = state
        self._is_unseen, self.is_leaving = True, False
        self.app.on_thread(lambda: self._run(work))
        self.app.on_thread(self._count_steps)
        self._timer = self.app.set_interval(TICK, self._tick)
        if shows:
            self.show()

    def stop(self) -> None:
        """Stop it and its training."""
        self.set(stage=Stage.STOPPING)
        self.cancelled.set()
        self._tick()

    def stop_and_leave(self) -> None:
        """Stop it, and leave the app once its training has ended."""
        if not self.is_running:
            self.app.exit()
            return
        self.is_leaving = True
        self.stop()
        self.show()

    def show(self) -> None:
        from perftui_tui.dialogs.experiment import ExperimentDialog

        if not self.app.is_asking:
            self._dialog = ExperimentDialog(self.view.title, self._drawn)
            self.app.ask(self._dialog)

    def _drawn(self, cells: int) -> tuple[list[Row], Sequence[Choice]]:
        """It in full, and what can be done with it."""
        state = self.state
        if state is None:
            return [], ()
        if state.stage.is_over and self._is_unseen:
            self._is_unseen = False
            self.app.refresh_experiment()
        return self.view.rows(state, self.clock(), cells), self.choices(state)

    def choices(self, state: State) -> Sequence[Choice]:
        """What can be done with it."""
        from perftui_tui.dialogs.choice import Choice
        from perftui_tui.dialogs.experiment import AFTERWARDS

        if state.stage.is_over:
            return (AFTERWARDS, *self.afterwards(state))
        what = self.view.what
        hide = Choice(("escape", "enter"), f"close this; {what} goes on")
        if state.stage is Stage.STOPPING:
            return (hide,)
        stops = Choice(("s",), f"stop {what}{self.view.training}", self.stop)
        quits = partial(self.app.call_later, self.app.action_quit)
        return hide, stops, Choice(("q",), f"quit perftui: asks what becomes of {what}", quits)

    def _tick(self) -> None:
        """Draw it, and tell of its end."""
        state = self.state
        if state is None:
            return
        self.app.refresh_experiment()
        if self._dialog is not None and self._dialog in self.app.screen_stack:
            self._dialog.show()
        if self.has_news:
            self.has_news = False
            self.app.show_proofs()
        if state.stage.is_over and self._timer is not None:
            self._timer.stop()
            self._timer = None
            self._report(state)

    def _report(self, state: State) -> None:
        if self.is_leaving:
            self.app.exit()
            return
        text = f"{self.subject(state)}: {self.view.result(state)[0]}"
        if state.stage is Stage.DONE:
            self.done(state)
            self.app.notify(text, markup=False)
        else:
            # Who stopped it knows.
            self._is_unseen &= state.stage is not Stage.STOPPED
            self.app.warn(text)
        self.app.refresh_screen()

    # On its thread

    def learn(self, root: Path, option: FixOption, progress: Progress, *, is_best: bool) -> None:
        """Note what the pairs so far prove of ``option`` on the run at ``root``, and that it is to
        be offered from now on where runs have shown that it ``is_best``."""
        from perftui.experiments.journal import read_proof

        if is_best:
            self.proofs.change(root, option)
        if progress.pairs and (proof := read_proof(trials_of(root), option.fix)) is not None:
            self.proofs.add(root, proof)
        self.has_news = True

    def set(self, **changes: Any) -> None:
        """Change the state unless it is over; the app may do so at the same moment."""
        with self._lock:
            if self.state is not None and self.is_running:
                self.state = replace(self.state, **changes)

    def await_training(self, root: Path) -> None:
        """Stop the training of the run at ``root`` first, where it goes on.

        Raises:
            TrialCancelledError: it was ``cancelled`` meanwhile.
            TrialError: it does not stop.
        """
        from perftui.experiments.trial_runs import TrialCancelledError
        from perftui_tui.actions.requests import stop_training

        if self.state is not None and self.state.stage is Stage.WAITING:
            stop_training(root, self.cancelled, StopReason(self.kind))
            if self.cancelled.is_set():
                raise TrialCancelledError
            self.set(stage=Stage.RUNNING, began=self.clock())

    def _count_steps(self) -> None:
        """Note how far the run has come that is made now, about once a second."""
        from perftui.run.reader import RunReader

        readers: dict[Path, RunReader] = {}
        while (state := self.state) is not None and self.is_running and not self.left.wait(TICK):
            for root in sorted(trials_of(state.root).glob("*/"))[-1:]:
                with suppress(ManifestError, OSError):
                    self.set(run_step=steps_of(readers.setdefault(root, RunReader(root)).poll()))

    def _run(self, work: Callable[[], None]) -> None:
        from perftui.experiments.trial_runs import TrialCancelledError, TrialError

        stage, problem = Stage.FAILED, "it ended with an internal error"
        try:
            work()
            stage, problem = Stage.DONE, ""
        except TrialCancelledError:
            stage, problem = Stage.STOPPED, ""
        except (TrialError, ManifestError, OSError, ValueError) as error:
            problem = str(error)
        finally:
            message = problem or (self.state.problem if self.state else "")
            if not self.left.is_set():  # what is left may go on, which the farewell says
                self.set(stage=stage, problem=message, ended=self.clock())


def first_stage(root: Path) -> Stage:
    """The stage to begin in: a training that runs is stopped first."""
    from perftui_tui.reading.source import running_script

    return Stage.WAITING if running_script(root) is not None else Stage.RUNNING


class PairedTrials(Experiment[TrialState]):
    """A fix held against the training as it is, until it is known what it gains: by a process of
    its own, which is followed here."""

    kind = "trial"

    def leave(self) -> None:
        """The trial does not need the app."""
        self.left.set()

    def start(
        self, run: RunSnapshot, option: FixOption, plan: TrialPlan, shown: Path | None = None
    ) -> None:
        """Try ``option`` on the training of ``run``; that of the run which is ``shown``, by default
        the same, is stopped first where it goes on."""
        from perftui.experiments.job import Job

        shown = shown or run.root
        job = Job(str(run.root), option, plan.steps, time.time_ns())
        state = TrialState(job, plan, root=run.root, began=self.clock(), stage=first_stage(shown))
        self.begin(state, lambda: self._go_through(run, state, shown))

    def subject(self, state: TrialState) -> str:
        return state.job.tried.title

    def afterwards(self, state: TrialState) -> list[Choice]:
        """Write a fix that was found to be faster."""
        from perftui_tui.dialogs.choice import Choice

        is_faster = state.verdict is not None and state.verdict.outcome is Outcome.FASTER
        if not is_faster or state.job.tried.patch is None:
            return []
        text = "write the fix to the source, after showing the diff"
        gain = self.view.result(state)[0]
        return [Choice(("w",), text, lambda: self.source_fixes.write(state.job.tried, gain))]

    def take_up(self, snapshot: Snapshot) -> None:
        """Follow the trial of the run of ``snapshot`` where it goes on, whoever began it."""
        from perftui.experiments.job import read_job

        job, root = read_job(snapshot.source), snapshot.source
        if job is not None and not job.stage.is_over:
            plan = plan_of(snapshot.facts, job.option, job.steps)
            state = TrialState(job, plan, root=root, began=job.began_ns / 1e9)
            self.begin(state, lambda: self._follow(root), shows=False)

    # On the thread that follows the trial

    def _go_through(self, run: RunSnapshot, state: TrialState, shown: Path) -> None:
        from perftui.experiments.job import begin

        self.await_training(shown)
        begin(run, state.job.option, state.job.steps)
        self._follow(run.root)

    def _follow(self, root: Path) -> None:
        """Show the trial of the run at ``root`` until it is over, or the app is left."""
        from perftui.experiments.job import follow
        from perftui.experiments.trial_runs import TrialCancelledError, TrialError

        job = None
        for job in follow(root, self.cancelled, self.left):
            self.set(job=job, problem=job.problem)
            self.learn(root, job.tried, job.progress, is_best=job.tried != job.option)
        if job is not None and job.stage is Stage.STOPPED:
            raise TrialCancelledError
        if job is not None and job.stage is Stage.FAILED:
            raise TrialError(job.problem)


class Tuning(Experiment[TuningState]):
    """A tuning as by ``perftui tune``; its journal lets either go on with what the other began."""

    kind = "tuning"

    def offer(self, root: Path, plan: TrialPlan, warnings: Sequence[str]) -> None:
        from perftui_tui.dialogs.experiment import tune_dialog

        self.app.ask(tune_dialog(root, plan, warnings, partial(self._start, root, plan)))

    def _start(self, root: Path, plan: TrialPlan, budget: float | None) -> None:
        from perftui.experiments.journal import journal_of

        journal, stage = journal_of(root, trials_of(root)), first_stage(root)
        state = TuningState(plan, journal, budget, root=root, began=self.clock(), stage=stage)
        self.begin(state, lambda: self._go_through(state))

    def afterwards(self, state: TuningState) -> list[Choice]:
        """Open the run recorded last, or take a fix back."""
        from perftui_tui.dialogs.choice import Choice

        choices, journal = [], state.journal
        if journal.kept and journal.is_recorded:
            text = "open the run recorded with all kept fixes"
            choices.append(Choice(("o",), text, partial(self._open, Path(journal.base))))
        if journal.files:
            text = "undo the last fix, after showing the diff"
            choices.append(Choice(("u",), text, lambda: self.source_fixes.undo(state.root)))
        return choices

    def _open(self, root: Path) -> None:
        self.app.open_run(root, is_live=False)
        self.app.action_show("diagnosis")

    # On the thread of the tuning

    def _go_through(self, state: TuningState) -> None:
        from perftui.experiments.journal import Journal
        from perftui.experiments.trial_runs import TrialSetup
        from perftui.experiments.tune import Keeping, Tuned, tune
        from perftui.report.trial import offers

        root, directory = state.root, trials_of(state.root)
        self.await_training(root)
        deadline = time.monotonic() + (float("inf") if state.budget is None else state.budget)
        setup = TrialSetup(directory, state.plan.steps, self.cancelled, self._begin_run)
        for event in tune(root, setup, offers, deadline):
            if isinstance(event, Journal):
                self.set(journal=event, trial=None, keeping="")
            elif isinstance(event, Tuned):
                self.set(journal=event.journal, trial=None, final=event.final)
            elif isinstance(event, Keeping):
                self.set(trial=None, keeping=event.option.title)
                if event.path is not None:
                    self.source_fixes.tuned(root, event.option.fix)
                    self.has_news = True
            else:
                self.set(trial=self._trial(event), keeping="")
                # On top of what was kept, the number is not that of the run on screen.
                kept = self.state.journal.kept if self.state is not None else ()
                is_best = event.progress.option is not None and not kept
                self.learn(root, event.option, event.progress, is_best=is_best)

    def _begin_run(self, following: NextRun) -> None:
        trial = self.state.trial if self.state is not None else None
        if trial is not None:
            self.set(trial=replace(trial, job=trial.job.begin_run(following, time.time_ns())))

    def _trial(self, event: Trying) -> TrialState | None:
        """The fix that is tried, with its pairs so far."""
        from perftui.experiments.job import Job
        from perftui.experiments.tune import PAIRS

        state = self.state
        if state is None:
            return None
        if state.trial is not None:
            # The number of workers may be another than the one that was offered.
            job = replace(state.trial.job, option=event.option, progress=event.progress)
            return replace(state.trial, job=job)
        now, plan = time.time_ns(), replace(state.plan, step_ns=None)
        job = Job(str(state.root), event.option, plan.steps, now, progress=event.progress)
        return TrialState(job, plan, last_look=PAIRS, root=state.root, began=self.clock())


class Probing(Experiment[ProbeState]):
    """A probe with the interpreter of the run on screen, and the disk that holds its data set."""

    kind = "probe"

    def offer(self, root: Path, manifest: Manifest) -> None:
        from perftui.probe.probe import SECONDS
        from perftui_tui.dialogs.experiment import probe_dialog

        path = Path(data_place(manifest) or manifest.cwd)

        def start() -> None:
            state = ProbeState(path, root=root, began=self.clock())
            self.begin(state, lambda: self._measure(manifest, path))

        self.app.ask(probe_dialog(path, SECONDS, start))

    def done(self, state: ProbeState) -> None:
        """Read the run again: its meters have scales now."""
        if state.root == self.app.target:
            self.app.open(state.root)

    # On its thread

    def _measure(self, manifest: Manifest, path: Path) -> None:
        from perftui.experiments.trial_runs import TrialCancelledError
        from perftui.probe.ceilings import keep
        from perftui.probe.probe import ProbeCancelledError, WorkerError, probe

        def tell(name: str) -> None:
            if self.state is not None:
                self.set(names=(*self.state.names, name))

        try:
            python = manifest.interpreter or manifest.command[0]
            rates = probe(python, path, None, tell, self.cancelled)
        except ProbeCancelledError as error:
            raise TrialCancelledError from error
        except WorkerError as error:
            raise ValueError(str(error)) from error
        self.set(found=rates)
        try:
            self.set(kept=keep(rates))
        except OSError as error:
            self.set(problem=f"the measurements cannot be saved: {error.strerror or error}")
