"""Every expected value of the collection is claimed by exactly one test."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.verify.corpus import (
    test_expected,
    test_memory_snapshots,
    test_ncu,
    test_nsys,
    test_upstream,
)
from tests.verify.corpus.collection import expected
from tests.verify.corpus.outcome import OURS_TO_MEET

pytestmark = pytest.mark.corpus


def _claimed() -> list[dict[str, Any]]:
    return [
        *(entry for entries in test_expected.TRACES.values() for entry in entries),
        *test_nsys.ENTRIES,
        *test_memory_snapshots.ENTRIES,
        *test_ncu.ENTRIES,
        *(entry for entries in test_upstream.ENTRIES.values() for entry in entries),
    ]


@pytest.mark.skipif(not expected(), reason="no collection of traces: set PERFTUI_TRACES to it")
def test_every_entry_is_claimed_once() -> None:
    claims = Counter(id(entry) for entry in _claimed())
    unclaimed = [entry["quantity"] for entry in expected() if claims[id(entry)] == 0]
    assert unclaimed == []
    twice = [entry["quantity"] for entry in expected() if claims[id(entry)] > 1]
    assert twice == []
    assert len(claims) == len(expected())


@pytest.mark.skipif(not expected(), reason="no collection of traces: set PERFTUI_TRACES to it")
def test_what_must_be_met_is_left_to_no_reason() -> None:
    met_or_failed = [
        *(entry for entries in test_expected.TRACES.values() for entry in entries),
        *test_nsys.ENTRIES,
        *test_memory_snapshots.ENTRIES,
        *test_ncu.ENTRIES,
    ]
    claimed = Counter(entry["kind"] for entry in met_or_failed)
    there = Counter(entry["kind"] for entry in expected())
    assert {kind: claimed[kind] for kind in OURS_TO_MEET} == {
        kind: there[kind] for kind in OURS_TO_MEET
    }
