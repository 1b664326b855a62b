"""Traces made of a few events: microseconds in, columns out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perftui.trace import native
from perftui.trace.load import load_trace
from perftui.trace.model import Trace

Event = dict[str, Any]


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
    monkeypatch.setattr("perftui.analysis.opened.FEWEST_ROWS", 1)
    return tmp_path / "cache" / "traces"


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file that is read, and not taken from what was kept, from now on."""
    seen: list[Path] = []

    def counted(path: Path, *rest: Any) -> Trace:
        seen.append(path)
        return load_trace(path, *rest)

    monkeypatch.setattr("perftui.trace.load.load_trace", counted)
    return seen


@pytest.fixture(scope="session")
def trace_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trace]:
    """Loads events, and top-level fields given by keyword, the way a file of them is loaded."""
    path = tmp_path_factory.mktemp("traces") / "trace.json"

    def load(*events: Event, **fields: Any) -> Trace:
        path.write_text(json.dumps({**fields, "traceEvents": events}))
        return load_trace(path)

    return load


def complete(name: str, start: float, duration: float, category: str, tid: Any, pid: int) -> Event:
    times = {"ts": start, "dur": duration}
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, **times}


@pytest.fixture(scope="session")
def cpu() -> Callable[..., Event]:
    """An event of a CPU thread: an operator, unless a category is given."""

    def make(
        name: str, start: float, duration: float, cat: str = "cpu_op", tid: int = 1, **args: Any
    ) -> Event:
        return {**complete(name, start, duration, cat, tid, pid=500), "args": args}

    return make


@pytest.fixture(scope="session")
def gpu() -> Callable[..., Event]:
    """An event of a device: a kernel, unless a category is given."""

    def make(
        name: str,
        start: float,
        duration: float,
        correlation: int = -1,
        cat: str = "kernel",
        stream: int = 7,
        device: int = 0,
        **args: Any,
    ) -> Event:
        place = {"device": device, "stream": stream, "correlation": correlation}
        event = complete(name, start, duration, cat, stream, pid=device)
        return {**event, "args": {**place, **args}}

    return make
