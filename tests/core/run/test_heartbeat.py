"""Whether a recorder on another host lives, as far as its signs of life tell."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from perftui.run import control
from perftui.run.control import Beat, Hearing, heard_label, read_beat, silent_seconds, write_beat
from perftui.run.history import entry_of, list_runs, recorded_where
from perftui.run.layout import create_run_directory
from perftui.run.manifest import Manifest, Status, write_manifest
from perftui.run.reader import RunReader

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
    assert where is not None
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
