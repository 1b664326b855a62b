"""How the tests of the collection say what became of each expected value."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.corpus.outcome import PROPERTY, Account, Verdict


@pytest.fixture
def account(record_property: Callable[[str, object], None]) -> Account:
    """Notes the verdict on one expected value; it counts if the test passes."""

    def note(verdict: Verdict) -> None:
        record_property(PROPERTY, (verdict.outcome.value, verdict.reason))

    return note
