from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.trace.kineto.scanner import Batch, Batches, arguments_in

# Text that looks like the punctuation between events.
NASTY = st.sampled_from(
    ["}, {", '"}, {"ph": "X"', "]", "},{", "\\", '"', "\n", "ü", "🙂", "a", "[{"]
)
TEXT = st.lists(NASTY, max_size=5).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
EVENT = st.fixed_dictionaries(
    {"ph": st.sampled_from("XMi"), "name": TEXT},
    optional={"args": st.dictionaries(TEXT, VALUES, max_size=3), "pid": st.integers(0, 3)},
)


def decoded(text: bytes, sizes: list[int]) -> tuple[list[Batch], Batches]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    batches = Batches(offset=0)
    return list(batches.decode([*pieces, text[at:]])), batches


@pytest.mark.slow
@given(
    st.lists(EVENT, max_size=8),
    st.lists(st.integers(0, 90), max_size=8),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_any_cut_gives_the_same_events(
    events: list[dict[str, Any]], sizes: list[int], indent: int | None, ascii_only: bool
) -> None:
    array = json.dumps(events, indent=indent, ensure_ascii=ascii_only)
    tail = ', "traceName": "}, {"}'
    text = (array[1:] + tail).encode()
    batches, outcome = decoded(text, sizes)
    found = [(event.ph, event.name) for batch in batches for event in batch.events]
    assert found == [(event["ph"], event["name"]) for event in events]
    assert (outcome.closed, outcome.skipped, outcome.tail.decode()) == (True, [], tail)


@pytest.mark.slow
@given(st.lists(EVENT, min_size=1, max_size=8), st.lists(st.integers(0, 90), max_size=8))
def test_the_arguments_of_each_batch_can_be_read_again_where_it_stands(
    events: list[dict[str, Any]], sizes: list[int]
) -> None:
    text = (json.dumps(events)[1:] + "}").encode()
    batches, _ = decoded(text, sizes)
    rows, again = 0, []
    for batch in batches:
        mine = range(sum(event.ph == "X" for event in batch.events))
        there = text[batch.offset : batch.offset + batch.length]
        count, found = arguments_in(there, batch.strict, mine)
        rows, again = rows + count, again + found
    assert again == [event.get("args", {}) for event in events if event["ph"] == "X"]
    assert rows == len(again)


@pytest.mark.parametrize("strict", [True, False])
def test_arguments_that_are_no_plain_json_are_read_all_the_same(strict: bool) -> None:
    text = b'{"ph": "X", "args": {"a": 1}}, {"ph": "i"}, {"ph": "X", "args": {"b": NaN}}'
    count, found = arguments_in(text, strict, [1, 0])
    assert count == 2
    assert math.isnan(found[0]["b"])
    assert found[1] == {"a": 1}


@pytest.mark.slow
def test_text_without_an_event_is_dropped_rather_than_kept() -> None:
    junk = [b'"' + b"x" * 1_000_000] * 20
    batches = Batches(offset=5)
    assert [event for batch in batches.decode(junk) for event in batch.events] == []
    assert batches.skipped[0] == 5
