"""The Diagnosis screen: each finding with its evidence and what can be done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.containers import Container, Vertical
from textual.geometry import Region
from textual.reactive import reactive
from textual.widget import Widget

from perftui.diagnosis.diagnose import timeline_place
from perftui.diagnosis.model import Finding
from perftui.fixes.option import FixOption
from perftui_tui.actions.clipboard import copy_text
from perftui_tui.keys.own_keys import bindings, shown_key
from perftui_tui.panes.meter import SnapshotPane
from perftui_tui.panes.step_bar import rows_of, step_parts
from perftui_tui.panes.top_ops import top_ops
from perftui_tui.panes.verdict import LEGEND, headlines
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.screens.diagnosis.finding import details, listing
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.widgets.row_view import RowView

FIX_KEYS = {"try_fix": "try", "tune": "tune", "write_fix": "write", "undo_fix": "undo"} | {
    "rerun": "run again"
}

FRAME_ROWS = 2
"""The border around a pane."""


class DiagnosisScreen(RunScreen):
    """A list of findings, and the selected one in full."""

    NAME = "diagnosis"
    HELP = (
        "Every finding with its numbers, the limits they exceed, its cost per step, and the best "
        "possible speed-up from removing it (Amdahl: step / (step - cost)). Below are its fixes, "
        "each with its gain, risk and proof. {diagnosis.try_fix} tries one without touching the "
        "source: in a single run, or with pairs of runs, with it and without, until the gain is "
        "certain; {app.trial} shows the progress of a trial, and the result stays with the fix. "
        "{diagnosis.tune} tries all fixes one by one and writes those that are proven. "
        "{diagnosis.write_fix} shows a fix as a diff and writes it; {diagnosis.undo_fix} restores "
        "the source byte for byte. At the end are the rules that could not judge, and why."
    )
    BINDINGS = bindings("diagnosis")

    DEFAULT_CSS = """
    DiagnosisScreen {
        #diagnosis { height: 1fr; }
        #finding-list { height: auto; max-height: 8; border: round $chart; }
        #finding-side { height: auto; }
        #finding-step, #finding-ops { border: round $chart; display: none; }
        #finding-ops { height: 1fr; }
        #finding-details {
            height: 1fr; border: round $chart; scrollbar-gutter: stable; padding: 0 1;
        }
    }
    DiagnosisScreen.-tall #finding-list { max-height: 10; }
    DiagnosisScreen.-wide {
        #diagnosis { layout: horizontal; }
        #finding-side { width: 80; height: 1fr; }
        #finding-list { height: 1fr; max-height: 100%; }
        #finding-details { width: 1fr; }
    }
    DiagnosisScreen.-tall.-wide {
        #finding-list { height: auto; max-height: 50%; }
        #finding-step, #finding-ops { display: block; }
    }
    """

    selected: reactive[str] = reactive("", init=False, repaint=False)
    """The rule of the selected finding; what is not there (any more) stands for the first. Each
    picture is ranked anew: a place in the list may be that of another finding a second later."""
    chosen: reactive[str] = reactive("", init=False, repaint=False)
    """Which of its fixes, by its name as well."""
    watch_chosen = RunScreen.redraw

    def body(self) -> Iterable[Widget]:
        """The list and the details; on a large screen where the time goes, below the list."""
        side = Vertical(
            RowView(id="finding-list"),
            SnapshotPane(step_parts, id="finding-step", title="Mean step"),
            SnapshotPane(top_ops, id="finding-ops", title="Top ops"),
            id="finding-side",
        )
        yield Container(side, RowView(id="finding-details"), id="diagnosis")

    @property
    def finding(self) -> Finding | None:
        """The selected finding."""
        return self._findings[self._at] if self._findings else None

    @property
    def option(self) -> FixOption | None:
        """The chosen fix of the selected finding."""
        return self._options[self._chosen_at] if self._options else None

    @property
    def _findings(self) -> tuple[Finding, ...]:
        return self.snapshot.diagnosis.findings if self.snapshot else ()

    def useless_actions(self) -> frozenset[str]:
        """Without a finding there is no evidence to go to."""
        useless = super().useless_actions()
        return useless if self._findings else useless | {"show_evidence"}

    @property
    def _options(self) -> tuple[FixOption, ...]:
        return self.snapshot.fixes(self.finding) if self.snapshot and self.finding else ()

    @property
    def _at(self) -> int:
        return _place(self.selected, [finding.rule for finding in self._findings])

    @property
    def _chosen_at(self) -> int:
        return _place(self.chosen, [option.fix for option in self._options])

    def refresh_state(self) -> None:
        """Select what somebody was led here for."""
        super().refresh_state()
        if self.is_composed and self.session.fix is not None:
            self.selected, self.chosen = self.session.fix
            self.session.fix = None

    def show(self, snapshot: Snapshot) -> None:
        """Draw both parts."""
        listed = self.query_one("#finding-list", RowView)
        detailed = self.query_one("#finding-details", RowView)
        listed.rows = listing(snapshot, self._at, listed.content_size.width)
        listed.entitle("Findings, by what they cost", LEGEND if self._findings else "")
        cells = detailed.content_size.width - 1
        detailed.rows = details(snapshot, self.finding, self._options, self._chosen_at, cells)
        useless = self.useless_actions()
        fixes = "   ".join(
            f"{shown_key(f'diagnosis.{action}')} {label}"
            for action, label in FIX_KEYS.items()
            if action not in useless
        )
        if {"-tall", "-wide"} <= self.classes:
            for pane in self.walk_children(SnapshotPane):
                pane.show(snapshot)
            self.query_one("#finding-step").styles.height = rows_of(snapshot) + FRAME_ROWS
        count = len(snapshot.diagnosis.findings)
        title = f"{self._at + 1}/{count}  {self.finding.rule}" if self.finding else "No finding"
        detailed.entitle(title, fixes)

    def watch_selected(self) -> None:
        """Show another finding from its beginning."""
        self.chosen = ""
        self.query_one("#finding-details", RowView).scroll_home(animate=False)
        self.redraw()
        self.call_after_refresh(self._show_selected)

    def _show_selected(self) -> None:
        """Scroll the list to the selected finding."""
        if self.snapshot is None:
            return
        listed = self.query_one("#finding-list", RowView)
        cells, shown = listed.content_size.width - 1, self.snapshot
        heights = [len(headlines(finding, shown, cells)) for finding in self._findings] or [1]
        region = Region(0, sum(heights[: self._at]), 1, heights[self._at])
        listed.scroll_to_region(region, animate=False)

    def action_select(self, step: int) -> None:
        if self._findings:
            at = max(0, min(len(self._findings) - 1, self._at + step))
            self.selected = self._findings[at].rule

    def action_choose_fix(self, step: int) -> None:
        if self._options:
            self.chosen = self._options[(self._chosen_at + step) % len(self._options)].fix

    def action_scroll_details(self, pages: int) -> None:
        pane = self.query_one("#finding-details", RowView)
        pane.scroll_relative(y=pages * max(1, pane.size.height - 2), animate=False)

    def action_try_fix(self) -> None:
        self.session.trials.offer(self.finding, self.option)

    def action_tune(self) -> None:
        self.session.trials.offer_tuning()

    def action_write_fix(self) -> None:
        option, snapshot = self.option, self.snapshot
        proof = snapshot.proof(option) if option and snapshot else None
        self.session.source_fixes.write(option, proof.headline if proof is not None else "")

    def action_show_evidence(self) -> None:
        finding, snapshot = self.finding, self.snapshot
        place = timeline_place(finding, snapshot.analysis) if finding and snapshot else None
        if place is None:
            self.notify("this evidence is not in a profiled window", severity="warning")
        else:
            self.session.go_to_place(*place)

    def action_copy_fix(self) -> None:
        if self.option is None or self.option.patch is None:
            self.notify("no patch to copy", severity="warning")
        else:
            copy_text(self.app, self.option.patch.diff(), "the patch")


def _place(name: str, names: Sequence[str]) -> int:
    """Where ``name`` is among ``names``, 0 where it is not there."""
    return names.index(name) if name in names else 0
