"""The Ops screen: the operators and kernels of the newest window."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from textual import on
from textual.widget import Widget

from perftui.analysis.model import TraceAnalysis
from perftui.trace.rank_files import without_endings
from perftui_tui.keys.keymap import hint
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.screens.ops.detail import OpsDetail
from perftui_tui.screens.ops.view import OpsView
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.tables.csv_files import folder_for


class OpsScreen(RunScreen):
    """Tables of operators and kernels, and what is opened of them."""

    DEFAULT_CSS = """
    OpsScreen.-tall OpsView.-roofline > #ops-roofline { display: block; }
    OpsScreen.-tall OpsView > #ops-about { max-height: 6; }
    OpsScreen.-tall OpsView.-roofline.-opened > #ops-roofline { display: none; }
    """
    NAME = "ops"
    HELP = (
        "Operators with their own and total time on the CPU and the GPU, or kernels. Own excludes "
        "the operators that it calls; GPU time is that of the kernels it launched. {ops.group(1)} "
        "groups operators by name, shapes, module or line (the line of the function if torch has "
        "no other), {ops.tree} shows the call tree, {ops.kernels} the kernels, {ops.sums} the "
        "marked ranges (NVTX under nsys, record_function in torch) and then the CUDA calls by "
        "name: a range nested in another of its name on the same thread adds no time, and the mean "
        "is per range. {ops.roofline} compares the calls of one step with the roofline: the least "
        "time that the card needs for their arithmetic and memory traffic, by its data sheet and, "
        "after `perftui probe` on such a card, as measured. That needs the sizes of tensors "
        "(--shapes), and a GPU. {ops.table.open} opens a row: its kernels, callers, shapes and "
        "places on the timeline; {ops.detail.leave} goes back. {ops.filter} filters, "
        "{ops.table.sort(-1)} and {ops.table.sort(1)} (or a click on a title) choose the sort "
        "column, {ops.table.reverse} reverses the order, {ops.save} saves the table. Use of tensor "
        "cores is inferred from kernel names, and so is their share of an operator's own GPU time; "
        "occupancy is the profiler's estimate, unless --ncu measured it."
    )

    _shown: tuple[TraceAnalysis | None, str] | None = None
    """What the tables hold: they are built anew only for another window."""

    def body(self) -> Iterable[Widget]:
        """The tables."""
        yield OpsView(id="ops-view")

    def show(self, snapshot: Snapshot) -> None:
        """Hand over a window once."""
        shown = (snapshot.analysis, window_note(snapshot))
        if shown != self._shown:
            self._shown = shown
            self.query_one(OpsView).show(*shown, self.session.kernel_metrics)

    def part_with_keys(self) -> Widget:
        """The table, or the page over it."""
        return self.query_one(OpsView)

    @on(OpsDetail.RowChosen)
    def _opened(self, event: OpsDetail.RowChosen) -> None:
        analysis = self.snapshot.analysis if self.snapshot else None
        if analysis is not None:
            start = int(analysis.trace.start[event.row])
            end = start + int(analysis.trace.duration[event.row])
            self.session.go_to_place(start, end, event.row)
            self.notify(hint("{app.return} goes back"), timeout=3)

    @on(OpsView.SaveWanted)
    def _save(self, event: OpsView.SaveWanted) -> None:
        target = self.session.target
        stem = event.stem if target.is_dir() else f"{_stem(target)}-{event.stem}"
        self.save(event.text, folder_for(target), stem)


def _stem(trace: Path) -> str:
    """The name of a trace without the endings that traces have."""
    return without_endings(trace.name) or "trace"


def window_note(snapshot: Snapshot) -> str:
    """The window by its first step, or why there is none."""
    if snapshot.is_memory_alone:
        return hint(
            "a memory snapshot has no timings: {app.show('memory')} shows allocations by call site"
        )
    if snapshot.phase is Phase.TRACE:
        return snapshot.title
    rank = snapshot.rank
    if snapshot.analysis is not None:
        step = snapshot.analysis.trace.path.name.split(".", 1)[0]
        return f"window at step {step}" if step.isdecimal() else snapshot.analysis.trace.path.name
    if rank is not None and rank.windows:
        return "the newest window is being read"
    if snapshot.phase.is_live:
        return hint(
            "no window profiled yet: one follows the warm-up, {app.capture} profiles one now"
        )
    return "this run has no profiled window"
