"""The terminal that these tests see: colours, no animations."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

from tests.tui.proof import check_presses
from tests.tui.recorded import ENDED, write_run, write_script

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
def ended(tmp_path: Path, script: Path) -> Path:
    """A run of that script that has ended, and waited for its loader."""
    runs = tmp_path / ".perftui" / "runs"
    return write_run(runs, script=script, loader_line=4, cwd=str(tmp_path), **ENDED)
