"""Arguments of many rows in one pass, against those of one row at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perftui.analysis.open_trace import open_trace
from perftui.trace.formats import load_trace
from perftui.trace.kineto import arguments
from perftui.trace.kineto.arguments import MOST_SINGLE, TooManyRowsError, arguments_of
from perftui.trace.model import Trace
from tests.traces.events import cpu, write

EVENTS = 6_000


def written(path: Path) -> Path:
    """Events on two threads, out of order, so that rows are not in the order of the file."""
    known = {"text": "x" * 90}
    return write(
        path,
        (
            cpu(f"op{n % 7}", (n * 7919) % EVENTS, 1, tid=n % 2, number=n, **known)
            for n in range(EVENTS)
        ),
    )


def read(trace: Trace, rows: list[int]) -> dict[int, int]:
    found = arguments_of(trace, np.array(rows, dtype=np.int64))
    return {row: given["number"] for row, given in found}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
@pytest.mark.parametrize("at_once", [1, 300_000, 8 * 1024 * 1024])
def test_many_are_the_same_as_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, at_once: int
) -> None:
    monkeypatch.setattr(arguments, "_AT_ONCE", at_once)
    trace = load_trace(written(tmp_path / name))
    rows = [5, *range(0, EVENTS, 61), EVENTS - 1]

    assert read(trace, rows) == {row: trace.read_arguments(row)["number"] for row in set(rows)}
    assert sorted(read(trace, list(range(EVENTS))).values()) == list(range(EVENTS))
    assert read(trace, []) == {}


def test_those_of_a_trace_that_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("perftui.analysis.open_trace.FEWEST_ROWS", 1)
    path = written(tmp_path / "trace.json.gz")
    first = open_trace(path, later=lambda work: work()).trace
    monkeypatch.setattr("perftui.trace.formats.load_trace", None)
    kept = open_trace(path).trace

    assert read(kept, [0, 17, 4_000]) == read(first, [0, 17, 4_000])


def test_without_a_file_there_are_none(tmp_path: Path) -> None:
    trace = load_trace(written(tmp_path / "trace.json"))
    plain = Trace(**{**vars(trace), "read_arguments": lambda row: {"number": row}})
    assert read(plain, [3, 1]) == {3: 3, 1: 1}


def test_what_takes_a_look_for_each_is_not_read_for_too_many(tmp_path: Path) -> None:
    trace = load_trace(written(tmp_path / "trace.json"))
    plain = Trace(**{**vars(trace), "read_arguments": lambda row: {"number": row}})
    most = list(range(MOST_SINGLE))
    assert len(read(plain, most)) == MOST_SINGLE
    with pytest.raises(TooManyRowsError, match=f"{MOST_SINGLE + 1:,}, more than"):
        read(plain, [*most, MOST_SINGLE])
