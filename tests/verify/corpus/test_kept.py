"""Every real trace, opened from what was kept of it, is the one that was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.analysis import open_trace as opening
from perftui.analysis.open_trace import never, open_trace
from tests.core.analysis.sameness import assert_equals
from tests.verify.corpus.collection import ROOT, oracles
from tests.verify.corpus.opened import opened

pytestmark = [pytest.mark.corpus, pytest.mark.slow]


@pytest.mark.parametrize("name", oracles())
def test_a_real_trace_comes_back_as_it_was(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path))
    monkeypatch.setattr(opening, "FEWEST_ROWS", 1)
    open_trace(ROOT / name, later=lambda work: work())
    again = open_trace(ROOT / name, later=never)
    assert again.timeline_tracks
    assert_equals(again, opened(name).analysis, rows=40)
