"""The terminal that these tests see: colours, no animations."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot

from perftui_tui.keys.all_keys import KEYS
from tests.terminal import Terminal
from tests.tui.recorded import ENDED, write_run, write_script
from tests.tui.traces import write_trace

# A marked test that never presses one of the keys that it names fails, so that a mark is worth what
# it says; ``test_every_key_is_proven`` reads all marks.

TESTS = Path(__file__).parent
_CONTROLS = {"\x1a": "ctrl+z"}
"""What a terminal sends for a key that types nothing."""


def check_presses(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Around a test: each action that it names must have been asked for by a key."""
    mark = request.node.get_closest_marker("keys")
    pressed: set[str] = set()
    if mark is not None:
        press = Pilot.press

        async def noted(pilot: Pilot[object], *keys: str) -> None:
            pressed.update(keys)
            await press(pilot, *keys)

        def typed(terminal: Terminal, keys: str) -> None:
            pressed.update(_CONTROLS.get(key, key) for key in keys)
            type_keys(terminal, keys)

        type_keys = Terminal.press
        monkeypatch.setattr(Pilot, "press", noted)
        monkeypatch.setattr(Terminal, "press", typed)
    yield
    for name in mark.args if mark is not None else ():
        keys = {one for key in KEYS if key.name == name for one in key.keys.split(",")}
        assert keys, f"no action is called {name}"
        assert pressed & keys, f"{name} is said to be tested, but none of {keys} was pressed"


def proven() -> dict[str, list[str]]:
    """The tests that prove each action, by its name, of all files beside this one."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for name in _marks(node):
                    found.setdefault(name, []).append(f"{path.name}::{node.name}")
    return found


def _marks(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for each in node.decorator_list:
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "pytest.mark.keys":
            yield from (ast.literal_eval(argument) for argument in each.args)


os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ.pop("NO_COLOR", None)
os.environ.pop("TEXTUAL_THEME", None)

# What apps have parsed of styles is kept for those that other tests open: each parses the same
# anew, which took a fifteenth of opening one.
_parsed: dict[object, list[RuleSet]] = {}
_parse = Stylesheet._parse_rules


def _parse_once(
    self: Stylesheet,
    css: str,
    read_from: tuple[str, str],
    is_default_rules: bool = False,
    tie_breaker: int = 0,
    scope: str = "",
) -> list[RuleSet]:
    """As Textual's own; nobody changes the rules, which a sheet keeps for itself, too."""
    place = (css, read_from, is_default_rules, tie_breaker, scope)
    key = (place, frozenset(self._variables.items()))
    if key not in _parsed:
        _parsed[key] = _parse(self, *place)
    return _parsed[key]


Stylesheet._parse_rules = _parse_once


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read ten times a second: a test need not wait as long as a person does."""
    monkeypatch.setattr("perftui_tui.reading.source.POLL_SECONDS", 0.1)
    monkeypatch.setattr("perftui_tui.reading.source.DUTY", 0.1)
    monkeypatch.setattr("perftui_tui.reading.output.POLL_SECONDS", 0.05)
    monkeypatch.setattr("perftui_tui.actions.experiment.TICK", 0.05)


@pytest.fixture(autouse=True)
def presses(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """See that a test which is marked with keys has pressed them."""
    yield from check_presses(request, monkeypatch)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script whose loader is made in line 4."""
    return write_script(tmp_path)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path)


@pytest.fixture
def ended(tmp_path: Path, script: Path) -> Path:
    """A run of that script that has ended, and waited for its loader."""
    runs = tmp_path / ".perftui" / "runs"
    return write_run(runs, script=script, loader_line=4, cwd=str(tmp_path), **ENDED)
