"""What the screens use of the app, so that none of them has to import it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from perftui_tui.actions.host import Host

if TYPE_CHECKING:
    from textual.geometry import Size

    from perftui.analysis.model import TraceAnalysis
    from perftui.trace.ncu import KernelMetrics
    from perftui_tui.actions.other_traces import Baseline, RankTraces
    from perftui_tui.actions.playback import Playback
    from perftui_tui.actions.source_fixes import SourceFixes
    from perftui_tui.actions.trials import Trials
    from perftui_tui.reading.output import Output


class Session(Host, Protocol):
    """The app, as far as screens need it."""

    is_replay: bool
    output: Output
    shows_frames: bool
    preview: TraceAnalysis | None
    kernel_metrics: KernelMetrics | None
    trail: tuple[str, ...]
    baseline: Baseline
    playback: Playback
    rank_traces: RankTraces
    source_fixes: SourceFixes
    trials: Trials

    def check_size(self, size: Size) -> None:
        """Say so where a terminal of ``size`` is too small for the screen."""

    def show_rank(self, rank: int) -> None:
        """Show another rank of the run on all screens."""

    def follow(self, name: str) -> None:
        """Go to a screen; ``backspace`` leads back."""

    def go_to_place(self, start: int, end: int, row: int | None = None) -> None:
        """Show ``start`` to ``end`` (ns since the trace's start) on the timeline."""

    def go_to_fix(self, rule: str, fix: str) -> None:
        """Show a finding and one of its fixes on the Diagnosis screen."""

    def take_fix(self) -> tuple[str, str] | None:
        """The finding and the fix to show there, returned once."""

    def take_place(self) -> tuple[int, int, int | None] | None:
        """The place to show on the timeline, returned once."""
