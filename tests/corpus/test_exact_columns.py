"""Every column of every real trace, against a slow and obvious reading with exact decimals."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from perftui.trace.load import load_trace
from perftui.trace.model import NONE, Trace
from tests.corpus.collection import ROOT, oracles

pytestmark = pytest.mark.corpus

UNSIGNED_MINUS_ONE = (2**32 - 1, 2**64 - 1)
Row = tuple[Any, ...]


def events_of(path: Path) -> list[dict[str, Any]]:
    raw = path.read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    document = json.loads(text, parse_float=Decimal, strict=False)
    events: list[dict[str, Any]] = (
        document["traceEvents"] if isinstance(document, dict) else document
    )
    return events


def number(value: Any) -> int:
    """An id, as a number or as text."""
    if isinstance(value, str):
        value = int(value, 0)
    return NONE if value is None or value in UNSIGNED_MINUS_ONE else int(value)


def nanoseconds(value: Any) -> int:
    return int(Decimal(value) * 1000)


def expected_rows(events: list[dict[str, Any]]) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for event in events:
        if event["ph"] != "X" or str(event.get("cat")).lower() == "trace":
            continue
        arguments = event.get("args", {})
        external = number(arguments.get("External id"))
        rows[
            nanoseconds(event["ts"]),
            nanoseconds(event.get("dur", 0)),
            event["name"],
            str(event["pid"]),
            str(event["tid"]),
            number(arguments.get("correlation")),
            number(arguments.get("external id")) if external == NONE else external,
            number(arguments.get("bytes")),
        ] += 1
    return rows


def rows_of(trace: Trace) -> Counter[Row]:
    columns = (
        (trace.start + trace.origin).tolist(),
        trace.duration.tolist(),
        [trace.names[index] for index in trace.name.tolist()],
        [trace.tracks[index].process for index in trace.track.tolist()],
        [trace.tracks[index].thread for index in trace.track.tolist()],
        trace.correlation.tolist(),
        trace.external_id.tolist(),
        trace.bytes.tolist(),
    )
    return Counter(zip(*columns, strict=True))


@pytest.mark.parametrize("name", oracles())
def test_every_row_of_the_file_is_there_to_the_nanosecond(name: str) -> None:
    wanted, found = expected_rows(events_of(ROOT / name)), rows_of(load_trace(ROOT / name))
    assert wanted.total() == found.total()
    assert not wanted - found
