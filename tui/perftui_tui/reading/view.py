"""From a run or a trace to the snapshot on screen: reading, the newest window, the diagnosis."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perftui.analysis.analyse import without_tables
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.open_trace import never, open_trace
from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding
from perftui.experiments.journal import read_proof
from perftui.facts.counters import memory_over_time
from perftui.facts.cpu.machine import busy_host
from perftui.facts.data_loader.batch_place import loader_lines
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Fact, Facts
from perftui.facts.gpu.cards import gpu_memory
from perftui.facts.gpu.host_waits import syncs
from perftui.facts.gpu.idle import gap_lines
from perftui.facts.notes import problems as problems_of
from perftui.facts.ranks.rank_table import rank_table
from perftui.facts.source.lines import main_thread, window_thread
from perftui.facts.step.own_cost import recording_cost
from perftui.facts.step.steps import MANY_STEPS
from perftui.facts.step.trace_steps import trace_steps
from perftui.fixes.catalogue import fixes_of
from perftui.fixes.fix import Fix, modified_ns, offered
from perftui.fixes.option import FixOption
from perftui.run.layout import trials_of
from perftui.run.reader import RunReader, RunSnapshot
from perftui.script.command_line import script_of
from perftui.trace.model import Trace, TraceError, as_share
from perftui_tui.reading.first_look import unjudged
from perftui_tui.reading.memory import NOTHING, AllocationReader
from perftui_tui.reading.snapshot import JUDGING, Phase, Snapshot, of_trace

if TYPE_CHECKING:
    from perftui.trace.nsys.report import Exporting


def view_trace(
    path: Path,
    now_ns: int,
    progress: Callable[[float | Exporting], None],
    cancelled: Callable[[], bool],
    preview: Callable[[TraceAnalysis], None] | None = None,
    facts_of: Callable[[TraceAnalysis], Facts] | None = None,
) -> Snapshot:
    """Read, analyse and judge the trace at ``path``.

    ``progress`` is called with the share that was read, or how far ``nsys`` has come where it must
    export the trace first; ``preview`` with what can be drawn already, now and then while a long
    trace is read. ``facts_of`` makes the facts that it is judged by.

    Raises:
        TraceError: the file is not a trace that can be read.
        OSError: the file cannot be opened.
        LoadCancelled: ``cancelled`` returned True.
    """

    def previewed(trace: Trace) -> None:
        if preview is not None:
            preview(without_tables(trace))

    analysis = open_trace(path, as_share(progress), cancelled, previewed, exporting=progress)
    if analysis.timeline_tracks and preview is not None:
        # A cached trace can be drawn before it is judged.
        preview(analysis)
    facts = facts_of(analysis) if facts_of else Facts(None, analysis)
    is_whole = analysis.step_parts and analysis.step_parts[0].step.index < 0
    return Snapshot(
        source=path,
        phase=Phase.TRACE,
        title=path.name,
        now_ns=now_ns,
        analysis=analysis,
        facts=facts,
        diagnosis=diagnosis(facts),
        breakdown=of_trace(trace_steps(facts)),
        step_ms=() if is_whole else tuple(step.duration / 1e6 for step in analysis.steps),
        train_steps=len(analysis.steps),
        problems=analysis.notes,
    )


class Pictures:
    """Makes snapshots of a rank of a run, one after the other, and keeps what is the same in the
    next: its memory snapshot, and the options of each fix, as parsing the source costs tens of
    milliseconds.

    Options are worked out anew when the change that is proposed is another one, or a source file,
    the command or an override in force has changed."""

    def __init__(self, rank_number: int, cancelled: Callable[[], bool]) -> None:
        self._rank_number = rank_number
        self.allocations = AllocationReader(cancelled)
        self._known: dict[str, tuple[object, FixOption]] = {}

    def make(
        self,
        run: RunSnapshot,
        analysis: TraceAnalysis | None,
        now_ns: int,
        problem: str | None = None,
        *,
        as_of: int | None = None,
        is_reading: bool = False,
    ) -> Snapshot:
        """The snapshot of ``run``, with the ``analysis`` of its newest window.

        ``problem`` is that of reading it; ``as_of`` is the time at which ``run`` is shown, None for
        what is known now; ``is_reading``: its first window is read next."""
        facts = Facts(run, analysis, self._rank_number)
        memory = self.allocations.of(facts.rank) if facts.rank else NOTHING
        result = diagnosis(facts)
        options, directory = self.options(result.findings, facts), trials_of(run.root)
        fixes = {option.fix for row in options.values() for option in row}
        for fact in DRAWN:
            fact.or_none(facts)
        return replace(
            unjudged(run, facts, self._rank_number, now_ns),
            as_of=as_of,
            is_judged=True,
            is_reading=is_reading,
            analysis=analysis,
            diagnosis=result,
            problems=(*filter(None, (problem, memory.problem)), *problems_of(run)),
            allocations=memory.report,
            history=memory.over_time,
            options=options,
            proofs={fix: proof for fix in fixes if (proof := read_proof(directory, fix))},
        )

    def options(self, found: Sequence[Finding], facts: Facts) -> dict[str, tuple[FixOption, ...]]:
        """The options of each finding, by its rule."""
        return {
            one.rule: tuple(filter(None, (self._option(fix, facts) for fix in fixes_of(one))))
            for one in found
        }

    def _option(self, fix: Fix, facts: Facts) -> FixOption | None:
        change, manifest = fix.change(facts), facts.manifest
        if change is None:
            return None
        script = script_of(manifest)
        files = [Path(change.file)] if change.file else []
        files += [script.path] if script else []
        in_force = manifest.overrides if manifest else ()
        key = (repr(change), repr(in_force), *((file, modified_ns(file)) for file in files))
        cached = self._known.get(fix.id)
        if cached is None or cached[0] != key:
            cached = self._known[fix.id] = (key, offered(fix, change, facts))
        return cached[1]


DRAWN: tuple[Fact[Any], ...] = (
    *(training_loader, main_thread, window_thread, loader_lines, gap_lines),
    *(syncs, gpu_memory, memory_over_time, recording_cost, rank_table, busy_host),
)
"""Facts that screens ask for: worked out on the reading thread, so that drawing finds them."""


def read_once(root: Path) -> Snapshot:
    """The run at ``root`` as it is, with its newest window. Raises ManifestError if it is not a
    readable run."""
    view = RunView(root, time.time_ns, lambda: False)
    snapshot = view.read()
    return view.read() if view.unfinished else snapshot


class SteadyVerdict:
    """Keeps the first finding of a run that goes on, and its fixes, until there is more evidence.

    The first of all is told once a second look agrees, or there are steps enough to be sure of
    them. Another one takes its place once a second look agrees, and if more was recorded since the
    shown one was chosen: half as many steps again, ``MANY_STEPS`` or a window, or if nothing is
    left of the shown one."""

    def __init__(self) -> None:
        self._shown: Snapshot | None = None
        """The snapshot whose first finding is shown."""
        self._before = ""
        """The rule of the first finding at the last look."""

    def hold(self, new: Snapshot) -> Snapshot:
        """``new``, with the first finding that is shown."""
        rule = new.diagnosis.top.rule if new.diagnosis.top else ""
        is_confirmed, self._before = rule == self._before, rule
        shown, findings = self._shown, new.diagnosis.findings
        old = shown.diagnosis.top if shown else None
        if shown is None or old is None or not new.phase.is_live:
            if rule and new.diagnosis.progress and new.phase.is_live and not is_confirmed:
                judging = replace(new.diagnosis, findings=(), progress=JUDGING)
                return replace(new, is_judged=False, diagnosis=judging)
            self._shown = new
            return new
        current = next((finding for finding in findings if finding.rule == old.rule), None)
        steps = shown.diagnosis.steady_steps
        more = new.diagnosis.steady_steps >= steps + max(1, min(steps // 2, MANY_STEPS))
        has_grown = more or new.analysis is not shown.analysis or current is None
        if has_grown and (is_confirmed or rule == old.rule):
            self._shown = new
            return new
        others = (finding for finding in findings if finding is not current)
        kept, now = (one.options.get(old.rule, ()) for one in (shown, new))
        is_same = [fix.title for fix in kept] == [fix.title for fix in now]
        return replace(
            new,
            diagnosis=replace(new.diagnosis, findings=(current or old, *others)),
            options={**new.options, old.rule: now if is_same else kept},
        )


class RunView:
    """Reads the run at ``root`` again and again, and caches the analysis of its newest window.

    ``progress`` is called with what was read of a window, from 0 to 1, and with None once it is.
    ``read`` raises ManifestError if the directory is not a readable run."""

    def __init__(
        self,
        root: Path,
        clock: Callable[[], int],
        cancelled: Callable[[], bool],
        rank_number: int = 0,
        progress: Callable[[Path, float | None], None] = lambda *_: None,
    ) -> None:
        self._rank_number = rank_number
        self._reader = RunReader(root)
        self._clock = clock
        self._cancelled = cancelled
        self._progress = progress
        self._rank: int | None = None
        self._window: Path | None = None
        self._announced: Path | None = None
        self._analysis: TraceAnalysis | None = None
        self._problem: str | None = None
        self._pictures = Pictures(rank_number, cancelled)
        self._is_first = True
        self.unfinished = False
        """Whether the next read has something to add, whether or not the run is over."""

    def read(self) -> Snapshot:
        """The run as it is now, judged."""
        return self.judge(self._reader.poll())

    def judge(self, run: RunSnapshot) -> Snapshot:
        """``run`` and what is found in it, on any thread but on one at a time. The first picture,
        and that in which the first window appears, do not wait for it to be analysed: they show
        that it is being read."""
        rank = run.rank(self._rank_number)
        if (number := rank.rank if rank else None) != self._rank:
            # The last window was another rank's.
            self._rank = number
            self._window = self._analysis = self._problem = None
        newest = next(iter(run.windows(self._rank_number)), None)
        is_new = newest is not None and newest != self._window
        is_new_memory = rank is not None and not self._pictures.allocations.knows(rank)
        announces = is_new and self._analysis is None and newest != self._announced
        self._announced = newest
        self.unfinished = announces or (is_new_memory and self._is_first)
        if newest is not None and is_new and not announces:
            self._window = newest
            tell = partial(self._progress, newest)
            result = open_window(newest, self._cancelled, tell, is_over=run.manifest.status.is_over)
            tell(None)
            if isinstance(result, str):
                self._problem = result
            else:
                self._analysis, self._problem = result, None
        if rank is not None and not self._is_first:
            self._pictures.allocations.read(rank)
        self._is_first = False
        now = self._clock()
        return self._pictures.make(run, self._analysis, now, self._problem, is_reading=announces)


def open_window(
    window: Path,
    cancelled: Callable[[], bool],
    progress: Callable[[float], None] = lambda _: None,
    *,
    is_over: bool,
) -> TraceAnalysis | str:
    """The analysis of a profiled window, or why it cannot be read. Raises LoadCancelled if
    ``cancelled`` returned True."""
    try:
        # While the training runs the disk is left to it.
        later = None if is_over else never
        return open_trace(window, as_share(progress), cancelled, later=later)
    except (TraceError, OSError) as error:
        return f"the window {window.name} cannot be read: {error}"
