from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from perftui.trace.formats import find_traces, is_trace
from perftui.trace.model import TraceError
from tests.traces.events import event


def test_traces_are_found_by_content(tmp_path: Path) -> None:
    log = tmp_path / "log" / "plugins"
    log.mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    trace = json.dumps({"schemaVersion": 1, "traceEvents": [event("op", 1, 2)]}).encode()
    late = b'{"deviceProperties": [' + b'{"id": 1},' * 100_000 + b'{}], "traceEvents": []}'
    wanted = {
        log / "host_12.1700.pt.trace.json": trace,
        log / "host_12.1701.pt.trace.json.gz": gzip.compress(trace),
        tmp_path / "list.json": b"\xef\xbb\xbf" + json.dumps([event("op", 1, 2)]).encode(),
        tmp_path / "named.json.gz": trace,
        tmp_path / "late.json": late,
    }
    others = {
        tmp_path / "package.json": b'{"name": "x"}',
        tmp_path / "list_of_numbers.json": b"[1, 2]",
        tmp_path / "empty.json": b"",
        tmp_path / "broken.json.gz": b"\x1f\x8b\x00",
        tmp_path / "trace.txt": trace,
        tmp_path / ".hidden" / "trace.json": trace,
    }
    for path, content in {**wanted, **others}.items():
        path.write_bytes(content)
    assert find_traces(tmp_path) == sorted(wanted)
    assert not is_trace(tmp_path / "absent.json")


def test_a_directory_that_does_not_exist_is_said(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="not a directory"):
        find_traces(tmp_path / "absent")
