"""From the pages of workers to rows that sum up to what was counted."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftui.agent.dataloader.worker_times import PageFile
from perftui.agent.native.plain import PlainPage
from perftui.recorder import loader_workers
from perftui.recorder.loader_workers import LoaderWorkers, process_use
from perftui.recorder.sink import FaultLog
from perftui.recorder.spool import Note
from perftui.run.columns import WORKER_COLUMNS
from perftui.run.journal import JournalReader
from perftui.run.journal_table import KEPT_STEPS, JournalTable
from perftui.wire.spool import Spool
from perftui.wire.worker_page import COLLATE, FETCH, IDLE

OWNER = 4711

NAMES = [column.name for column in WORKER_COLUMNS]


class Clock:
    """Time as both sides read it; a look at it takes none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.perf_counter_ns()
        monkeypatch.setattr(
            "perftui.agent.dataloader.worker_times.perf_counter_ns", lambda: self.now
        )
        monkeypatch.setattr("perftui.agent.native.plain.perf_counter_ns", lambda: self.now)
        monkeypatch.setattr(loader_workers.time, "perf_counter_ns", lambda: self.now)


class Page(PageFile, PlainPage):
    """The one whose clock may be another; its batches are their sizes."""

    batch_bytes = int


class Followed:
    """The rows that a recorder writes of pages in a spool."""

    def __init__(self, root: Path, clock: Clock) -> None:
        root.mkdir(exist_ok=True)
        self.spool = Spool(root)
        self.clock = clock
        self.path = root / "workers.jsonl"
        faults = FaultLog(root / "recorder.log")
        self.workers = LoaderWorkers(self.spool, OWNER, self.path, faults)

    def page(self, worker: int = 0, loader: int = 1) -> Page:
        page = Page()
        page.open(self.spool.root, {"owner": OWNER, "worker": worker, "loader": loader})
        return page

    def turn(self, seconds: float = 10) -> None:
        self.clock.now += round(seconds * 1e9)
        self.workers.poll()

    def rows(self) -> list[dict[str, Any]]:
        reader = JournalReader(self.path)
        return [dict(zip(NAMES, row, strict=True)) for row in reader.poll()]


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Followed:
    return Followed(tmp_path / "spool", Clock(monkeypatch))


def test_a_batch_is_reported_with_its_parts(followed: Followed) -> None:
    page, clock = followed.page(worker=3), followed.clock
    page.mark(FETCH)
    clock.now += 700
    page.mark(COLLATE)
    clock.now += 200
    page.count(64)
    page.count(-1)
    followed.turn()
    (row,) = followed.rows()
    assert (row["loader"], row["worker"], row["pid"]) == (1, 3, os.getpid())
    assert (row["batches"], row["sized"], row["bytes"]) == (2, 1, 64)
    assert (row["fetch"], row["collate"], row["elapsed"]) == (700, 200, 10 * 10**9 + 900)
    followed.turn()
    assert len(followed.rows()) == 1


def test_a_long_batch_is_no_idle_worker(followed: Followed) -> None:
    followed.page().mark(FETCH)
    followed.turn()
    followed.turn()
    rows = followed.rows()
    assert [row["fetch"] for row in rows] == [row["elapsed"] for row in rows] == [10 * 10**9] * 2
    assert {row["batches"] for row in rows} == {0}


STAGES = st.lists(
    st.tuples(st.sampled_from([IDLE, FETCH, COLLATE]), st.integers(0, 2 * 10**9), st.booleans())
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(stages=STAGES, number=st.integers(0, 10**9))
def test_rows_sum_to_what_was_counted(
    stages: list[tuple[int, int, bool]], number: int, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        clock = Clock(patched)
        followed = Followed(tmp_path / f"{number}-{time.time_ns()}", clock)
        page, spent, begun = followed.page(), [0, 0, 0], clock.now
        for stage, duration, looks in stages:
            page.mark(stage)
            clock.now += duration
            spent[stage] += duration
            page.count(duration)
            if looks:
                followed.workers.poll()
        page.mark(IDLE)
        page.close()
        followed.workers.finish()
    rows = followed.rows()
    assert sum(row["fetch"] for row in rows) == spent[FETCH]
    assert sum(row["collate"] for row in rows) == spent[COLLATE]
    assert sum(row["batches"] for row in rows) == len(stages)
    assert sum(row["bytes"] for row in rows) == sum(spent)
    assert sum(row["elapsed"] for row in rows) == (clock.now - begun if rows else 0)
    assert all(row["fetch"] + row["collate"] <= row["elapsed"] for row in rows)
    assert followed.spool.worker_pages(OWNER) == []


@pytest.mark.slow
def test_a_long_run_keeps_its_first_and_its_newest_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perftui.recorder.sink.SEGMENT_BYTES", 2000)
    followed = Followed(tmp_path / "spool", Clock(monkeypatch))
    page = followed.page()
    for _ in range(500):
        page.mark(FETCH)
        page.count(1)
        page.mark(IDLE)
        followed.turn()
    followed.workers.finish()
    table = JournalTable(followed.path, WORKER_COLUMNS, kept=KEPT_STEPS)
    kept = table.poll()
    between = kept.sums.of()
    assert len(kept) < 250
    assert int(kept["batches"].sum()) + between.of("batches").total == 500
    sizes = [path.stat().st_size for path in followed.path.parent.glob("workers*")]
    assert sum(sizes) < 20_000


def test_rows_wait_for_the_loader_of_the_worker_but_not_for_ever(followed: Followed) -> None:
    told, untold = followed.page(worker=0, loader=-1), followed.page(worker=1, loader=-1)
    for page in (told, untold):
        page.mark(FETCH)
    followed.turn()
    assert followed.rows() == []
    followed.workers.notes([Note(0, "loader", data={"id": 7, "workers": [os.getpid()]})])
    followed.turn()
    assert {row["loader"] for row in followed.rows()} == {7}


def test_a_worker_of_an_unknown_loader_is_written_in_the_end(followed: Followed) -> None:
    followed.page(loader=-1).mark(FETCH)
    for _ in range(4):
        followed.turn()
    assert [row["loader"] for row in followed.rows()] == [-1]
    assert followed.rows()[0]["elapsed"] == 40 * 10**9


DIES = """
import sys
from pathlib import Path
from types import SimpleNamespace
from perftui.wire.worker_page import FETCH
from perftui.agent.dataloader.worker_times import WorkerPage
modes = SimpleNamespace(_len_torch_function_stack=lambda: 0)
page = WorkerPage(SimpleNamespace(Tensor=bytes, strided=None, _C=modes))
page.batch_bytes = int
page.open(Path(sys.argv[1]), {"owner": int(sys.argv[2]), "worker": 0, "loader": 1})
page.mark(FETCH)
page.count(5)
"""


@pytest.mark.subprocess
def test_the_page_of_a_worker_that_is_gone_is_read_and_removed(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    command = [sys.executable, "-c", DIES, str(tmp_path), str(OWNER)]
    subprocess.run(command, check=True, timeout=60)
    workers = LoaderWorkers(spool, OWNER, tmp_path / "workers.jsonl", FaultLog(tmp_path / "log"))
    workers.poll()
    assert spool.worker_pages(OWNER) == []
    reader = JournalReader(tmp_path / "workers.jsonl")
    (row,) = reader.poll()
    assert dict(zip(NAMES, row, strict=True))["bytes"] == 5
    assert reader.columns == WORKER_COLUMNS


def test_what_is_no_page_is_said_once(followed: Followed) -> None:
    name = f"loader-{OWNER}-1-1"
    (followed.spool.root / name).write_bytes(b"\0" * 4096)
    followed.turn()
    followed.turn()
    (line,) = (followed.spool.root / "recorder.log").read_text().splitlines()
    assert name in line


def test_the_spool_tells_who_trains_and_who_loads(tmp_path: Path) -> None:
    names = (
        "ring-40",
        "ring-41",
        "ring-42.new",
        "loader-40-40-1",
        "loader-40-50-1",
        "loader-41-51-9",
    )
    for name in names:
        (tmp_path / name).touch()
    assert Spool(tmp_path).trainers() == {40, 41}
    assert Spool(tmp_path).workers() == {50, 51}


STAT = "7 (a) b) S " + " ".join(str(number) for number in range(4, 53))


def process(root: Path, stat: str = STAT, io: str = "rchar: 30\nsyscr: 4\nread_bytes: 5\n") -> None:
    here = root / "7"
    here.mkdir()
    (here / "stat").write_text(stat)
    (here / "schedstat").write_text("1000 2000 3\n")
    (here / "io").write_text(io)


def test_the_counters_of_a_process_are_read(tmp_path: Path) -> None:
    process(tmp_path)
    use = process_use(7, tmp_path)
    # utime and stime are the fields 14 and 15 of ``proc(5)``, in ticks of 10 ms.
    assert use.others == (14 + 15) * 10_000_000 - 1000
    assert (use.cpu, use.delayed, use.threads, use.faults) == (1000, 2000, 20, 12)
    assert (use.read, use.asked, use.reads) == (5, 30, 4)


def test_what_the_kernel_does_not_tell_is_unknown(tmp_path: Path) -> None:
    assert process_use(7, tmp_path) is None
    process(tmp_path, io="rchar: 30\n")
    assert process_use(7, tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_this_process_has_used_what_it_computed() -> None:
    before, start = process_use(os.getpid()), time.process_time()
    if before is None:
        pytest.skip("the kernel does not tell")
    while time.process_time() - start < 0.05:
        pass
    after = process_use(os.getpid())
    assert after.cpu + after.others - before.cpu - before.others >= 30_000_000
