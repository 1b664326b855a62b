"""The keys, a person's own, and that a test presses each."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.binding import Binding

from perftui.run.control import take_requests
from perftui.run.layout import RunLayout
from perftui.run.manifest import Status, StopReason
from perftui_tui.app import PerftuiApp
from perftui_tui.cli import main
from perftui_tui.dialogs.help import help_rows
from perftui_tui.keys.all_keys import KEYS, LONG_NAMES, SCREENS, Key
from perftui_tui.keys.own_keys import (
    NAMED,
    NO_OVERRIDES,
    Overrides,
    bindings,
    check,
    file_text,
    key_file,
    key_in_file,
    key_name,
    keys_of,
    keys_on,
    read_overrides,
    shown_key,
)
from perftui_tui.look.rows import plain
from perftui_tui.widgets.header_line import tabs
from tests.ran import ran
from tests.tui.conftest import proven
from tests.tui.driving import close, opened, press, text_of, until, until_on, until_shown
from tests.tui.recorded import ENDED, NOW, START, write_run


@pytest.fixture
def live(tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs")


def test_no_screen_binds_a_key_twice() -> None:
    for screen in SCREENS:
        # Of its parts one has the focus, which may take a key over from the app.
        for part in {screen, *(key.scope for key in keys_on(screen))}:
            scopes = {screen, "app" if part == screen else part}
            # Escape also closes a message, where the screen has no use for it.
            own = [key.keys.removesuffix(",escape") for each in scopes for key in keys_of(each)]
            keys = [one for keys in own for one in keys.split(",")]
            assert len(keys) == len(set(keys)), part


def test_every_key_has_words_and_every_action_a_name_of_its_own() -> None:
    assert all(key.label and key.help for key in KEYS)
    assert len(bindings("app")) == len(keys_of("app"))
    assert len({key.name for key in KEYS}) == len(KEYS)
    assert {key.scope.partition(".")[0] for key in KEYS} == {"app", *SCREENS}


@pytest.mark.slow
@pytest.mark.keys(
    "app.next_screen(1)", "app.next_screen(-1)", "app.show('overview')",
    "app.show('timeline')", "app.show('ops')", "app.show('diagnosis')", "app.show('compare')",
    "app.show('log')", "app.show('memory')", "app.show('ranks')", "app.show('runs')",
    "app.help", "app.next_theme",
)  # fmt: skip
async def test_tab_and_digits_choose_the_screen_whose_keys_help_lists_in_each_theme(
    live: Path,
) -> None:
    async with opened(live) as (app, pilot):
        for name in (*SCREENS[1:], SCREENS[0]):
            await press(pilot, "tab", screen=name)
        await press(pilot, "shift+tab", screen=SCREENS[-1])
        for digit, (name, title) in enumerate(zip(SCREENS, LONG_NAMES, strict=True), 1):
            await press(pilot, str(digit), screen=name, until=f" {digit} {title} ")
        for name in SCREENS:
            app.action_show(name)
            await until_on(pilot, name)
            await press(pilot, "question_mark", until=f"Help: {name}")
            assert "Quit; asks what to do" in text_of(app) or "down" in text_of(app)
            await close(pilot)
        seen = {app.theme}
        for _ in range(3):
            await pilot.press("T")
            seen.add(app.theme)
        assert len(seen) == 4


def header_of(app: PerftuiApp) -> str:
    return text_of(app).splitlines()[0]


@pytest.mark.slow
async def test_every_screen_and_the_state_are_in_the_header(live: Path) -> None:
    async with opened(live, (60, 24)) as (app, pilot):
        for screen in SCREENS:
            app.action_show(screen)
            await until_on(pilot, screen)
            for columns in (60, 79, 80, 88, 89, 103, 104, 120, 300):
                await pilot.resize_terminal(columns, 24)
                await until(pilot, lambda wide=columns: len(header_of(app)) == wide, "the new size")
                header = header_of(app)
                for digit in range(1, len(SCREENS) + 1):
                    assert f" {digit} " in header
                assert "train" in header
                assert "live" in header
                if columns == 60:
                    assert f"  {LONG_NAMES[SCREENS.index(screen)]} " in header


@pytest.mark.parametrize("columns", [60, 74, 75, 80, 103, 104, 200])
def test_no_tab_moves_when_another_screen_is_shown(columns: int) -> None:
    """Each is as wide on every screen, and has the same name."""
    shown = {"".join(text for _, (text, _) in tabs(screen, columns)).rstrip() for screen in SCREENS}
    assert len(shown) == 1
    names = " 1 Over 2 Time 3 Ops 4 Diag 5 Comp 6 Log 7 Mem 8 Rank 9 Runs"
    assert (names in shown) == (75 <= columns < 104)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": Status.EXITED, "exit_code": 0}, "exit 0"),
        ({"status": Status.EXITED, "exit_code": 1}, "failed 1"),
        ({"status": Status.KILLED, "exit_code": 137}, "killed 137"),
        ({"status": Status.KILLED, "exit_code": 130, "stop_reason": StopReason.RERUN}, "stopped"),
    ],
)
async def test_how_a_run_ended_is_said_in_a_narrow_header(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    root = write_run(tmp_path, **changes, ended_ns=START + 10**11)
    async with opened(root, (80, 24), replay=True) as (app, _):
        assert text_of(app).splitlines()[0].endswith(f"  train {words} ")


@pytest.mark.slow
async def test_a_small_terminal_speaks_of_a_training_only_where_one_runs(tmp_path: Path) -> None:
    changes: dict[str, Any]
    for changes, goes_on in (({}, True), (ENDED, False)):
        root = write_run(tmp_path / str(goes_on), **changes)
        async with opened(root, (80, 24), replay=not goes_on) as (app, pilot):
            await pilot.resize_terminal(38, 7)
            await until_shown(pilot, "needed  40 x 8")
            assert ("The training goes on" in text_of(app)) == goes_on
            assert "q quits" in text_of(app)


@pytest.mark.keys("overview.why")
async def test_a_click_on_a_name_goes_there_and_enter_explains(live: Path) -> None:
    async with opened(live) as (app, pilot):
        at = text_of(app).splitlines()[0].index("4 Diagnosis")
        await pilot.click("#header", offset=(at + 2, 0))
        await until(pilot, lambda: app.current_mode == "diagnosis", "the diagnosis")
        await pilot.press("1")
        await press(pilot, "enter", screen="diagnosis", until="confidence")


def bound_by_us(app: PerftuiApp) -> list[Binding]:
    """Every binding that a class of ours declares and that works on the screen now."""
    nodes = {active.node for active in app.screen.active_bindings.values()}
    classes = {one for node in nodes for one in type(node).__mro__}
    ours = [one for one in classes if one.__module__.startswith("perftui_tui")]
    declared = [binding for one in ours for binding in vars(one).get("BINDINGS", ())]
    return list(Binding.make_bindings(declared))


def keys_now(app: PerftuiApp, screen: str) -> list[Key]:
    """The keys of the screen and the app, without those of parts that do not have the focus."""
    bound = [active.binding for active in app.screen.active_bindings.values()]
    scopes = {(one.id or "").removesuffix(f".{one.action}") for one in bound} | {screen, "app"}
    return [key for key in (*keys_on(screen), *keys_of("app")) if key.scope in scopes]


@pytest.mark.slow
async def test_every_binding_comes_from_the_table_and_is_in_help_and_palette(trace: Path) -> None:
    async with opened(trace, replay=True) as (app, pilot):
        for name in SCREENS:
            app.action_show(name)
            await until_on(pilot, name)
            await pilot.pause(0.2)
            table = keys_now(app, name)
            known = {(one, key.action): key for key in table for one in key.keys.split(",")}
            bound = bound_by_us(app)
            assert len(bound) >= len(known)
            for binding in bound:
                place = (binding.key, binding.action)
                assert place in known, f"{binding.key} ({binding.action}) is not in the table"
                assert binding.tooltip == known[place].help
            in_help = "\n".join(plain(line) for line in help_rows(name))
            in_palette = {command.help for command in app.get_system_commands(app.screen)}
            for key in (*keys_on(name), *keys_of("app")):
                assert key.help in in_help
                if key in table and not key.action.startswith("show("):
                    assert key.help in in_palette, f"{key.help} is missing from the palette"


async def test_a_command_of_the_palette_works_on_the_part_that_has_the_focus(trace: Path) -> None:
    async with opened(trace, replay=True) as (app, pilot):
        await press(pilot, "3", until="aten::mm")
        commands = {one.help: one for one in app.get_system_commands(app.screen)}
        await commands["Switch between operators and kernels"].callback()
        await until_shown(pilot, "gemm")


@pytest.mark.keys("app.pause", "app.capture")
async def test_pause_holds_the_picture_and_capture_asks_the_recorder(live: Path) -> None:
    async with opened(live) as (app, pilot):
        await press(pilot, "space", until="paused")
        held = app.snapshot
        await pilot.pause(0.5)
        assert app.snapshot is held
        await pilot.press("space")
        await until(pilot, lambda: app.snapshot is not held, "a newer snapshot")
        await press(pilot, "c", until="requested")
        assert [request.kind for request in take_requests(RunLayout(live))] == ["capture"]
        window = RunLayout(live).rank(0).window(40)
        window.parent.mkdir()
        window.write_text("{}")
        await until_shown(pilot, "captured")


async def test_a_run_that_is_over_is_not_captured_and_quit_does_not_ask(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path / "runs", **ENDED)) as (app, pilot):
        await press(pilot, "c", until="only a running training")
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running or app._exit


@pytest.mark.keys("app.quit")
async def test_quit_asks_and_leaving_asks_nothing_of_the_training(live: Path) -> None:
    async with opened(live) as (app, pilot):
        await press(pilot, "q", until="The training is still running")
        await close(pilot)
        assert app.is_running
        await press(pilot, "q", until="leave it running")
        await pilot.press("l")
        await pilot.pause()
        assert not app.is_stopping
        kinds = {request.kind for request in take_requests(RunLayout(live))}
        assert not kinds & {"stop", "capture"}


async def test_quit_asks_before_the_first_picture_too(live: Path) -> None:
    app = PerftuiApp(live, clock=lambda: NOW)
    app.open = lambda _: None
    async with app.run_test() as pilot:
        await press(pilot, "q", until="The training is still running")


@pytest.mark.keys("app.app.quit")
async def test_stopping_asks_the_recorder(live: Path) -> None:
    async with opened(live) as (app, pilot):
        await press(pilot, "ctrl+q", until="stop the training")
        await pilot.press("s")
        await pilot.pause()
        assert app.is_stopping
        assert [request.kind for request in take_requests(RunLayout(live))] == ["stop"]


@pytest.mark.keys("app.interrupt")
async def test_an_interrupt_asks_as_q_does(live: Path) -> None:
    async with opened(live) as (app, pilot):
        await press(pilot, "ctrl+c", until="stop the training")
        # Once more says nothing new.
        await pilot.press("ctrl+c", "escape")
        await until(pilot, lambda: "stop the training" not in text_of(app), "the screen")
        assert app.is_running
        assert not app.is_stopping
        await pilot.press("ctrl+c", "l")
        await until(pilot, lambda: app._exit, "the app's end")
        kinds = {request.kind for request in take_requests(RunLayout(live))}
        assert not kinds & {"stop", "capture"}


@pytest.mark.slow
async def test_an_interrupt_copies_selected_text_and_else_quits_when_it_is_over(
    tmp_path: Path,
) -> None:
    async with opened(write_run(tmp_path / "runs", **ENDED)) as (app, pilot):
        await pilot.press("6", "slash", *"loss", "shift+home", "ctrl+c")
        await pilot.pause()
        assert app.clipboard == "loss"
        assert app.is_running
        assert not app._exit
        await pilot.press("end", "ctrl+c")
        await until(pilot, lambda: app._exit, "the app's end")


async def test_too_small_a_terminal_says_what_it_needs_and_quits(live: Path) -> None:
    async with opened(live) as (app, pilot):
        await pilot.resize_terminal(30, 7)
        await until_shown(pilot, "needed  40 x 8")
        assert "now     30 x 7" in text_of(app)
        await pilot.resize_terminal(80, 24)
        await until_shown(pilot, "BOTTLENECK")
        await pilot.resize_terminal(30, 7)
        await press(pilot, "q", until="The training is still")
        await pilot.resize_terminal(80, 24)
        await press(pilot, "escape", until="BOTTLENECK")


@pytest.mark.slow
async def test_resizing_reaches_the_scripts_terminal(live: Path) -> None:
    async with opened(live) as (_, pilot):
        await pilot.resize_terminal(100, 30)
        await pilot.pause(0.2)
        sizes = [r.data for r in take_requests(RunLayout(live)) if r.kind == "resize"]
        assert sizes[-1] == {"rows": 30, "columns": 100}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "perftui" / "keys.toml"
    path.parent.mkdir(parents=True)
    return path


def test_the_file_is_where_xdg_says(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert key_file() == own
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative/is/ignored")
    assert key_file() == Path.home() / ".config/perftui/keys.toml"


def test_a_key_is_what_it_types_or_a_name_and_without_a_file_nothing_changes(own: Path) -> None:
    assert read_overrides(own) == NO_OVERRIDES
    own.write_text(file_text(NO_OVERRIDES, own))
    read = read_overrides(own)
    assert read.complaints == ()
    assert dict(read.keys) == {key.name: tuple(key.keys.split(",")) for key in KEYS}
    assert file_text(read, own) == file_text(NO_OVERRIDES, own)
    own.write_text('[ops]\nfilter = "?"\n[app]\nhelp = ["ctrl+f", "f5"]\n')
    assert read_overrides(own) == Overrides(
        {"ops.filter": ("question_mark",), "app.help": ("ctrl+f", "f5")}
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[ops]\nfliter = 'x'\n", "there is no action ops.fliter. Did you mean ops.filter?"),
        ("[ops]\nfilter = 'blub'\n", "ops.filter: there is no key 'blub'"),
        ("[ops]\nfilter = 'ctrl+ctrl+a'\n", "there is no key 'ctrl+ctrl+a'"),
        ("[ops]\nfilter = []\n", "no key given"),
        ("[ops]\nfilter = 3\n", "ops.filter needs a key"),
        ("[ops\n", "not valid TOML"),
        ("[ops]\nfilter = 'k'\n", "k would be both ops.kernels and ops.filter, so ops.filter"),
        ("[log]\nsearch = 'space'\n", "space would be both app.pause and log.search"),
        ("[app]\npause = 'enter'\n", "so app.pause keeps its default"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(own: Path, content: str, words: str) -> None:
    own.write_text(content)
    read = read_overrides(own)
    assert dict(read.keys) == {}
    assert words in " ".join(read.complaints)


def test_one_wrong_line_spoils_no_other_and_an_unreadable_file_is_said(own: Path) -> None:
    own.write_text("[ops]\nfliter = 'x'\nkernels = 'K'\n")
    read = read_overrides(own)
    assert dict(read.keys) == {"ops.kernels": ("K",)}
    assert len(read.complaints) == 1
    own.write_bytes(b"\xff\xfe")
    assert "cannot be read" in read_overrides(own).complaints[0]


def test_two_actions_can_change_their_keys() -> None:
    wanted = {"diagnosis.try_fix": ("w",), "diagnosis.write_fix": ("a",)}
    assert check(wanted) == Overrides(wanted)


@given(st.characters(min_codepoint=33, max_codepoint=126))
def test_what_a_key_types_comes_back(character: str) -> None:
    name = key_name(character)
    assert key_in_file(name) == character


@pytest.mark.parametrize("name", [*sorted(NAMED), "ctrl+f", "shift+left", "ctrl+shift+f5"])
def test_named_keys_are_written_by_their_names(name: str) -> None:
    assert key_name(name) == name
    assert key_in_file(name) == name


def names() -> st.SearchStrategy[str]:
    return st.sampled_from([key.name for key in KEYS])


@pytest.mark.slow
@given(st.dictionaries(names(), st.lists(st.sampled_from("abknqw?/"), min_size=1, max_size=2)))
def test_whatever_is_asked_for_no_key_means_two_things(wanted: dict[str, list[str]]) -> None:
    kept = check(wanted).keys
    assert check(kept) == Overrides(kept)
    assert set(kept) <= set(wanted)


@pytest.mark.slow
async def test_own_keys_work_and_are_shown_everywhere(tmp_path: Path) -> None:
    keys = {"app.pause": ["Z"], "app.help": ["f8"], "app.show('log')": ["D"]}
    own = check(keys | {"overview.try_fix": ["A"]})
    assert own.complaints == ()
    async with opened(write_run(tmp_path), keys=own) as (app, pilot):
        await until_shown(pilot, "Z Pause", "A try it")
        await pilot.press("space")
        await pilot.pause()
        assert not app.paused
        await pilot.press("Z")
        await until(pilot, lambda: app.paused, "a pause")
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert "Pause (Z)" in titles
        await press(pilot, "f8", until="Help: overview")
        helped = text_of(app)
        assert any("Z " in line and "Freeze the display" in line for line in helped.splitlines())
        await close(pilot)
        await press(pilot, "D", screen="log")
    PerftuiApp(tmp_path)
    assert shown_key("app.pause") == "space"


async def test_what_is_wrong_is_said_at_the_start(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), keys=check({"app.puase": ["Z"]})) as (_, pilot):
        await until_shown(pilot, "there is no action app.puase")


def test_the_command_prints_the_table_or_what_is_wrong(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own.write_text('[app]\npause = "Z"\n')
    out, err = ran(capsys, "keys")
    assert '"pause" = ["Z"]' in out
    assert str(own) in out
    assert err == ""
    own.write_text('[app]\npause = "q"\n')
    assert "q would be both app.quit and app.pause" in ran(capsys, "keys", code=1).err
    assert main(["keys", "more"]) == 2


def test_every_key_has_a_test() -> None:
    known = {key.name for key in KEYS}
    found = proven()
    assert sorted(known - set(found)) == [], "mark their tests with pytest.mark.keys"
    assert sorted(set(found) - known) == [], "these marks name no action"
