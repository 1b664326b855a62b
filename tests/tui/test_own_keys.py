"""Keys of a person's own: read, checked, and shown wherever keys are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.app import PerftuiApp
from perftui_tui.cli import main
from perftui_tui.keys.keymap import (
    NAMED,
    NO_OVERRIDES,
    Overrides,
    check,
    file_text,
    key_file,
    key_name,
    read_overrides,
    shown_key,
    written,
)
from perftui_tui.keys.table import KEYS
from tests.tui.driving import text_of, until, until_shown
from tests.tui.recorded import NOW, write_run


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "perftui" / "keys.toml"
    path.parent.mkdir(parents=True)
    return path


def test_every_action_has_a_name_of_its_own() -> None:
    assert len({key.name for key in KEYS}) == len(KEYS)


def test_the_file_is_where_xdg_says(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert key_file() == own
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative/is/ignored")
    assert key_file() == Path.home() / ".config/perftui/keys.toml"


def test_no_file_changes_nothing(own: Path) -> None:
    assert read_overrides(own) == NO_OVERRIDES


def test_what_is_printed_can_be_read_again_and_changes_nothing(own: Path) -> None:
    own.write_text(file_text(NO_OVERRIDES, own))
    read = read_overrides(own)
    assert read.complaints == ()
    assert dict(read.keys) == {key.name: tuple(key.keys.split(",")) for key in KEYS}
    assert file_text(read, own) == file_text(NO_OVERRIDES, own)


def test_a_key_is_what_it_types_or_a_name(own: Path) -> None:
    own.write_text('[ops]\nfilter = "?"\n[app]\nhelp = ["ctrl+f", "f5"]\n')
    assert read_overrides(own) == Overrides(
        {"ops.filter": ("question_mark",), "app.help": ("ctrl+f", "f5")}
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[ops]\nfliter = 'x'\n", "there is no action ops.fliter, did you mean ops.filter?"),
        ("[ops]\nfilter = 'blub'\n", "ops.filter: there is no key 'blub'"),
        ("[ops]\nfilter = 'ctrl+ctrl+a'\n", "there is no key 'ctrl+ctrl+a'"),
        ("[ops]\nfilter = []\n", "no key given"),
        ("[ops]\nfilter = 3\n", "ops.filter needs a key"),
        ("[ops\n", "not valid TOML"),
        ("[ops]\nfilter = 'k'\n", "k would be both ops.kernels and ops.filter, so ops.filter"),
        ("[log]\nsearch = 'space'\n", "space would be both app.pause and log.search"),
        ("[app]\npause = 'enter'\n", "so app.pause keeps its default keys"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(own: Path, content: str, words: str) -> None:
    own.write_text(content)
    read = read_overrides(own)
    assert dict(read.keys) == {}
    assert words in " ".join(read.complaints)


def test_one_wrong_line_does_not_spoil_the_others(own: Path) -> None:
    own.write_text("[ops]\nfliter = 'x'\nkernels = 'K'\n")
    read = read_overrides(own)
    assert dict(read.keys) == {"ops.kernels": ("K",)}
    assert len(read.complaints) == 1


def test_two_actions_can_change_their_keys() -> None:
    wanted = {"diagnosis.try_fix": ("w",), "diagnosis.write_fix": ("a",)}
    assert check(wanted) == Overrides(wanted)


def test_an_unreadable_file_is_said(own: Path) -> None:
    own.write_bytes(b"\xff\xfe")
    assert "cannot be read" in read_overrides(own).complaints[0]


@given(st.characters(min_codepoint=33, max_codepoint=126))
def test_what_a_key_types_comes_back(character: str) -> None:
    name = key_name(character)
    assert name is not None
    assert written(name) == character


@pytest.mark.parametrize("name", [*sorted(NAMED), "ctrl+f", "shift+left", "ctrl+shift+f5"])
def test_named_keys_are_written_by_their_names(name: str) -> None:
    assert key_name(name) == name
    assert written(name) == name


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
    app = PerftuiApp(write_run(tmp_path), keys=own, clock=lambda: NOW)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.snapshot is not None, "a snapshot")
        await until_shown(pilot, "Z Pause")
        await until_shown(pilot, "A try it")
        await pilot.press("space")
        await pilot.pause()
        assert not app.paused
        await pilot.press("Z")
        await until(pilot, lambda: app.paused, "a pause")
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert "Pause (Z)" in titles
        await pilot.press("f8")
        await until_shown(pilot, "Help: overview")
        helped = text_of(app)
        assert any("Z " in line and "Freeze the display" in line for line in helped.splitlines())
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1, "help closed")
        await pilot.press("D")
        await until(pilot, lambda: app.current_mode == "log", "the log")
    PerftuiApp(tmp_path)
    assert shown_key("app.pause") == "space"


async def test_what_is_wrong_is_said_at_the_start(tmp_path: Path) -> None:
    app = PerftuiApp(write_run(tmp_path), keys=check({"app.puase": ["Z"]}), clock=lambda: NOW)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until_shown(pilot, "there is no action app.puase")


def test_the_command_prints_the_table(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own.write_text('[app]\npause = "Z"\n')
    assert main(["keys"]) == 0
    out, err = capsys.readouterr()
    assert '"pause" = ["Z"]' in out
    assert str(own) in out
    assert err == ""


def test_the_command_says_what_is_wrong(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own.write_text('[app]\npause = "q"\n')
    assert main(["keys"]) == 1
    assert "q would be both app.quit and app.pause" in capsys.readouterr().err
    assert main(["keys", "more"]) == 2
