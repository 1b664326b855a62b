"""Help: every screen, every number, and the part that has the focus."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.diagnosis.symptoms.data_loader.input_wait import BOUND
from perftui_tui.dialogs.choice import Prose
from perftui_tui.dialogs.help import metric_rows
from perftui_tui.keys.help_texts import BY_SCREEN, PANES
from perftui_tui.keys.table import KEYS, SCREENS
from perftui_tui.panes.gpu import LOW_BELOW
from perftui_tui.panes.machine import FULL_CPU, FULL_DISK
from perftui_tui.panes.meters import METERS
from perftui_tui.panes.verdict import MARKS
from perftui_tui.reading.snapshot import SLOW_RATIO
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import opened, until, until_shown
from tests.tui.recorded import write_run
from tests.tui.traces import write_trace


def text_of(screen: str) -> str:
    return "\n".join(part.text for part in metric_rows(screen) if isinstance(part, Prose))


def test_every_screen_has_its_numbers() -> None:
    assert set(BY_SCREEN) == set(SCREENS)
    assert set(PANES) <= {key.scope for key in KEYS}


def test_every_meter_of_the_overview_is_explained() -> None:
    assert set(METERS) <= {entry.name for entry in BY_SCREEN["overview"]}


def test_every_number_has_a_unit_and_a_source() -> None:
    for entry in {entry for entries in BY_SCREEN.values() for entry in entries}:
        assert entry.source, entry.name
        assert entry.unit or entry.name == "Output", entry.name


def test_limits_in_words_are_those_that_are_applied() -> None:
    words = text_of("overview")
    assert f"at least {SLOW_RATIO} times the median" in words
    assert f"Good: {LOW_BELOW:.0f} % or more" in words
    assert f"Good: below {100 * BOUND.limits.warning:.0f} %" in words
    assert f"Good: below {FULL_CPU:.0f} %" in words
    assert f"Good: busy below {FULL_DISK:.0f} %" in words


@pytest.mark.keys("app.help")
async def test_what_is_not_sampled_is_told_with_the_reason(tmp_path: Path) -> None:
    told = {"vm": {"infiniband": "no InfiniBand ports"}}
    root = write_run(tmp_path, host="vm", profile={"not_sampled": told})
    async with opened(root, (120, 60)) as (app, pilot):
        await pilot.press("question_mark")
        await until_shown(pilot, "Help: overview")
        app.screen.query_one("#body", RowView).scroll_end(animate=False)
        await until_shown(pilot, "infiniband: no InfiniBand ports.")


@pytest.mark.keys("app.help")
async def test_numbers_are_explained_below_the_keys(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), (120, 60)) as (app, pilot):
        await pilot.press("question_mark")
        await until_shown(pilot, "Help: overview")
        body = app.screen.query_one("#body", RowView)
        body.scroll_end(animate=False)
        await until_shown(pilot, "Intervals in which nothing ran")


@pytest.mark.keys("app.help")
async def test_the_part_that_has_the_focus_is_explained_first(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path), replay=True) as (app, pilot):
        await pilot.press("3")
        await until_shown(pilot, "aten::mm")
        await pilot.press("question_mark")
        await until_shown(pilot, PANES["ops.table"].name)
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1, "help closed")


@pytest.mark.parametrize("screen", ["overview", "diagnosis"])
def test_the_marks_of_findings_are_explained(screen: str) -> None:
    for severity, (mark, _) in MARKS.items():
        assert f"{mark.strip()} {severity.name.lower()}" in text_of(screen)
