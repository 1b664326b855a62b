"""Requests to the recorder of a run, and its signs of life on other hosts."""

import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from perftui.run import control
from perftui.run.control import (
    LARGEST,
    Beat,
    Hearing,
    Request,
    heard_label,
    read_beat,
    request,
    silent_seconds,
    take_requests,
    write_beat,
)
from perftui.run.layout import RunLayout, create_run_directory
from perftui.run.manifest import Manifest, Status, write_manifest
from perftui.run.reader import RunReader, entry_of, list_runs, recorded_where


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return create_run_directory(tmp_path / "runs", "a-run")


def test_requests_are_taken_in_order_and_once(layout: RunLayout) -> None:
    request(layout, "capture")
    request(layout, "resize", rows=40, columns=120)
    request(layout, "stop")
    assert take_requests(layout) == [
        Request("capture"),
        Request("resize", {"rows": 40, "columns": 120}),
        Request("stop"),
    ]
    assert take_requests(layout) == []
    assert list(layout.control.iterdir()) == []


def test_unknown_request_is_refused_before_it_is_written(layout: RunLayout) -> None:
    with pytest.raises(ValueError, match="explode"):
        request(layout, "explode")
    assert list(layout.control.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        b'{"kind": ',
        b'{"kind": "\xff"}',
        b'{"kind": "stop", "x": ' + b"[" * 5000,
        b" " * (LARGEST + 1),
    ],
    ids=["cut off", "no UTF-8", "deep", "large"],
)
def test_damaged_request_is_removed(layout: RunLayout, content: bytes) -> None:
    (layout.control / "0-x.json").write_bytes(content)
    request(layout, "stop")
    assert take_requests(layout) == [Request("stop")]
    assert list(layout.control.iterdir()) == []


def test_what_cannot_be_read_does_not_stop_the_others(layout: RunLayout) -> None:
    (layout.control / "0-directory.json").mkdir()
    (layout.control / "1-nowhere.json").symlink_to(layout.control / "absent")
    request(layout, "stop")
    assert take_requests(layout) == [Request("stop")]


def test_half_written_request_is_left_alone(layout: RunLayout) -> None:
    (layout.control / ".0-x.json.tmp123").write_bytes(b"{")
    assert take_requests(layout) == []
    assert len(list(layout.control.iterdir())) == 1


def test_run_directory_that_is_gone_asks_for_nothing(tmp_path: Path) -> None:
    assert take_requests(RunLayout(tmp_path / "gone")) == []


SECOND = 1_000_000_000
NOW = 1_800_000_000 * SECOND
ELSEWHERE = Manifest("r", ("python", "t.py"), "/w", 5, "node7", status=Status.RUNNING)


def beat(path: Path, count: int, by_recorder: int, by_disk: int) -> None:
    """One that is so many seconds old by the clocks of the recorder and of the disk."""
    write_beat(path, Beat(count, NOW - by_recorder * SECOND, "node7", 12, "/spool"))
    os.utime(path, ns=(NOW, NOW - by_disk * SECOND))


def test_a_sign_of_life_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "heartbeat.json"
    assert read_beat(path) is None
    first, last = Beat(1, 5, "node7", 12, "/s" * 400), Beat(2, 6, "node7")
    write_beat(path, first)
    assert read_beat(path) == first
    write_beat(path, last)
    assert read_beat(path) == last
    path.write_bytes(path.read_bytes()[:20])
    assert read_beat(path) is None


@pytest.mark.parametrize(
    ("by_recorder", "by_disk", "silent"),
    [
        (3, 3, 3),
        # The recorder's clock is ten minutes behind, or ours is ahead of the disk's.
        (603, 3, 3),
        (3, 603, 3),
        (-600, 3, 0),
        (400, 420, 400),
    ],
)
def test_one_look_goes_by_the_clock_that_heard_last(
    tmp_path: Path, by_recorder: int, by_disk: int, silent: int
) -> None:
    path = tmp_path / "heartbeat.json"
    beat(path, 1, by_recorder, by_disk)
    assert silent_seconds(path, NOW) == silent
    assert silent_seconds(tmp_path / "none", NOW) is None


def test_who_follows_a_run_goes_by_his_own_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "heartbeat.json"
    ours = iter([100.0, 160.0, 200.0, 260.0])
    clocks = SimpleNamespace(monotonic=lambda: next(ours), time_ns=lambda: NOW)
    monkeypatch.setattr(control, "time", clocks)
    hearing = Hearing(path)
    hearing.poll()
    assert hearing.silent is None
    silences = []
    # All of these are an hour old by every other clock.
    for count in (1, 1, 2, 2):
        beat(path, count, 3600, 3600)
        hearing.poll()
        silences.append(hearing.silent)
    assert silences == [3600, 3660, 0, 60]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3.2, "last heard 3 s ago"),
        (59, "last heard 59 s ago"),
        (300, "not heard of for 5 min"),
        (7200, "not heard of for 2 h"),
        (864_000, "not heard of for 10 days"),
    ],
)
def test_silence_in_words(seconds: float, words: str) -> None:
    assert heard_label(seconds) == words


def test_a_run_of_another_host_says_when_it_was_heard_of(tmp_path: Path) -> None:
    layout = create_run_directory(tmp_path, "r")
    write_manifest(layout.manifest, ELSEWHERE)
    assert recorded_where(entry_of(layout.root)) == "recording on node7"
    write_beat(layout.heartbeat, Beat(1, time.time_ns(), "node7"))
    (entry,) = list_runs(tmp_path)
    where = recorded_where(entry)
    assert where.startswith("recording on node7, last heard ")
    assert RunReader(layout.root).poll().manifest.notes == ()


def test_a_recorder_elsewhere_that_is_silent_is_reported_until_it_is_heard_again(
    tmp_path: Path,
) -> None:
    layout = create_run_directory(tmp_path, "r")
    write_manifest(layout.manifest, ELSEWHERE)
    old = time.time_ns() - 301 * SECOND
    write_beat(layout.heartbeat, Beat(1, old, "node7"))
    os.utime(layout.heartbeat, ns=(old, old))
    reader = RunReader(layout.root)
    said = "the recorder on node7 was not heard of for 5 min: it may have died, or its disk hangs"
    assert reader.poll().manifest.notes == (said,)
    assert reader.poll().manifest.status is Status.RUNNING
    # Its clock stands still, and yet it lives.
    write_beat(layout.heartbeat, Beat(2, old, "node7"))
    assert reader.poll().manifest.notes == ()
    os.utime(layout.heartbeat, ns=(old, old))
    write_manifest(layout.manifest, replace(ELSEWHERE, status=Status.EXITED))
    assert recorded_where(entry_of(layout.root)) is None
