"""A trace's text with events in front, byte for byte; and the arguments of many rows."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.open_trace import open_trace
from perftui.trace.formats import load_trace
from perftui.trace.kineto import arguments
from perftui.trace.kineto.arguments import MOST_SINGLE, arguments_of
from perftui.trace.kineto.load import load_kineto, with_events
from perftui.trace.kineto.source import Source
from perftui.trace.model import Trace, TraceError
from perftui.trace.text import encodable
from tests.traces.events import cpu, write

OURS = {"ph": "X", "name": "ours", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
PLAIN = '{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 10, "dur": 1}'
TEXT = st.text().map(encodable)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
EVENTS = st.lists(
    st.fixed_dictionaries(
        {"ph": st.sampled_from("XiMsf"), "name": TEXT, "ts": st.integers(0, 10**6)},
        optional={"args": st.dictionaries(TEXT, VALUES, max_size=3), "dur": st.integers(0, 99)},
    ),
    max_size=6,
)
FIELDS = st.dictionaries(TEXT.filter(lambda name: name != "traceEvents"), VALUES, max_size=3)


def copied(content: bytes, folder: Path, name: str = "a.json") -> bytes:
    path = folder / name
    path.write_bytes(content)
    return b"".join(with_events(Source(path), [json.dumps(OURS).encode()]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.mark.slow
@given(EVENTS, FIELDS, FIELDS, st.sampled_from([None, 1]), st.booleans())
def test_events_and_fields_are_still_there(
    folder: Path,
    events: list[dict[str, Any]],
    before: dict[str, Any],
    after: dict[str, Any],
    indent: int | None,
    packed: bool,
) -> None:
    document = {**before, "traceEvents": [json.loads(PLAIN), *events], **after}
    content = json.dumps(document, indent=indent).encode()
    found = json.loads(copied(gzip.compress(content) if packed else content, folder))
    assert found.pop("traceEvents") == [OURS, *document.pop("traceEvents")]
    assert found == document


def test_text_is_copied_and_not_spelled_anew(folder: Path) -> None:
    number = "1700000000000000.1230"
    text = PLAIN.replace("10", number)
    content = f'{{ "baseTimeNanoseconds" : 17, "traceEvents": [\n{text} , {text}\n],"z" :1.50}}'
    found = copied(content.encode(), folder)
    assert found.count(number.encode()) == 2
    assert found.endswith(b'],"z" :1.50}')
    assert found.startswith(b'{ "baseTimeNanoseconds" : 17, "traceEvents": [{"ph"')


def test_a_list_stays_a_list(folder: Path) -> None:
    assert json.loads(copied(f"[{PLAIN}]\n".encode(), folder)) == [OURS, json.loads(PLAIN)]


PIECES = f'"traceEvents": [{PLAIN}'
DAMAGED = {
    "cut off in an event": (f'{{"a": 1, {PIECES}, {PLAIN[:20]}', 1, {"a": 1}),
    "not closed": (f'{{"a": 1, {PIECES}', 1, {"a": 1}),
    "not closed, with a comma": (f"[{PLAIN},\n", 1, None),
    "a word that is no JSON": (
        f'{{"a": N/A, {PIECES}, {PLAIN[:-1]}, "x": NaN}}], "b": 2}}',
        2,
        None,
    ),
    "a Windows path": (
        f'{{{PIECES}, {PLAIN[:-1]}, "x": "C:\\data"}}], "b": "D:\\x"}}',
        2,
        {"b": "D:\\x"},
    ),
    "a byte order mark": (f"\ufeff{{{PIECES}]}}", 1, {}),
    "fields behind that are no JSON": (f'{{{PIECES}], "b": nothing}}', 1, {}),
    "a number of 30 digits": (f'{{{PIECES}, {PLAIN[:-1]}, "x": [{"9" * 30}, inf]}}]}}', 2, {}),
}


@pytest.mark.parametrize(("content", "events", "fields"), DAMAGED.values(), ids=DAMAGED)
def test_what_is_damaged_becomes_valid(
    folder: Path, content: str, events: int, fields: dict[str, Any] | None
) -> None:
    found = json.loads(copied(content.encode(), folder))
    copies = found.pop("traceEvents") if isinstance(found, dict) else found
    assert copies[0] == OURS
    assert len(copies) == 1 + events
    assert copies[1] == json.loads(PLAIN)
    if fields is not None:
        assert found == fields


def test_gzip_that_is_cut_off_is_copied_as_far_as_it_goes(folder: Path) -> None:
    plain = PLAIN.replace('"name"', '"cat": "cpu_op", "name"')
    events = ",".join(plain.replace("10", str(number)) for number in range(20_000))
    content = gzip.compress(f'{{"traceEvents": [{events}]}}'.encode())[:-20_000]
    found = json.loads(copied(content, folder, "a.json.gz"))["traceEvents"]
    assert len(found) - 1 == len(load_kineto(folder / "a.json.gz")) > 100


def test_a_file_that_has_changed_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(f"[{PLAIN}]")
    source = Source(path)
    path.write_text(f"[{PLAIN},{PLAIN}]")
    with pytest.raises(TraceError, match="has changed"):
        list(with_events(source, []))


MANY = 6_000


def written(path: Path) -> Path:
    """Events on two threads, out of order, so that rows are not in the order of the file."""
    known = {"text": "x" * 90}
    return write(
        path,
        (
            cpu(f"op{n % 7}", (n * 7919) % MANY, 1, tid=n % 2, number=n, **known)
            for n in range(MANY)
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
    rows = [5, *range(0, MANY, 61), MANY - 1]

    assert read(trace, rows) == {row: trace.read_arguments(row)["number"] for row in set(rows)}
    assert sorted(read(trace, list(range(MANY))).values()) == list(range(MANY))
    assert read(trace, []) == {}


def test_those_of_a_trace_that_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("perftui.analysis.open_trace.FEWEST_ROWS", 1)
    path = written(tmp_path / "trace.json.gz")
    first = open_trace(path, later=lambda work: work()).trace
    monkeypatch.setattr("perftui.trace.formats.load_trace", None)
    kept = open_trace(path).trace

    assert read(kept, [0, 17, 4_000]) == read(first, [0, 17, 4_000])


def test_what_takes_a_look_for_each_is_not_read_for_too_many(tmp_path: Path) -> None:
    """As where there is no file to read stretches of."""
    trace = load_trace(written(tmp_path / "trace.json"))
    plain = Trace(**{**vars(trace), "read_arguments": lambda row: {"number": row}})
    assert read(plain, [3, 1]) == {3: 3, 1: 1}
    most = list(range(MOST_SINGLE))
    assert len(read(plain, most)) == MOST_SINGLE
    with pytest.raises(TraceError, match=f"{MOST_SINGLE + 1:,}, more than"):
        read(plain, [*most, MOST_SINGLE])
