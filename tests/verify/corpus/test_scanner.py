"""The compiled scanner reads every real trace as Python does."""

import numpy as np
import pytest

from perftui.trace.columns import native
from perftui.trace.formats import load_trace
from perftui.trace.model import MEMORY_COLUMNS
from tests.core.trace.test_scanner import COLUMNS
from tests.verify.corpus.collection import ROOT, oracles

pytestmark = [
    pytest.mark.slow,
    pytest.mark.corpus,
    pytest.mark.skipif(native.compiled() is None, reason="installed without a C compiler"),
]


@pytest.mark.parametrize("name", oracles())
def test_both_ways_of_reading_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scanned = load_trace(ROOT / name)
    monkeypatch.setattr(native, "compiled", lambda: None)
    plain = load_trace(ROOT / name)
    for column in COLUMNS:
        assert np.array_equal(getattr(scanned, column), getattr(plain, column)), column
    for column in MEMORY_COLUMNS:
        ours, theirs = getattr(scanned.memory, column), getattr(plain.memory, column)
        assert np.array_equal(ours, theirs), column
    for field in ("names", "categories", "tracks", "origin", "warnings", "metadata"):
        assert getattr(scanned, field) == getattr(plain, field), field
