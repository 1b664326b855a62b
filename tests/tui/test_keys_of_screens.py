"""The keys of screens and tables, and the footer that names them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from perftui.diagnosis.model import Diagnosis, Figure, Finding, Severity
from perftui.experiments.journal import Proof
from perftui.experiments.trial_verdict import Outcome
from perftui.facts.place import Place
from perftui_tui.app import PerftuiApp
from perftui_tui.dialogs.help import HelpDialog
from perftui_tui.screens.overview.dashboard import GapList
from perftui_tui.tables.virtual import VirtualTable
from perftui_tui.widgets.keys_footer import KeysFooter
from perftui_tui.widgets.log_view import LogView
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import opened, press, text_of, until, until_shown
from tests.tui.recorded import ENDED, START, write_run
from tests.tui.test_fix_flow import footer, ranked
from tests.tui.test_ranks_screen import write_run_of_ranks
from tests.tui.traces import write_trace

pytestmark = pytest.mark.slow


@pytest.mark.keys("overview.select_gap(1)", "overview.select_gap(-1)")
async def test_gaps_are_selected_one_after_the_other(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path, steps=4), replay=True) as (app, pilot):
        await until_shown(pilot, "GPU idle")
        gaps = app.screen.query_one(GapList)
        first = gaps.gap
        await pilot.press("down")
        second = gaps.gap
        assert second is not None
        assert second != first
        await pilot.press("up")
        assert gaps.gap == first


@pytest.mark.keys("diagnosis.unfold", "diagnosis.scroll_details(1)", "diagnosis.scroll_details(-1)")
async def test_the_evidence_unfolds_and_scrolls_down_and_up(ended: Path) -> None:
    async with opened(ended, (80, 24)) as (app, pilot):
        await press(pilot, "4", until="confidence")
        details = app.screen.query_one("#finding-details", RowView)
        folded = len(details.rows)
        await press(pilot, "e", until="limit 5 %")
        await pilot.click("#finding-details")
        await until(pilot, lambda: len(details.rows) == folded, "the evidence folded away")
        await press(pilot, "e", until="limit 5 %")
        await pilot.press("pageup", "pageup")
        await until(pilot, lambda: details.scroll_y == 0, "the finding from its beginning")
        await pilot.press("pagedown")
        await until(pilot, lambda: details.scroll_y > 0, "the evidence further down")


@pytest.mark.keys("diagnosis.show_evidence")
async def test_evidence_is_shown_on_the_timeline(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path, steps=24), replay=True) as (app, pilot):
        await press(pilot, "4", screen="diagnosis")
        fact = Figure("a gap", "6 ms", place=Place(start=5_000_000, end=9_000_000))
        finding = Finding("sync-bound", Severity.WARNING, "it waits", steps=20, facts=(fact,))
        app.snapshot = replace(app.snapshot, diagnosis=Diagnosis((finding,), steady_steps=20))
        await until_shown(pilot, "confidence")
        await press(pilot, "t", screen="timeline")


@pytest.mark.keys("diagnosis.copy_fix", "diagnosis.choose_fix(1)", "diagnosis.choose_fix(-1)")
async def test_fixes_are_copied_as_a_patch_and_chosen_one_after_the_other(ended: Path) -> None:
    async with opened(ended, (120, 60)) as (app, pilot):
        await press(pilot, "4", until="confidence")
        await press(pilot, "y", until="to the clipboard")
        assert "--- " in app.clipboard
        assert "+    return DataLoader(" in app.clipboard
        app.snapshot = ranked(app.snapshot, "one")
        screen = app.screen
        await pilot.press("right")
        assert screen.option.fix == "one-2"
        await pilot.press("left")
        assert screen.option.fix == "one-1"


async def scrolls(pilot: Pilot[None], view: RowView, *moves: tuple[str, int]) -> None:
    """Press the keys of each move, and wait until ``view`` is scrolled so far."""
    for keys, top in moves:
        await pilot.press(*keys.split())
        await until(pilot, lambda top=top: view.scroll_y == top, keys)


@pytest.mark.keys(
    "compare.scroll_figures(1)", "compare.scroll_figures(-1)",
    "compare.scroll_figures(8)", "compare.scroll_figures(-8)",
    "compare.scroll_figures(9999)", "compare.scroll_figures(-9999)",
)  # fmt: skip
async def test_figures_scroll_by_rows_and_pages(ended: Path) -> None:
    child = write_run(ended.parent, run_id="20231114-231320-train", parent=ended.name, **ENDED)
    async with opened(child, (60, 18)) as (app, pilot):
        await press(pilot, "5", until="BEFORE")
        screen = app.screen
        figures = screen.query_one("#figures", RowView)
        assert figures.max_scroll_y > 2
        last = figures.max_scroll_y
        pages = ("pagedown", min(9, last)), ("pageup", max(0, min(9, last) - 8))
        await scrolls(pilot, figures, ("down down", 2), ("up", 1), *pages, ("end", last))
        await scrolls(pilot, figures, ("home", 0))


@pytest.mark.keys("compare.write_fix")
async def test_the_fix_that_was_tried_is_written(
    ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "perftui.recorder.launch.start",
        lambda launch: write_run(
            launch.runs,
            run_id="20231114-231320-train",
            script=tmp_path / "train.py",
            loader_line=4,
            cwd=str(tmp_path),
            parent=launch.parent,
            name=launch.name,
            overrides=launch.overrides,
        ),
    )
    async with opened(ended) as (app, pilot):
        await press(pilot, "a", until="Run again?")
        await press(pilot, "enter", screen="compare")
        change = app.trials.change
        tried = change.option
        proof = Proof(tried.fix, tried.title, Outcome.FASTER, "2.00x faster", (), 1, 2.0)
        app.trials.proofs.add(ended, proof)
        await press(pilot, "w", until="Write the fix?")
        await until_shown(pilot, "2.00x faster")
        await press(pilot, "enter", until="train.py written")
        assert [one.gain for one in app.source_fixes.written] == ["2.00x faster"]
    assert "num_workers=" in (tmp_path / "train.py").read_text()


@pytest.mark.keys(
    "log.scroll_lines(1)", "log.scroll_lines(-1)", "log.scroll_pages(1)",
    "log.scroll_sideways(1)", "log.scroll_sideways(-1)",
)  # fmt: skip
async def test_the_log_scrolls_by_lines_and_pages_and_along_long_lines(tmp_path: Path) -> None:
    lines = b"".join(b"line %d\r\n" % number for number in range(299))
    lines += b"RuntimeError: %smust match\r\n" % (b"the size of tensor a " * 6)
    async with opened(write_run(tmp_path, output=lines)) as (app, pilot):
        await until(pilot, lambda: len(app.output.lines) == 300, "the output")
        await press(pilot, "6", until="→ more of long lines")
        assert "must match" not in text_of(app)
        await press(pilot, "right", until="must match")
        await pilot.press("right")
        assert "RuntimeError" not in text_of(app)
        await press(pilot, "left", until="RuntimeError")
        await press(pilot, "slash", *"match", "enter", until="must match")
        view = app.screen.query_one(LogView)
        page = ("pagedown", view.size.height)
        await scrolls(pilot, view, ("f home", 0), ("down down", 2), ("up", 1), page)
        assert f"line {view.size.height}" in text_of(app)


async def table_on(app: PerftuiApp, pilot: Pilot[None], digit: str, rows: int) -> VirtualTable:
    await pilot.press(digit)

    def has_rows() -> bool:
        table = app.screen.focused
        return isinstance(table, VirtualTable) and len(table.data) == rows

    await until(pilot, has_rows, "the rows")
    return app.screen.focused


def many_ranks(folder: Path) -> tuple[Path, str]:
    return write_run_of_ranks(folder, *range(4, 44)), "8"


def many_runs(folder: Path) -> tuple[Path, str]:
    for number in range(39):
        write_run(
            folder, steps=2, run_id=f"2023111{number:02}-run", started_ns=START - number * 10**9
        )
    return write_run(folder, steps=2), "9"


@pytest.mark.keys(
    "ranks.table.move(1)", "ranks.table.page(1)", "ranks.table.edge(1)",
    "ranks.table.move(-1)", "ranks.table.page(-1)", "ranks.table.edge(-1)",
    "runs.table.move(1)", "runs.table.page(1)", "runs.table.edge(1)",
    "runs.table.move(-1)", "runs.table.page(-1)", "runs.table.edge(-1)",
)  # fmt: skip
@pytest.mark.parametrize("make", [many_ranks, many_runs])
async def test_the_selection_moves_by_rows_pages_and_to_the_ends(
    tmp_path: Path, make: Callable[[Path], tuple[Path, str]]
) -> None:
    root, digit = make(tmp_path)
    async with opened(root, (120, 24)) as (app, pilot):
        table = await table_on(app, pilot, digit, 40)

        def place() -> int:
            return table.order.tolist().index(table.selected_row)

        for keys, at in (("home",), 0), (("down", "down"), 2), (("up",), 1):
            await pilot.press(*keys)
            assert place() == at
        await pilot.press("pagedown")
        page = place() - 1
        assert 5 < page < 24
        await pilot.press("pageup")
        assert place() == 1
        await pilot.press("end")
        assert place() == 39


@pytest.mark.keys("runs.table.sort(1)", "runs.table.sort(-1)", "runs.table.reverse")
async def test_runs_are_sorted_by_each_column(tmp_path: Path) -> None:
    root, digit = many_runs(tmp_path)
    async with opened(root, (200, 50)) as (app, pilot):
        table = await table_on(app, pilot, digit, 40)
        before = table.order.tolist()
        await pilot.press("R")
        assert table.order.tolist() != before
        await pilot.press("R")
        assert table.order.tolist() == before
        column = table._sort_column
        await pilot.press("greater_than_sign")
        after = table._sort_column
        assert after != column
        await pilot.press("less_than_sign")
        assert table._sort_column == column


async def point(pilot: Pilot[None], words: str, *, click: bool = False) -> None:
    """Move to where ``words`` are in the footer, and click there."""
    app = pilot.app
    at = (footer(app).index(words) + 1, 0)
    keys = app.screen.query_one(KeysFooter)
    await (pilot.click(keys, offset=at) if click else pilot.hover(keys, offset=at))


async def test_the_mouse_tells_what_a_key_does_and_presses_it(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (app, pilot):
        await until(pilot, lambda: "q Quit" in footer(app), "the keys")
        keys = app.screen.query_one(KeysFooter)
        await point(pilot, "q Quit")
        assert keys.tooltip == "Quit; asks what to do with a running training"
        await point(pilot, "palette")
        assert keys.tooltip == "Open the command palette"
        await pilot.hover("#header")
        assert keys.tooltip is None
        await point(pilot, "? Help", click=True)
        await until(pilot, lambda: isinstance(app.screen, HelpDialog), "the help")
        await pilot.press("escape")
        await until(pilot, lambda: footer(app).endswith("▏^p palette "), "the palette's key")
        await point(pilot, "palette", click=True)
        await until(pilot, lambda: app.screen.id == "--command-palette", "the palette")


async def test_help_keeps_its_place_and_wide_screens_have_the_palette(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), size=(70, 24)) as (app, pilot):
        await until(pilot, lambda: footer(app).endswith("▏ ? Help "), "the key of help")
        row = footer(app)
        assert "palette" not in row
        assert row.count("?") == 1
        await point(pilot, "? Help", click=True)
        await until(pilot, lambda: isinstance(app.screen, HelpDialog), "the help")
        await pilot.press("escape")
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: footer(app).rstrip().endswith("palette"), "the palette there")
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: footer(app).rstrip().endswith("? Help"), "help again")


async def test_no_key_is_shown_without_its_word(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), size=(80, 24)) as (app, pilot):
        await press(pilot, "2", screen="timeline")
        keys = "w In  s Out  n Gap  g Largest  f Fit  m Mark  / Search  q Quit  space Pause"
        for columns in range(60, 100):
            await pilot.resize_terminal(columns, 24)
            await until(pilot, lambda wide=columns: len(footer(app)) == wide, "the width")
            shown, _, help_key = footer(app).partition("▏")
            assert help_key == " ? Help "
            assert f"{keys}  c Capture ".startswith(f"{shown.strip()} ")
