"""Help, hints, and dialogs that are told to show something else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from textual import events
from textual.app import App

import perftui_tui
from perftui.diagnosis.symptoms.data_loader.workers import input_bound
from perftui_tui.app import PerftuiApp
from perftui_tui.dialogs.choice import Choice, ChoiceDialog, Prose
from perftui_tui.dialogs.help import BY_SCREEN, PANES, metric_rows
from perftui_tui.keys.all_keys import KEYS, SCREENS
from perftui_tui.keys.own_keys import _NAMED, Overrides, check, hint
from perftui_tui.look.rows import plain, row
from perftui_tui.look.themes import THEMES
from perftui_tui.panes.gpu import LOW_BELOW
from perftui_tui.panes.machine import FULL_CPU, FULL_DISK
from perftui_tui.panes.verdict import MARKS
from perftui_tui.reading.snapshot import SLOW_RATIO
from perftui_tui.screens.overview.dashboard import METERS
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import close, opened, press, text_of, until, until_shown
from tests.tui.recorded import write_run
from tests.tui.traces import write_op_trace, write_trace


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
    assert f"Good: below {100 * input_bound.limits.warning:.0f} %" in words
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
        await until_shown(pilot, "not certain: chance or a busy host")


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
    "diagnosis": ["f7 tries it", "f9 Run again"],
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
    "diagnosis": ["f7 tries a fix", "f8 undoes it"],
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


async def test_a_key_that_is_pressed_twice_answers_once() -> None:
    app = Host()
    async with app.run_test() as pilot:
        dialog = ChoiceDialog("A question", [row("before")], CHOICES)
        await app.push_screen(dialog)
        for _ in range(3):
            dialog.post_message(events.Key("enter", None))
        await pilot.pause()
        assert len(app.screen_stack) == 1


async def test_it_is_told_before_it_has_parts_and_after_it_lost_them() -> None:
    app = Host()
    async with app.run_test():
        dialog = ChoiceDialog("A question", [row("before")], CHOICES)
        dialog.change([row("early")], CHOICES)
        await app.push_screen(dialog)
        await dialog.query("#choices").remove()
        dialog.change([row("late")], CHOICES)
        assert dialog.query_one("#body", RowView).rows == (row("early"),)
