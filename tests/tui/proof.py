"""Which test proves which key: ``@pytest.mark.keys("ops.filter", ...)``, by ``Key.name``.

A marked test that never presses one of the keys that it names fails, so that a mark is worth what
it says; ``test_every_key_is_proven`` reads all marks.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from perftui_tui.keys.all_keys import KEYS
from tests.terminal import Terminal

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
