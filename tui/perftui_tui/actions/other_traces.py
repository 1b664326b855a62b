"""What is read beside the run or trace on screen: one to compare with, traces of other ranks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.trace.text import printable
from perftui_tui.look.format import date_and_time, format_ns
from perftui_tui.reading.source import (
    LoadProgressed,
    Post,
    RanksRead,
    ReadingThread,
    SnapshotReceived,
)

if TYPE_CHECKING:
    from perftui.analysis.model import TraceAnalysis
    from perftui.facts.fact import Facts, RankPaths
    from perftui.facts.ranks.rank_table import RankTable
    from perftui.facts.ranks.traced_ranks import TracedRank
    from perftui.trace.nsys.report import Exporting
    from perftui_tui.actions.host import Host
    from perftui_tui.reading.snapshot import Snapshot


_Other = tuple[Path, str]
"""A run directory or a trace file that can be compared with, and its label."""


class Baseline:
    """The run or trace to compare with, read once on a thread."""

    def __init__(self, app: Host) -> None:
        self._app = app
        self.snapshot: Snapshot | None = None
        """Newest snapshot of the run, or the trace, to compare with; None until one is chosen."""
        self._sought: Path | None = None

    def find(self) -> None:
        """Take the run that the one on screen repeats, where none was chosen."""
        shown = self._app.snapshot
        parent = shown.manifest.parent if shown and shown.manifest else None
        if self.snapshot is not None or shown is None or not parent:
            return
        root = shown.source.with_name(parent)
        if root != self._sought:
            self._sought = root
            self._app.on_thread(lambda: self._read(root))

    def choose(self) -> None:
        shown = self._app.snapshot
        if shown is None or shown.facts is None:
            self._app.warn("nothing to compare yet")
            return
        self._app.on_thread(partial(self._list, shown.source, shown.run is not None))

    def _list(self, source: Path, is_run: bool) -> None:
        """Runs beside a run, then traces where the app was started; for a trace those beside it,
        then the runs recorded there."""
        from perftui.run.layout import RUNS_DIRECTORY
        from perftui.trace.formats import traces_beside

        here = Path.cwd()
        runs = _runs(source.parent if is_run else here / RUNS_DIRECTORY, source)
        beside = traces_beside(here / source.name if is_run else source)
        times = [file.stat().st_mtime_ns for file in beside]
        traces = [
            (file, _label(written, None, f"{printable(file.name)}  trace"))
            for file, written in zip(beside, times, strict=True)
        ]
        choices = [*runs, *traces] if is_run else [*traces, *runs]
        self._app.call_from_thread(self._ask, source.parent, choices)

    def _ask(self, directory: Path, others: Sequence[_Other]) -> None:
        if not others:
            self._app.warn(f"no other run or trace in {directory}")
            return

        from perftui_tui.dialogs.choice import Choice, ChoiceDialog
        from perftui_tui.look.rows import row

        keys = [(digit,) for digit in "123456789"] + [()] * len(others)
        choices = [
            Choice(key, label, partial(self._app.on_thread, partial(self._read, path)))
            for key, (path, label) in zip(keys, others, strict=False)
        ]
        choices.append(Choice(("escape", "q"), "keep the current comparison"))
        title = (row(f"{'':8}{'recorded':<18}{'mean step':>10}  run or trace"),)
        self._app.ask(ChoiceDialog("Compare with", title, choices, picks=True))

    def _read(self, path: Path) -> None:
        from perftui_tui.reading.view import read_once, view_trace

        def progress(done: float | Exporting | None) -> None:
            self._app.post_message(LoadProgressed(path, done))

        progress(0.0)
        try:
            if path.is_file():
                snapshot = view_trace(path, time.time_ns(), progress, lambda: False)
            else:
                snapshot = read_once(path)
        finally:
            progress(None)
        self._app.call_from_thread(self._take, snapshot)

    def _take(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._app.refresh_screen()


def _runs(directory: Path, shown: Path) -> list[_Other]:
    """The newest recorded runs, newest first, without the one that is shown; at most 50, as each is
    read for its steps."""
    from perftui.facts.fact import Facts
    from perftui.facts.step.steps import step_breakdown
    from perftui.run.manifest import ManifestError
    from perftui.run.reader import RunReader, list_runs

    others = []
    for entry in list_runs(directory)[:50]:
        if entry.manifest is not None and entry.root != shown:
            try:
                steady = step_breakdown(Facts(RunReader(entry.root).poll()))
            except (ManifestError, OSError):
                continue
            change = f"  {entry.manifest.name}" if entry.manifest.name else ""
            what = f"{entry.run_id}  {entry.manifest.state}{change}"
            mean = steady.mean if steady else None
            others.append((entry.root, _label(entry.manifest.started_ns, mean, what)))
    return others


def _label(recorded_ns: int, step_ns: int | None, what: str) -> str:
    return f"{date_and_time(recorded_ns):<18}{format_ns(step_ns):>10}  {what}"


class RankTraces:
    """Reads traces on a thread: hundreds of ranks take minutes, and rows come as they are read."""

    def __init__(self, app: Host) -> None:
        self._app = app
        self._reader: RankReader | None = None
        self._reading: RankPaths = ()
        self.table: RankTable | None = None
        """The table so far; None before anything has been read."""
        self.doing = ""
        """Progress of the reading, empty once all are read."""
        self._read: tuple[Sequence[TracedRank], Sequence[str]] = ((), ())

    def read(self) -> None:
        """Begin, where there is something to read that has not been."""
        wanted = self._wanted()
        if wanted == self._reading:
            return
        self.stop()
        self._reading, self.table, self.doing = wanted, None, ""
        self._read = (), ()
        if len(wanted) > 1:
            self.doing = f"reading the traces of {len(wanted)} ranks"
            self._reader = RankReader(wanted, self._app.post_message)
            self._reader.start()

    def _wanted(self) -> RankPaths:
        """The traces to read; none while a training runs, which needs the disk and the cores."""
        newest = self._app.newest
        if not self._app.target.is_dir():
            return tuple((file.rank if file.rank is not None else -1, file.path)
                         for file in self._app.ranks)  # fmt: skip
        if newest is None or newest.run is None or newest.phase.is_live:
            return ()
        run = newest.run
        ranks = ((place, run.rank(place)) for place in sorted({row.place for row in run.ranks}))
        return tuple((place, rank.windows[-1]) for place, rank in ranks if rank and rank.windows)

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.stop()

    def take(self, message: RanksRead) -> None:
        """Keep what has been read, unless something else is wanted by now."""
        if message.paths != self._reading:
            return
        self.table = message.table
        count = len(message.paths)
        left = count - message.done
        self.doing = f"reading: {message.done} of {count} ranks" if left else ""
        if not left:
            self._read = message.ranks, message.problems
            newest = self._app.newest
            if newest is not None and newest.run is None and newest.analysis is not None:
                self._app.on_thread(partial(self._judge_again, newest, newest.analysis))
        self._app.refresh_screen()

    def _judge_again(self, snapshot: Snapshot, analysis: TraceAnalysis) -> None:
        """Judge the trace on screen with the facts of the others."""
        from perftui.diagnosis.diagnose import diagnosis

        facts = self.facts_of(analysis)
        judged = replace(snapshot, facts=facts, diagnosis=diagnosis(facts))
        self._app.post_message(SnapshotReceived(judged))

    def knows(self, path: Path) -> bool:
        """Whether the trace at ``path`` and those of the other ranks have been read."""
        return any(rank.path == path for rank in self._read[0])

    def facts_of(self, analysis: TraceAnalysis) -> Facts:
        """Facts of the trace of one rank, with those of the others once all are read."""
        from perftui.facts.ranks.traced_ranks import facts_beside

        return facts_beside(analysis, *self._read)

    def open(self, row: int) -> None:
        rank = self.table.rows[row].rank if self.table else None
        file = next((file for file in self._app.ranks if file.rank == rank), None)
        if file is not None and file.path != self._app.target:
            self._app.open(file.path)


class RankReader(ReadingThread):
    """Reads the traces at ``paths``, and posts the table after each."""

    def __init__(self, paths: RankPaths, post: Post) -> None:
        super().__init__(paths[0][1], post)
        self._paths = paths

    def read(self) -> None:
        """Read all; one that cannot be read is reported and left out. Raises LoadCancelled if it
        was stopped meanwhile."""
        from perftui.facts.ranks.straggler import table_of_traces
        from perftui.facts.ranks.traced_ranks import read_ranks

        ranks: list[TracedRank] = []
        problems: list[str] = []
        for done, (_, result) in enumerate(read_ranks(self._paths, self.stopped.is_set), 1):
            if isinstance(result, str):
                problems.append(result)
            else:
                ranks.append(result)
            table = table_of_traces(ranks, len(self._paths) - done, problems)
            self.report(RanksRead(self._paths, table, done, tuple(ranks), tuple(problems)))
