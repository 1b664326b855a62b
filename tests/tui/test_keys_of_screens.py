"""The keys of screens and tables, the footer that names them, hints, help and other dialogs."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.app import App
from textual.events import MouseScrollDown, MouseScrollUp
from textual.pilot import Pilot

import perftui_tui
from perftui.diagnosis.model import Diagnosis, Figure, Finding, Severity
from perftui.diagnosis.symptoms.data_loader.workers import BOUND
from perftui.experiments.journal import Proof
from perftui.experiments.trial_verdict import Outcome
from perftui.facts.place import Place
from perftui_tui.app import PerftuiApp
from perftui_tui.dialogs.choice import Choice, ChoiceDialog, Prose
from perftui_tui.dialogs.help import BY_SCREEN, PANES, HelpDialog, metric_rows
from perftui_tui.keys.all_keys import KEYS, SCREENS
from perftui_tui.keys.own_keys import _NAMED, Overrides, check, hint
from perftui_tui.look.rows import plain, row
from perftui_tui.look.themes import THEMES
from perftui_tui.panes.gpu import LOW_BELOW
from perftui_tui.panes.machine import FULL_CPU, FULL_DISK
from perftui_tui.panes.meters import METERS
from perftui_tui.panes.verdict import MARKS
from perftui_tui.reading.snapshot import SLOW_RATIO
from perftui_tui.screens.overview.dashboard import GapList
from perftui_tui.tables.virtual import VirtualTable
from perftui_tui.widgets.keys_footer import KeysFooter
from perftui_tui.widgets.log_view import LogView
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import close, opened, press, text_of, until, until_shown
from tests.tui.recorded import ENDED, START, write_run
from tests.tui.test_fix_flow import ranked
from tests.tui.test_ranks_screen import write_run_of_ranks
from tests.tui.traces import write_op_trace, write_trace

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


@pytest.mark.keys("diagnosis.scroll_details(1)", "diagnosis.scroll_details(-1)")
async def test_the_evidence_scrolls_down_and_up(ended: Path) -> None:
    async with opened(ended, (80, 24)) as (app, pilot):
        await press(pilot, "4", until="confidence")
        details = app.screen.query_one("#finding-details", RowView)
        await pilot.press("pagedown")
        await until(pilot, lambda: details.scroll_y > 0, "the evidence further down")
        await pilot.press("pageup")
        await until(pilot, lambda: details.scroll_y == 0, "the evidence from its beginning")


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


@pytest.mark.keys(
    "compare.scroll_figures(1)", "compare.scroll_figures(-1)",
    "compare.scroll_figures(8)", "compare.scroll_figures(-8)",
)  # fmt: skip
async def test_figures_scroll_by_rows_and_pages(ended: Path) -> None:
    child = write_run(ended.parent, run_id="20231114-231320-train", parent=ended.name, **ENDED)
    async with opened(child, (60, 18)) as (app, pilot):
        await press(pilot, "5", until="BEFORE")
        screen = app.screen
        figures = screen.query_one("#figures", RowView)
        assert figures.max_scroll_y > 2
        await pilot.press("down", "down")
        await until(pilot, lambda: figures.scroll_y == 2, "two rows down")
        await pilot.press("up")
        await until(pilot, lambda: figures.scroll_y == 1, "one row up")
        await pilot.press("pagedown")
        lowest = min(9, figures.max_scroll_y)
        await until(pilot, lambda: figures.scroll_y == lowest, "a page down")
        await pilot.press("pageup")
        await until(pilot, lambda: figures.scroll_y == max(0, lowest - 8), "a page up")


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


@pytest.mark.keys("log.scroll_lines(1)", "log.scroll_lines(-1)", "log.scroll_pages(1)")
async def test_the_log_scrolls_by_lines_and_pages(tmp_path: Path) -> None:
    lines = b"".join(b"line %d\r\n" % number for number in range(300))
    async with opened(write_run(tmp_path, output=lines)) as (app, pilot):
        await until(pilot, lambda: len(app.output.lines) == 300, "the output")
        await pilot.press("6", "home")
        view = app.screen.query_one(LogView)
        await until(pilot, lambda: view.scroll_y == 0, "the first line")
        await pilot.press("down", "down")
        await until(pilot, lambda: view.scroll_y == 2, "two lines down")
        await pilot.press("up")
        await until(pilot, lambda: view.scroll_y == 1, "one line up")
        await pilot.press("pagedown")
        await until(pilot, lambda: view.scroll_y == view.size.height, "a page down")
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

        await pilot.press("home")
        assert place() == 0
        await pilot.press("down", "down")
        assert place() == 2
        await pilot.press("up")
        assert place() == 1
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


def last_row(app: PerftuiApp) -> str:
    return text_of(app).splitlines()[-1]


async def point(pilot: Pilot[None], words: str, *, click: bool = False) -> None:
    """Move to where ``words`` are in the footer, and click there."""
    app = pilot.app
    at = (last_row(app).index(words) + 1, 0)
    footer = app.screen.query_one(KeysFooter)
    await (pilot.click(footer, offset=at) if click else pilot.hover(footer, offset=at))


async def test_the_mouse_tells_what_a_key_does_and_presses_it(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (app, pilot):
        await until(pilot, lambda: "q Quit" in last_row(app), "the keys")
        footer = app.screen.query_one(KeysFooter)
        await point(pilot, "q Quit")
        assert footer.tooltip == "Quit; asks what to do with a running training"
        await point(pilot, "palette")
        assert footer.tooltip == "Open the command palette"
        await pilot.hover("#header")
        assert footer.tooltip is None
        await point(pilot, "? Help", click=True)
        await until(pilot, lambda: isinstance(app.screen, HelpDialog), "the help")
        await pilot.press("escape")
        await until(pilot, lambda: last_row(app).endswith("▏^p palette "), "the palette's key")
        await point(pilot, "palette", click=True)
        await until(pilot, lambda: app.screen.id == "--command-palette", "the palette")


async def test_help_keeps_its_place_and_wide_screens_have_the_palette(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), size=(70, 24)) as (app, pilot):
        await until(pilot, lambda: last_row(app).endswith("▏ ? Help "), "the key of help")
        row = last_row(app)
        assert "palette" not in row
        assert row.count("?") == 1
        await point(pilot, "? Help", click=True)
        await until(pilot, lambda: isinstance(app.screen, HelpDialog), "the help")
        await pilot.press("escape")
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: last_row(app).rstrip().endswith("palette"), "the palette there")
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: last_row(app).rstrip().endswith("? Help"), "help again")


@pytest.mark.parametrize("size", [(70, 24), (104, 40)])
async def test_the_wheel_brings_in_what_does_not_fit(tmp_path: Path, size: tuple[int, int]) -> None:
    async with opened(write_run(tmp_path), size=size) as (app, pilot):
        await press(pilot, "2", screen="timeline")
        await until(pilot, lambda: "q Quit" in last_row(app) or "▏" in last_row(app), "the keys")
        footer = app.screen.query_one(KeysFooter)
        first = last_row(app)
        for _ in range(60):
            footer.post_message(_wheel(MouseScrollDown, footer))
        await pilot.pause()
        moved = last_row(app)
        assert moved != first
        assert moved[-8:] == first[-8:]
        for _ in range(60):
            footer.post_message(_wheel(MouseScrollUp, footer))
        await pilot.pause()
        assert last_row(app) == first


async def test_no_key_is_shown_without_its_word(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), size=(80, 24)) as (app, pilot):
        await press(pilot, "2", screen="timeline")
        keys = "w In  s Out  n Gap  g Largest  f Fit  m Mark  / Search  q Quit  space Pause"
        for columns in range(60, 100):
            await pilot.resize_terminal(columns, 24)
            await until(pilot, lambda wide=columns: len(last_row(app)) == wide, "the width")
            shown, _, help_key = last_row(app).partition("▏")
            assert help_key == " ? Help "
            assert f"{keys}  c Capture ".startswith(f"{shown.strip()} ")


def _wheel(
    kind: type[MouseScrollDown] | type[MouseScrollUp], footer: KeysFooter
) -> MouseScrollDown | MouseScrollUp:
    return kind(footer, 1, 0, 0, 0, 0, False, False, False)


def numbers_of(screen: str) -> str:
    return "\n".join(part.text for part in metric_rows(screen) if isinstance(part, Prose))


def test_every_screen_and_meter_has_its_numbers_with_unit_and_source() -> None:
    assert set(BY_SCREEN) == set(SCREENS)
    assert set(PANES) <= {key.scope for key in KEYS}
    assert set(METERS) <= {entry.name for entry in BY_SCREEN["overview"]}
    for entry in {entry for entries in BY_SCREEN.values() for entry in entries}:
        assert entry.source, entry.name
        assert entry.unit or entry.name == "Output", entry.name


def test_limits_in_words_are_those_that_are_applied() -> None:
    words = numbers_of("overview")
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
        await press(pilot, "question_mark", until="Help: overview")
        app.screen.query_one("#body", RowView).scroll_end(animate=False)
        await until_shown(pilot, "infiniband: no InfiniBand ports.")
        await until_shown(pilot, "Intervals in which nothing ran")


@pytest.mark.keys("app.help")
async def test_the_part_that_has_the_focus_is_explained_first(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path), replay=True) as (_, pilot):
        await press(pilot, "3", until="aten::mm")
        await press(pilot, "question_mark", until=PANES["ops.table"].name)
        await close(pilot)


@pytest.mark.parametrize("screen", ["overview", "diagnosis"])
def test_the_marks_of_findings_are_explained(screen: str) -> None:
    for severity, (mark, _) in MARKS.items():
        assert f"{mark.strip()} {severity.name.lower()}" in numbers_of(screen)


OWN = {
    "app.help": "f1",
    "app.show('diagnosis')": "f2",
    "app.show('log')": "f3",
    "app.capture": "f4",
    "app.quit": "f5",
    "app.return": "f6",
    "overview.why": "f7",
    "overview.try_fix": "f8",
    "overview.show_gap": "f9",
    "diagnosis.try_fix": "f7",
    "diagnosis.undo_fix": "f8",
    "diagnosis.rerun": "f9",
    "diagnosis.choose_fix(1)": "f10",
    "compare.baseline": "f7",
    "compare.swap": "f8",
    "log.follow": "f7",
    "log.search": "f8",
    "timeline.event(1)": "f7",
    "timeline.gap(1)": "f8",
    "timeline.largest_gap": "f9",
    "timeline.step(1)": "f10",
    "timeline.slow_step(1)": "f11",
    "timeline.same_name(1)": "f12",
    "timeline.show_hidden": "ctrl+u",
    "timeline.hide": "ctrl+e",
    "timeline.search.all_ranks": "ctrl+r",
    "timeline.search.search": "ctrl+f",
    "ops.group(1)": "f7",
    "ops.detail.leave": "f8",
    "ops.kernels": "f9",
    "ops.table.open": "f10",
    "ranks.table.open": "f7",
    "runs.table.open": "f7",
}

OF_A_RUN = {
    "overview": ["f7 why", "f8 try it", "f2 opens Diagnosis", "f2 Diag", "f3 Log"],
    "diagnosis": ["f7 tries it", "f7 try   ", "f8 undo", "f9 run again"],
    "compare": ["the Diagnosis screen (f7):", "press f7 to"],
    "timeline": ["f4 records what runs", "f10 next, f11 next slow"],
    "ops": ["f4 profiles one now"],
    "log": ["f3 Log"],
}
OF_A_TRACE = {
    "overview": ["f9 shows it on the timeline", "f2 opens Diagnosis"],
    "timeline": [
        "press f7 for the next event, f8 for the next gap, f9 for the largest gap",
        "f10 next, f11 next slow",
        "largest gaps of the GPU  f9 next",
    ],
}
OF_HELP = {
    "overview": ["f8 ", "f7 "],
    "timeline": ["f8 goes to the next gap", "f9 to the largest", "ctrl+r shows all ranks"],
    "ops": ["f7 groups operators", "f9 the kernels", "f10 opens a row", "f8 goes back"],
    "diagnosis": ["f7 tries one", "f8 restores the source"],
    "compare": ["f7 chooses another baseline", "f8 swaps the two"],
    "log": ["f7 follows again"],
    "ranks": ["f7 shows a rank on all screens"],
    "runs": ["f7 shows a run on all screens"],
}


def own_keys() -> Overrides:
    own = check({name: [key] for name, key in OWN.items()})
    assert own.complaints == ()
    return own


def in_one_line(text: str) -> str:
    """With single blanks and without frames, whatever was wrapped."""
    return " ".join(text.replace("│", " ").split())


def body_of(app: PerftuiApp) -> str:
    """All of a dialog, also what would have to be scrolled to."""
    return "\n".join(plain(row) for row in app.screen.query_one("#body", RowView).rows)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["run", "trace"])
async def test_hints_and_help_name_the_keys_as_they_are(tmp_path: Path, kind: str) -> None:
    target = write_run(tmp_path) if kind == "run" else write_trace(tmp_path, steps=24)
    expected = OF_A_RUN if kind == "run" else OF_A_TRACE
    async with opened(target, (160, 60), keys=own_keys()) as (app, pilot):
        for screen in SCREENS:
            app.action_show(screen)
            await until(pilot, lambda screen=screen: app.current_mode == screen, screen)
            for words in map(in_one_line, expected.get(screen, [])):
                await until(pilot, lambda words=words: words in in_one_line(text_of(app)), words)
            await pilot.press("f1")
            await until(pilot, lambda: len(app.screen_stack) == 2, "help")
            await until(pilot, lambda: body_of(app), "its words")
            for words in OF_HELP.get(screen, []):
                assert words in in_one_line(body_of(app))
            await close(pilot, key="f1")


@pytest.mark.slow
async def test_a_page_a_hidden_track_and_a_held_log_name_them_too(tmp_path: Path) -> None:
    async with opened(write_op_trace(tmp_path), (160, 60), keys=own_keys()) as (app, pilot):
        app.action_show("ops")
        await until_shown(pilot, "aten::linear")
        await press(pilot, "f10", until="f8: back")
        app.action_show("timeline")
        await until_shown(pilot, "click an event")
        await press(pilot, "ctrl+e", until="1 hidden: ctrl+u shows")
    async with opened(write_run(tmp_path / "runs"), (80, 24), keys=own_keys()) as (app, pilot):
        await until(pilot, lambda: app.output.lines, "the output")
        app.action_show("log")
        await until_shown(pilot, "following")
        await press(pilot, "pageup", until="paused: f7 follows")
        await pilot.resize_terminal(50, 10)
        await until_shown(pilot, "f5 quits")


def test_every_hint_names_an_action_there_is() -> None:
    names = {key.name for key in KEYS}
    package = Path(perftui_tui.__file__).parent
    named = [
        (path.name, found)
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for found in _NAMED.findall(node.value)
    ]
    assert len(named) > 60
    assert [each for each in named if each[1] not in names and each[0] != "own_keys.py"] == []
    assert hint("{ops.filter} filters {x} {}") == "/ filters {x} {}"


class Host(App[None]):
    """An app with the colours of ours."""

    def on_load(self) -> None:
        """Colours come before the first screen."""
        self.register_theme(THEMES[0])
        self.theme = THEMES[0].name


CHOICES = (Choice(("enter",), "Go on"),)


async def test_it_shows_something_else() -> None:
    app = Host()
    async with app.run_test() as pilot:
        dialog = ChoiceDialog("A question", [row("before")], CHOICES)
        await app.push_screen(dialog)
        dialog.change([row("after")], CHOICES)
        await pilot.pause()
        assert dialog.query_one("#body", RowView).rows == (row("after"),)


async def test_it_is_told_before_it_has_parts_and_after_it_lost_them() -> None:
    app = Host()
    async with app.run_test():
        dialog = ChoiceDialog("A question", [row("before")], CHOICES)
        dialog.change([row("early")], CHOICES)
        await app.push_screen(dialog)
        await dialog.query("#choices").remove()
        dialog.change([row("late")], CHOICES)
        assert dialog.query_one("#body", RowView).rows == (row("early"),)
