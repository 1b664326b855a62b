"""The compiled scanner and Python read the same, or the scanner leaves it to Python."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftui.trace.columns import native
from perftui.trace.formats import load_trace
from perftui.trace.kineto.read_events import open_scanner
from perftui.trace.model import MEMORY_COLUMNS, Trace, TraceError

pytestmark = pytest.mark.skipif(
    native.compiled() is None, reason="installed without a C compiler: there is no compiled scanner"
)

COLUMNS = (
    "start", "duration", "name", "category", "track", "correlation", "external_id", "bytes",
    "parent", "depth",
)  # fmt: skip

TEXT = st.sampled_from(
    ["aten::mm", "gemm", "", 'a"b', "a\\b", "\u00e9\u20ac", "\ud83d\ude00", "x\ny"]
)
NUMBER = st.one_of(
    st.integers(-5, 50),
    st.sampled_from([0.5, 12.125, 4458676522709.059, 1e3, 2**32 - 1, 2**64 - 1, 2**70, -0.001]),
)
ODD: st.SearchStrategy[Any] = st.sampled_from([None, True, "7", "0x0", [1], {"a": 1}, "Spans"])
ARGUMENTS = st.dictionaries(
    st.sampled_from(
        ["correlation", "External id", "external id", "device", "stream", "bytes", "x"]
    ),
    st.one_of(NUMBER, NUMBER, ODD),
    max_size=4,
)
EVENT = st.fixed_dictionaries(
    {
        "ph": st.sampled_from("XXXXXXXXMBis"),
        "name": TEXT,
        "cat": st.sampled_from(["cpu_op", "kernel", "Trace", "gpu_memcpy", "user_annotation"]),
        "pid": st.one_of(st.integers(0, 2), st.sampled_from(["Spans", -1, 1.0])),
        "tid": st.integers(0, 3),
        "ts": NUMBER,
        "dur": NUMBER,
    },
    optional={"args": ARGUMENTS, "id": NUMBER, "bp": TEXT},
)
SPOILED = st.tuples(EVENT, st.sampled_from(["cat", "ts", "dur", "pid", "name", "args"]), ODD).map(
    lambda drawn: {**drawn[0], drawn[1]: drawn[2]}
)
MEMORY = st.fixed_dictionaries(
    {"ph": st.just("i"), "name": st.just("[memory]")},
    optional={
        "pid": st.one_of(st.integers(0, 2), ODD),
        "tid": st.one_of(st.integers(0, 3), ODD),
        "ts": st.one_of(NUMBER, ODD),
        "args": st.dictionaries(
            st.sampled_from(
                ["Bytes", "Device Id", "Device Type", "Total Allocated", "Total Reserved", "Addr"]
            ),
            st.one_of(NUMBER, NUMBER, ODD),
        ),
    },
)
EVENTS = st.lists(st.one_of(EVENT, EVENT, EVENT, SPOILED, MEMORY), min_size=1, max_size=12)


def loaded(path: Path, scanner: bool) -> Trace | str:
    with pytest.MonkeyPatch.context() as patch:
        if not scanner:
            patch.setattr(native, "compiled", lambda: None)
        try:
            return load_trace(path)
        except TraceError as error:
            return str(error)


def assert_equal(path: Path) -> None:
    scanned, plain = loaded(path, True), loaded(path, False)
    if isinstance(scanned, str) or isinstance(plain, str):
        assert scanned == plain
        return
    for column in COLUMNS:
        assert np.array_equal(getattr(scanned, column), getattr(plain, column)), column
    for field in ("names", "categories", "tracks", "origin", "warnings", "complete_events"):
        assert getattr(scanned, field) == getattr(plain, field), field
    for column in MEMORY_COLUMNS:
        ours, theirs = getattr(scanned.memory, column), getattr(plain.memory, column)
        assert np.array_equal(ours, theirs), column
    for row in range(len(plain)):
        assert scanned.read_arguments(row) == plain.read_arguments(row)


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS, st.sampled_from([None, 1]), st.booleans())
def test_any_events(
    tmp_path: Path, events: list[dict[str, Any]], indent: int | None, escaped: bool
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(
        json.dumps({"traceEvents": events}, indent=indent, ensure_ascii=escaped),
        encoding="utf-8",
        errors="surrogatepass",
    )
    assert_equal(path)


PLAIN = '{"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":2,"ts":3.125,"dur":4,"args":{}}'

SPELLINGS = {
    "plain": (PLAIN, True),
    "blanks": (PLAIN.replace(":", " :\n\t").replace(",", " , "), True),
    "nested arguments": (PLAIN.replace("{}", '{"a":{"b":[1,{"ts":9}],"c":"}"}}'), True),
    "three decimals and zeros": (PLAIN.replace("3.125", "3.125000"), True),
    "four decimals": (PLAIN.replace("3.125", "3.1254"), False),
    "an exponent": (PLAIN.replace("3.125", "3e2"), False),
    "a time as text": (PLAIN.replace("3.125", '"3.125"'), False),
    "a number with a leading zero": (PLAIN.replace('"dur":4', '"dur":04'), False),
    "no category": (PLAIN.replace('"cat":"cpu_op",', ""), False),
    "no duration": (PLAIN.replace('"dur":4,', ""), False),
    "a negative duration": (PLAIN.replace('"dur":4', '"dur":-4'), False),
    "an unescaped quote": (PLAIN.replace('"op"', '"o"p"'), False),
    "a control character": (PLAIN.replace('"op"', '"o\x01p"'), False),
    "half a surrogate pair": (PLAIN.replace('"op"', '"\\ud800"'), False),
    "an id as text": (PLAIN.replace("{}", '{"External id":"7"}'), False),
    "NaN": (PLAIN.replace("{}", '{"a":NaN}'), False),
    "deep arguments": (PLAIN.replace("{}", '{"a":' + "[" * 90 + "]" * 90 + "}"), False),
    "arguments twice": (PLAIN.replace("{}", '{"correlation":5},"args":{}'), False),
    "a time beyond all": (PLAIN.replace("3.125", "2305843009213693"), False),
    "a time within": (PLAIN.replace("3.125", "2305843009213692"), True),
    "an escaped NUL": (PLAIN.replace('"op"', '"o\\\0p"'), False),
    "an escape that is none": (PLAIN.replace("{}", '{"a":"\\u12g4"}'), False),
    "an escape": (PLAIN.replace("{}", '{"a":"\\u12f4"}'), True),
    "a begin event": (PLAIN.replace('"X"', '"B"'), False),
}


@pytest.mark.parametrize(("event", "is_plain"), SPELLINGS.values(), ids=SPELLINGS.keys())
def test_only_what_is_plain_is_scanned(event: str, is_plain: bool, tmp_path: Path) -> None:
    scanner = open_scanner()
    scanned = scanner.scan(f"[{PLAIN},{event}]".encode(), 0, 0)
    assert (scanned is not None) == is_plain
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents":[' + f"{PLAIN},{event},{PLAIN},{PLAIN}" + "]}")
    assert_equal(path)


def test_bytes_that_are_no_utf_8_are_left_to_python(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    events = b",".join([PLAIN.encode().replace(b'"op"', b'"o\xff"'), PLAIN.encode()] * 3)
    path.write_bytes(b'{"traceEvents":[' + events + b"]}")
    assert_equal(path)


@given(st.binary(max_size=200))
def test_no_text_is_too_odd(noise: bytes) -> None:
    scanner = open_scanner()
    for text in (noise, b"[" + noise + b"]", b"[" + PLAIN.encode() + b"," + noise + b"]"):
        scanner.scan(text, 0, len(text))


def test_many_names_and_tracks(tmp_path: Path) -> None:
    """More than the tables of texts first have room for, over several pieces of the file."""
    event = json.loads(PLAIN)
    events = [{**event, "name": f"name {n}", "tid": n % 700, "ts": n} for n in range(20_000)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    scanned, plain = loaded(path, True), loaded(path, False)
    assert isinstance(scanned, Trace)
    assert isinstance(plain, Trace)
    assert scanned.names == plain.names
    assert scanned.tracks == plain.tracks
    for column in COLUMNS:
        assert np.array_equal(getattr(scanned, column), getattr(plain, column)), column
