"""How the tests of the collection say what became of each expected value."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.verify.corpus.outcome import OURS_TO_MEET, PROPERTY, Account, Outcome, Verdict


@pytest.fixture
def account(record_property: Callable[[str, object], None]) -> Account:
    """Notes the verdict on one expected value; it counts if the test passes."""

    def note(entry: Mapping[str, Any], verdict: Verdict) -> None:
        if entry["kind"] in OURS_TO_MEET:
            assert verdict.outcome is Outcome.MET
        record_property(PROPERTY, (entry["kind"], verdict.outcome.value, verdict.reason))

    return note
