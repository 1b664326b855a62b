"""Every expected value of the collection is claimed by exactly one test."""

from collections import Counter

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

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not expected(), reason="no collection of traces: set PERFTUI_TRACES to it"),
]


OURS = [
    *(entry for entries in test_expected.TRACES.values() for entry in entries),
    *test_nsys.ENTRIES,
    *test_memory_snapshots.ENTRIES,
    *test_ncu.ENTRIES,
]
"""Claimed by tests that meet them or fail."""

OTHERS = [entry for entries in test_upstream.ENTRIES.values() for entry in entries]


def test_every_entry_is_claimed_once_and_what_must_be_met_is_left_to_no_reason() -> None:
    claims = Counter(id(entry) for entry in OURS + OTHERS)
    assert [entry["quantity"] for entry in expected() if claims[id(entry)] != 1] == []
    assert len(claims) == len(expected())
    claimed = Counter(entry["kind"] for entry in OURS)
    there = Counter(entry["kind"] for entry in expected())
    assert [claimed[kind] for kind in OURS_TO_MEET] == [there[kind] for kind in OURS_TO_MEET]
