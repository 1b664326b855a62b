"""What is kept of traces."""

from pathlib import Path
from typing import Any

import pytest

from perftui.trace.formats import load_trace
from perftui.trace.model import Trace


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keeps traces of any size, in a directory of the test's own."""
    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("perftui.analysis.open_trace.FEWEST_ROWS", 1)
    return tmp_path / "cache" / "traces"


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file that is read, and not taken from what was kept, from now on."""
    seen: list[Path] = []

    def counted(path: Path, *rest: Any) -> Trace:
        seen.append(path)
        return load_trace(path, *rest)

    monkeypatch.setattr("perftui.trace.formats.load_trace", counted)
    return seen
