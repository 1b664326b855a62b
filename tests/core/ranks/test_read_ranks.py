"""Many ranks: read at once they hold what they hold when read in turn."""

import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.open_trace import open_trace
from perftui.facts.fact import RankPaths
from perftui.facts.ranks import parallel_reading, traced_ranks
from perftui.facts.ranks.parallel_reading import Jobs, read_at_once
from perftui.facts.ranks.traced_ranks import (
    MEMORY_AT_LEAST,
    WORTH_PROCESSES,
    ReadRank,
    processes_for,
    read_one,
)
from perftui.report.as_json import as_object
from perftui.report.report import make_report
from perftui.report.subject import Progress, load_subject, paths_of, read_beside
from perftui.trace.model import LoadCancelled
from perftui.trace.recordings import choose_rank
from tests.core.ranks.conftest import RANKS
from tests.core.ranks.deadly import ALWAYS, ONCE, read_or_die

MB = 1 << 20


def paths(folder: Path) -> RankPaths:
    return paths_of(choose_rank(folder).ranks)


def report(folder: Path, scheduler: str = "", tell: Progress | None = None) -> Any:
    """The whole report as JSON, with all ranks read before."""
    chosen = choose_rank(folder)
    subject = replace(load_subject(chosen.path), beside=paths_of(chosen.ranks))
    return as_object(make_report(replace(subject, ranks=read_beside(subject, tell, scheduler))))


def in_processes(monkeypatch: pytest.MonkeyPatch, count: int = 2) -> None:
    monkeypatch.setattr(traced_ranks, "processes_for", lambda _: count)


def readers_of(process: psutil.Process) -> list[psutil.Process]:
    """Its children that read traces."""
    found = []
    for one in process.children():
        with suppress(psutil.NoSuchProcess):
            if "spawn_main" in " ".join(one.cmdline()):
                found.append(one)
    return found


def numbers(found: Sequence[ReadRank]) -> list[int]:
    return sorted(rank for rank, _ in found)


@pytest.mark.slow
def test_in_turn_it_is_what_the_fact_works_out(many: Path) -> None:
    chosen = choose_rank(many)
    subject = replace(load_subject(chosen.path), beside=paths_of(chosen.ranks))
    by_fact = as_object(make_report(subject))
    assert report(many) == by_fact
    assert len(by_fact["ranks"]["rows"]) == RANKS - 1
    assert any("rank 9 cannot be read" in note for note in by_fact["notes"])


def test_a_trace_is_let_go_before_the_next_is_read(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[weakref.ref[Any]] = []

    def noted(*given: Any, **named: Any) -> Any:
        analysis = open_trace(*given, **named)
        opened.append(weakref.ref(analysis.trace))
        return analysis

    monkeypatch.setattr("perftui.analysis.open_trace.open_trace", noted)
    gc.disable()
    try:
        for rank, path in paths(many)[:2]:
            assert not isinstance(read_one(path, rank)[1], str)
            assert opened.pop()() is None
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.subprocess
def test_in_processes_all_is_the_same(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_turn = report(many)
    in_processes(monkeypatch)
    assert report(many) == in_turn


@pytest.mark.slow
@pytest.mark.subprocess
def test_what_a_dead_process_was_reading_is_read_again(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_turn = report(many)
    in_processes(monkeypatch)
    monkeypatch.setattr(parallel_reading, "read_one", read_or_die)
    marks = [many / f"rank{rank}.pt.trace.{ONCE}" for rank in (7, 40)]
    for mark in marks:
        mark.touch()
    assert report(many) == in_turn
    assert not any(mark.exists() for mark in marks)


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_trace_that_kills_its_reader_is_named_and_is_not_the_end(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_processes(monkeypatch)
    monkeypatch.setattr(parallel_reading, "read_one", read_or_die)
    mark = many / f"rank30.pt.trace.{ALWAYS}"
    mark.touch()
    try:
        found = list(traced_ranks.read_ranks(paths(many)))
    finally:
        mark.unlink()
    assert numbers(found) == list(range(RANKS))
    left_out = {rank: why for rank, why in found if isinstance(why, str)}
    assert sorted(left_out) == [9, 30]
    assert left_out[30] == f"rank 30 cannot be read: {parallel_reading.DIED}"


@pytest.mark.subprocess
def test_its_processes_end_when_nobody_waits_any_more(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_processes(monkeypatch)
    seen: list[ReadRank] = []
    ranks = traced_ranks.read_ranks(paths(many), lambda: bool(seen))
    seen.append(next(ranks))
    with pytest.raises(LoadCancelled):
        list(ranks)
    deadline = time.monotonic() + 20
    while readers_of(psutil.Process()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


INTERRUPTED = """
import sys, time
from pathlib import Path
from perftui.facts.ranks import traced_ranks
traced_ranks.WORTH_PROCESSES = 0
from perftui_tui.cli import main
if __name__ == "__main__":
    sys.exit(main(["report", sys.argv[1]]))
"""


def reading(
    path: Path, many: Path, script: str
) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """``script`` at ``path`` as it reads all ranks, and its reading processes; where it makes a
    file ``.began``, from then on."""
    path.write_text(script)
    started = subprocess.Popen(
        [sys.executable, str(path), str(many)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    began, deadline = path.with_suffix(".began"), time.monotonic() + 60
    readers: list[psutil.Process] = []
    while not readers or (".began" in script and not began.exists()):
        readers = readers_of(psutil.Process(started.pid))
        assert time.monotonic() < deadline
        assert started.poll() is None
        time.sleep(0.01)
    return started, readers


@pytest.mark.subprocess
def test_an_interrupt_ends_the_command_and_its_processes(many: Path, tmp_path: Path) -> None:
    started, readers = reading(tmp_path / "interrupted.py", many, INTERRUPTED)
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=60)
    assert started.returncode == 130
    assert not psutil.wait_procs(readers, timeout=20)[1]


@pytest.mark.slow
@pytest.mark.subprocess
def test_an_interrupt_as_a_reading_process_begins_is_quiet(many: Path, tmp_path: Path) -> None:
    # What a process of this script imports first is the script: there it waits for the interrupt.
    waits = 'Path(__file__).with_suffix(".began").touch()\ntime.sleep(60)\n'
    started, readers = reading(tmp_path / "interrupted.py", many, INTERRUPTED + waits)
    for reader in readers:
        reader.send_signal(signal.SIGINT)
    assert not psutil.wait_procs(readers, timeout=0.5)[0]
    os.killpg(started.pid, signal.SIGINT)
    assert started.communicate(timeout=60)[1] == ""
    assert started.returncode == 130
    assert not psutil.wait_procs(readers, timeout=20)[1]


class Breaking(Executor):
    """Reads one trace at once, and is broken from then on."""

    def __init__(self) -> None:
        self.submitted = 0

    def submit(self, *call: Any, **_: Any) -> Future[Any]:
        self.submitted += 1
        if self.submitted > 1:
            raise BrokenExecutor
        future: Future[Any] = Future()
        future.set_result(call[0](*call[1:]))
        return future


def test_what_a_broken_executor_did_not_take_is_left() -> None:
    def read(path: Path, rank: int) -> ReadRank:
        return rank, str(path)

    left = Jobs((rank, Path("x")) for rank in range(3))
    assert list(read_at_once(Breaking(), lambda: 2, read, left, BrokenExecutor)) == [(0, "x")]
    assert [rank for rank, _ in left] == [1, 2]


@given(
    st.lists(st.integers(0, 4000 * MB), max_size=600), st.integers(1, 200), st.integers(0, 1 << 40)
)
def test_processes_fit_the_machine(sizes: list[int], cores: int, memory: int) -> None:
    count = processes_for(sizes, cores, memory)
    assert 1 <= count <= max(1, min(cores, len(sizes)))
    if count > 1:
        assert sum(sizes) >= WORTH_PROCESSES
        each = MEMORY_AT_LEAST + traced_ranks.MEMORY_PER_TEXT * max(sizes)
        assert count * each <= traced_ranks.MEMORY_SHARE * memory


def test_few_small_traces_are_read_in_turn() -> None:
    assert processes_for([MB] * 8, 64, 1 << 38) == 1
    assert processes_for([100 * MB] * 8, 64, 1 << 38) == 8
    assert processes_for([1000 * MB] * 512, 64, 16 << 30) == 17
