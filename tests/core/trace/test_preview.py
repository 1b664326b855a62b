from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from perftui.trace import load
from perftui.trace.load import load_trace
from perftui.trace.model import Trace

ROWS = 12_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Some pieces long; begins with what ends last."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": f"op {n % 7}", "pid": 1, "tid": n % 3, "ts": n * 10,
         "dur": 25, "args": {"n": n}}
        for n in range(ROWS)
    ]  # fmt: skip
    whole = {**events[0], "name": "whole", "dur": ROWS * 10, "args": {"n": -1}}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [whole, *events]}))
    return path


def test_previews_are_the_first_rows_and_change_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "FIRST_PREVIEW", 1000)
    monkeypatch.setattr(load, "PREVIEW_GROWTH", 2)
    previews: list[Trace] = []
    trace = load_trace(path, preview=previews.append)
    assert [len(each) for each in previews] == sorted({len(each) for each in previews})
    assert len(previews) >= 2
    for preview in previews:
        numbers = sorted(int(preview.read_arguments(row)["n"]) for row in range(0, 900, 30))
        assert numbers[-1] < len(preview)
        assert preview.names == trace.names
        assert (preview.depth.max(), preview.warnings) == (trace.depth.max(), ())
    plain = load_trace(path)
    for column in ("start", "duration", "name", "track", "parent", "depth"):
        assert np.array_equal(getattr(trace, column), getattr(plain, column))
    assert trace.warnings == plain.warnings


def test_a_short_trace_has_none(path: Path) -> None:
    previews: list[Trace] = []
    load_trace(path, preview=previews.append)
    assert previews == []
