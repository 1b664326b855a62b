from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perftui.trace.formats import load_trace
from perftui.trace.kineto import load
from perftui.trace.model import Trace
from tests.traces.events import cpu, write

ROWS = 12_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Some pieces long; begins with what ends last."""
    events = [cpu(f"op {n % 7}", n * 10, 25, tid=n % 3, n=n) for n in range(ROWS)]
    return write(tmp_path / "trace.json", [cpu("whole", 0, ROWS * 10, tid=0, n=-1), *events])


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
