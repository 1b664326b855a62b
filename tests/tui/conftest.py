"""The terminal that these tests see: colours, no animations."""

import os

import pytest

os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ.pop("NO_COLOR", None)
os.environ.pop("TEXTUAL_THEME", None)


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read ten times a second: a test need not wait as long as a person does."""
    monkeypatch.setattr("perftui_tui.source.POLL_SECONDS", 0.1)
    monkeypatch.setattr("perftui_tui.output.source.POLL_SECONDS", 0.05)
