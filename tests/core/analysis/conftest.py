"""Routes through the compiled loops, and what is kept of traces."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perftui.trace.columns import native
from perftui.trace.formats import load_trace
from perftui.trace.model import Trace


@pytest.fixture(scope="module", params=["native", "python"])
def route(request: pytest.FixtureRequest) -> Iterator[None]:
    """With the compiled loops, and with those in Python."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(native, "compiled", lambda: None)
        elif native.compiled() is None:
            pytest.skip("installed without a C compiler")
        yield


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
