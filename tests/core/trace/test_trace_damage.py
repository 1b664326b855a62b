"""Damaged traces load as far as they can be read, and say what was left out."""

import gzip
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse
from perftui.trace.formats import load_trace
from perftui.trace.kineto.arguments import ArgumentReader
from perftui.trace.kineto.damaged_text import repair
from perftui.trace.kineto.source import PIECE
from perftui.trace.model import Trace, TraceError
from tests.core.trace.specimens import opened, wounded
from tests.traces.events import event, load


def document(count: int = 12) -> bytes:
    events = [
        {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "args": {"name": "python"}},
        *(event(f"op{i}", 10 * i + 0.125, 8.5, path=f"C:\\a{i}", n=i) for i in range(count)),
        event("gemm", 500, 3, "kernel", device=0, stream=7, correlation=1),
    ]
    whole = {"schemaVersion": 1, "traceEvents": events, "traceName": "t.json"}
    return json.dumps(whole, indent=1).encode()


def broken(old: bytes, new: bytes) -> bytes:
    """The document with ``new`` in place of the first ``old``."""
    raw = document()
    assert old in raw
    return raw.replace(old, new, 1)


def names(trace: Trace) -> list[str]:
    return [trace.name_of(row) for row in range(len(trace))]


def warned(trace: Trace) -> list[str]:
    """What is said, without where."""
    return [warning.message.split(";")[0] for warning in trace.warnings]


def test_a_file_cut_in_an_event_loads_up_to_the_last_whole_one() -> None:
    raw = document()
    cut = raw.index(b'"op7"') + 20
    trace = load(raw[:cut])
    assert names(trace) == [f"op{i}" for i in range(7)]
    (warning,) = trace.warnings
    assert warning.offset is not None
    assert 0 < warning.offset <= cut
    assert f"byte {warning.offset:,}" in warning.message
    # It is not analysed as if it were whole.
    assert analyse(trace).notes[0] == warning.message


def test_a_gzip_file_cut_short_loads_what_is_there() -> None:
    raw = gzip.compress(document(4000))
    trace = load(raw[: len(raw) // 2])
    assert names(trace)[:3] == ["op0", "op1", "op2"]
    assert 500 < len(trace) < 4000
    assert len(trace.warnings) == 1
    assert "cut off" in trace.warnings[0].message


@pytest.mark.slow
def test_damage_inside_gzip_is_said() -> None:
    raw = bytearray(gzip.compress(document(20_000)))
    half = len(raw) // 2
    raw[half:] = random.Random(3).randbytes(len(raw) - half)  # noqa: S311 - damages a test file
    trace = load(bytes(raw))
    assert len(trace) > 9_000
    assert "damaged" in trace.warnings[0].message


def test_a_wrong_checksum_loses_no_event() -> None:
    raw = bytearray(gzip.compress(document(3000)))
    raw[-8] ^= 1
    trace = load(bytes(raw))
    assert len(trace) == 3001
    said = "the gzip data is damaged (Error -3 while decompressing data: incorrect data check)"
    assert warned(trace) == [said]
    assert [trace.read_arguments(row)["n"] for row in (0, 2999)] == [0, 2999]


def test_gzip_members_follow_one_another() -> None:
    raw = document()
    parts = (raw[:100], raw[100:101], b"", raw[101:])
    trace = load(b"".join(gzip.compress(part) for part in parts) + bytes(512))
    assert len(trace) == 13
    assert trace.warnings == ()


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        (b'"name": "op5"', b'"name": "o"p5"', "op5"),
        (b'"dur": 8.5,', b'"dur": ,', "op0"),
        (b'"n": 5', b'"n": [5}', "op5"),
    ],
)
def test_one_bad_event_costs_at_most_itself(old: bytes, new: bytes, lost: str) -> None:
    bad = broken(old, new)
    trace = load(bad)
    assert names(trace) == [f"op{i}" for i in range(12) if f"op{i}" != lost] + ["gemm"]
    assert trace.metadata == {"schemaVersion": 1, "traceName": "t.json"}
    (warning,) = trace.warnings
    assert "left out 1 event that is not valid JSON" in warning.message
    assert warning.offset is not None
    assert bad[warning.offset :].startswith(b"{")
    assert bad[warning.offset :].index(b'"dur"') < 200


MISSPELLED = "1 event is not valid JSON, and was read as it seems to be meant"


@pytest.mark.parametrize(
    ("old", "new", "misspelled"),
    [
        (b'"path": "C:\\\\a5"', b'"path": "C:\\a5"', True),
        (b'"n": 5', b'"n": NaN', True),
        (b'"n": 5', b'"n": -Infinity', True),
        (b'"n": 5', b'"n": N/A', True),
        (b'"n": 5', b'"n": "\x01\x1b[31m"', True),
        (b'"n": 5', b'"n": "\xff\xfe"', False),
        (b'"n": 5', b'"n": 5, "n": 6', False),
        (b'"n": 5', b'"n": [{"name": 1}, {"ts": 2}]', False),
        (b'"n": 5\n   }\n  },', b'"n": 5\n   }\n  }', True),
        (b'"n": 5\n   }\n  },', b'"n": 5\n   }\n  },,', True),
        (b'"correlation": 1\n   }\n  }', b'"correlation": 1\n   }\n  },', True),
    ],
)
def test_what_is_misspelled_is_read_and_said(old: bytes, new: bytes, misspelled: bool) -> None:
    bad = broken(old, new)
    trace = load(bad)
    assert names(trace) == [f"op{i}" for i in range(12)] + ["gemm"]
    assert trace.metadata == {"schemaVersion": 1, "traceName": "t.json"}
    assert warned(trace) == [MISSPELLED] * misspelled
    for warning in trace.warnings:
        assert warning.offset is not None
        assert bad[warning.offset : warning.offset + 1] in (b"{", b"]")
        assert abs(warning.offset - document().index(old)) < 200


@pytest.mark.parametrize("gap", [b"", b", ,"])
def test_each_place_between_events_is_said_once(gap: bytes) -> None:
    events = [json.dumps(event(f"op{i}", i, 1)).encode() for i in range(4)]
    raw = b'{"traceEvents": [' + gap.join(events) + b"]}"
    trace = load(raw)
    assert len(trace) == 4
    (warning,) = trace.warnings
    assert "3 events are not valid JSON" in warning.message
    assert warning.offset == len(b'{"traceEvents": [' + events[0] + gap)


def test_an_event_is_counted_once_however_it_is_misspelled() -> None:
    events = [json.dumps({**event(f"op{i}", i, 1), "args": {"n": float("nan")}}) for i in range(4)]
    (warning,) = load(f'{{"traceEvents": [{"".join(events)}]}}'.encode()).warnings
    assert "4 events are not valid JSON" in warning.message


def test_a_second_list_of_events_is_said() -> None:
    events = json.dumps([event("op", 5, 2)])
    raw = f'{{"traceEvents": {events}, "traceName": "a", "traceEvents": {events}}}'.encode()
    trace = load(raw)
    assert names(trace) == ["op"]
    (warning,) = trace.warnings
    assert warning.offset is not None
    assert "second list of events" in warning.message
    assert raw[warning.offset :].startswith(b'"traceEvents"')
    assert warning.offset > 20


def test_arguments_can_be_read_beside_damage() -> None:
    trace = load(broken(b'"n": 5', b'"n": [5}'))
    arguments = [trace.read_arguments(row) for row in range(len(trace) - 1)]
    assert [each["n"] for each in arguments] == [i for i in range(12) if i != 5]


@pytest.mark.parametrize("tail", [b"", b"]", b"]}", b',"x":'])
def test_a_missing_end_loses_no_event(tail: bytes) -> None:
    raw = b'{"traceEvents": [' + json.dumps(event("op", 1, 2)).encode() + tail
    assert names(load(raw)) == ["op"]


def test_a_bad_event_is_said_beside_a_missing_end() -> None:
    raw = broken(b'"n": 5', b'"n": [5}')
    cut = raw.index(b'"op9"')
    trace = load(raw[:cut])
    assert names(trace) == [f"op{i}" for i in range(9) if i != 5]
    unended, unread = trace.warnings
    assert unended.message.endswith(f"loaded up to byte {unended.offset:,}")
    assert raw[unended.offset : cut].startswith(b"{")
    assert "left out 1 event" in unread.message
    assert b'"op5"' in raw[unread.offset or 0 :][:60]


def test_a_bad_last_event_leaves_the_fields_behind_it() -> None:
    raw = broken(b'"correlation": 1', b'"correlation": [1}')
    trace = load(raw)
    assert names(trace) == [f"op{i}" for i in range(12)]
    assert trace.metadata == {"schemaVersion": 1, "traceName": "t.json"}
    (warning,) = trace.warnings
    assert "left out 1 event" in warning.message
    assert b'"gemm"' in raw[warning.offset or 0 :][:80]


def test_objects_in_a_bad_event_are_no_events() -> None:
    nested = b'"n": [{"name": 1}, {"ts": 2}], "m": o"5'
    trace = load(broken(b'"n": 5', nested))
    assert names(trace) == [*(f"op{i}" for i in range(12) if i != 5), "gemm"]
    assert "left out 1 event" in trace.warnings[0].message


@pytest.mark.parametrize("stray", [b"]", b"]}", b'], "x": 1', b",,", b"}"])
def test_a_stray_bracket_does_not_end_the_events(stray: bytes) -> None:
    raw = document()
    at = raw.index(b',\n  {\n   "ph"', raw.index(b'"op7"'))
    trace = load(raw[:at] + stray + raw[at:])
    assert set(names(trace)) == {*(f"op{i}" for i in range(12)), "gemm"}
    assert trace.metadata == {"schemaVersion": 1, "traceName": "t.json"}


@pytest.mark.parametrize("value", [b"N/A", b"nan", b"-nan(ind)", b"[1, inf, -inf]", b"C:\\x"])
def test_a_mended_last_event_ends_where_it_ends(value: bytes) -> None:
    odd = b'"correlation": "C:\\p\\q"' if value.startswith(b"C") else b'"correlation": ' + value
    raw = broken(b'"correlation": 1', odd).replace(b"t.json", b"N/A, None: C:\\users\\a.json")
    trace = load(raw)
    assert names(trace)[-1] == "gemm"
    assert trace.metadata == {"schemaVersion": 1, "traceName": "N/A, None: C:\\users\\a.json"}
    assert warned(trace) == [MISSPELLED]


def test_words_in_strings_stay_where_something_is_mended() -> None:
    odd = event("a, None]", 1, 2, x="@", list=[{"name": 1}, {"ts": 2}])
    trace = load(json.dumps([odd]).replace("@", "C:\\q").encode())
    assert names(trace) == ["a, None]"]
    assert trace.read_arguments(0) == {"x": "C:\\q", "list": [{"name": 1}, {"ts": 2}]}


def test_a_name_with_single_backslashes_costs_no_other_field() -> None:
    around = b'{"deviceProperties": [{"id": 0, "memory": NaN}], "log": "C:\\logs", "traceEvents": ['
    behind = b'], "traceName": "C:\\users\\a.json", "record_shapes": 1}'
    trace = load(around + json.dumps(event("op", 1, 2)).encode() + behind)
    assert trace.warnings == ()
    assert trace.metadata["log"] == "C:\\logs"
    assert trace.metadata["traceName"] == "C:\\users\\a.json"
    assert trace.metadata["record_shapes"] == 1
    assert trace.metadata["deviceProperties"][0]["id"] == 0


def test_numbers_beyond_any_meaning_do_not_shift_arguments() -> None:
    events = [event(f"op{i}", i, 1, n=i, x="@") for i in range(3)]
    for number in ("9" * 5000, "1e99999999999999999999"):
        trace = load(json.dumps(events).replace('"@"', number).encode())
        assert [trace.read_arguments(row)["n"] for row in range(3)] == [0, 1, 2]


def test_a_head_that_cannot_be_read_is_passed_over() -> None:
    """Even where that takes reading on to the limit: the events still come in pieces."""
    events = [event("op", i, 1, n=i) for i in range(5000)]
    trace = load(b'{"bad": C:\\x, "traceEvents": [' + json.dumps(events)[1:].encode() + b"}")
    assert len(trace) == 5000
    reader = trace.read_arguments
    assert isinstance(reader, ArgumentReader)
    assert max(chunk.length for chunk in reader.chunks) <= 2 * PIECE
    assert reader(4999)["n"] == 4999


def test_fields_around_the_events_may_be_broken() -> None:
    raw = b'{"bad": C:\\x, "traceEvents": [' + json.dumps(event("op", 1, 2)).encode() + b"]}"
    trace = load(raw)
    assert names(trace) == ["op"]
    assert "not valid JSON" in trace.warnings[0].message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"  \n", "holds no text"),
        (gzip.compress(b"", mtime=0), "holds no text"),
        (b"hello", "trace.json is not a trace: it is not JSON"),
        (b"\x80\x04pickle", "a Python pickle"),
        (b'{"a": 1}', "no traceEvents"),
        (b"[]", "no events"),
        (b'{"traceEvents": []}', "no events"),
        (b'{"traceEvents": [{"ph": "M", "name": "process_name"}]}', "no event with"),
        (b'[{"ph": "X", "cat": "Trace", "name": "p", "ts": 1, "dur": 1}]', "no event with"),
        (b'[{"ph": "X", "name": "op"}]', "no event has a time"),
        (b"[1, 2, 3]", "no events"),
        (b"[" * 100_000, "no events"),
    ],
)
def test_what_is_no_trace_is_said_with_what_to_do(content: bytes, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        load(content)


def test_a_missing_file_and_a_directory_are_said(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(TraceError, match="cannot read"):
            load_trace(path)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_no_mutation_raises_anything_but_trace_error(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    chance = random.Random(20)  # noqa: S311 - chooses where to damage a test file
    raw = pack(document())
    path = tmp_path / "mutated.json"
    loaded = 0
    for _ in range(400):
        trace = opened(path, wounded(raw, chance))
        if trace is None:
            continue
        loaded += 1
        assert len(trace) <= 40
        assert (trace.duration >= 0).all()
        for row in range(len(trace)):
            trace.read_arguments(row)
    assert loaded > 50


def test_what_was_inflated_at_first_and_no_longer_is_said() -> None:
    raw = gzip.compress(document(3000))
    trace = load(raw)
    status = trace.path.stat()
    trace.path.write_bytes(raw[:200] + bytes(len(raw) - 200))
    os.utime(trace.path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(TraceError, match="damaged"):
        trace.read_arguments(2999)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_text_in_another_encoding_is_named(encoding: str) -> None:
    with pytest.raises(TraceError, match="UTF-16 or UTF-32"):
        load(document().decode().encode(encoding))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_an_event_days_away_is_said_with_its_place(pack: Callable[[bytes], bytes]) -> None:
    raw = broken(b'"ts": 30.125', b'"ts": 864000000000')
    trace = load(pack(raw))
    (warning,) = trace.warnings
    assert "1 event lies 240 hours from all others" in warning.message
    assert warning.offset == raw.rindex(b"{", 0, raw.rindex(b'"name": "op3"'))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
# As a file spells it, and what it means.
SPELLED = st.sampled_from(
    [
        ('"C:\\dir\\x"', "C:\\dir\\x"),
        ('"a\\q, None, nan"', "a\\q, None, nan"),
        ('"\\u12"', "\\u12"),
        ('"\\u00e9\\n"', "é\n"),
        ('": nan, "', ": nan, "),
        ("N/A", None),
        ("-nan(ind)", None),
        ("[nan, -inf , 1, undefined]", [None, None, 1, None]),
        ("12", 12),
        ("[]", []),
    ]
)
SPACE = st.sampled_from(["", " ", "\n  "])


@pytest.mark.slow
@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_valid_text_stays_as_it_is(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    repaired = repair(text)
    assert repaired.text == text
    assert repaired.original(len(text)) == len(text)


@given(st.lists(st.tuples(SPELLED, SPACE), max_size=6), st.text(max_size=30))
def test_an_object_is_mended_and_its_end_is_known(
    fields: list[tuple[tuple[str, Any], str]], behind: str
) -> None:
    spelled = (f'"{key}":{space}{text}{space}' for key, ((text, _), space) in enumerate(fields))
    text = "{" + ",".join(spelled) + "}"
    repaired = repair(f"{text}, {behind}")
    value, end = json.JSONDecoder().raw_decode(repaired.text)
    assert value == {str(key): means for key, ((_, means), _) in enumerate(fields)}
    assert repaired.original(end) == len(text)


@given(st.text(alphabet='{}[],:"\\ naN/Ifu1x\n'))
def test_any_text_can_be_mended(text: str) -> None:
    repaired = repair(text)
    assert repaired.original(len(repaired.text)) == len(text)
