"""Small traces in the spellings that profilers use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perftui.trace.load import load_trace
from perftui.trace.model import Trace

Event = dict[str, Any]


@pytest.fixture
def event() -> Callable[..., Event]:
    """Makes one complete event; further keywords are its arguments."""

    def make(name: str, ts: Any, dur: Any, cat: str = "cpu_op", tid: Any = 7, **args: Any) -> Event:
        pid = 0 if cat in {"kernel", "gpu_memcpy", "gpu_memset"} else 100
        fields = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid}
        return {**fields, "ts": ts, "dur": dur, "args": args}

    return make


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Trace]:
    """Writes a document (or bytes as they are) to a file and loads it."""

    def write_and_load(content: Any, name: str = "trace.json") -> Trace:
        path = tmp_path / name
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        path.write_bytes(raw)
        return load_trace(path)

    return write_and_load
