"""Who else uses the cores, and how long threads of the training wait for one."""

import os
import shutil
import threading
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.telemetry.contention import THREAD_COLUMNS, ContentionSource, ThreadSource
from perftui.telemetry.processes import ProcessTreeSource, Roles
from tests.telemetry_given import BUSY, names_of, running, sampled, write

SECOND = 1_000_000_000


class Proc:
    """A made-up ``/proc``, with two processes that train and two that load where it is asked."""

    def __init__(self, root: Path, *pids: int) -> None:
        self.root = root
        self.place = write(root, {"self/schedstat": "0 0 0\n"})
        self.roles = Roles(frozenset([10, 20]), frozenset([30, 40]))
        for pid in pids:
            self.thread(pid, pid, 0, 0)

    def process(self, pid: int, name: str, ticks: int, parent: int = 1, *words: str) -> None:
        fields = ["R", parent, *[0] * 9, ticks, 0, 0, 0]
        stat = f"{pid} ({name}) " + " ".join(map(str, fields))
        write(self.root, {f"{pid}/stat": stat, f"{pid}/cmdline": "\0".join([name, *words]) + "\0"})

    def thread(self, pid: int, task: int, ran: object, waited: int, name: str = "python") -> None:
        place = f"{pid}/task/{task}"
        files = {f"{place}/schedstat": f"{ran} {waited} 5\n", f"{place}/comm": f"{name}\n"}
        write(self.root, files)

    def threads(self) -> ThreadSource:
        return ThreadSource(lambda: self.roles, self.place)


FOUR = (10, 20, 30, 40)


def test_the_thread_that_waited_the_longest_counts(tmp_path: Path) -> None:
    proc, roles = Proc(tmp_path), Roles(ranks=frozenset({7}))
    source = ContentionSource(lambda: roles, lambda: frozenset({7}), str(tmp_path))
    proc.thread(7, 7, 1, 5 * SECOND)
    proc.thread(7, 8, 1, 0)
    assert source.sample(100) == [None, None]
    for task, waited in ((7, 6), (8, 2), (9, 9)):
        proc.thread(7, task, 1, waited * SECOND)
    assert source.sample(101) == [None, None]
    # The third is new: nobody knows when it waited.
    assert source.sample(104)[0] == 50.0


def test_others_are_named_with_their_script_and_nothing_else_of_their_command(
    tmp_path: Path,
) -> None:
    proc = Proc(tmp_path)
    source = ContentionSource(Roles, lambda: frozenset({7, 8}), str(tmp_path))
    for second, ticks in ((10, 100), (20, 1100)):
        proc.process(7, "python", ticks)
        proc.process(8, "py-spy", ticks, 7)
        proc.process(9, "python", ticks, 1, "-u", "/home/a/job.py", "--token=secret")
        proc.process(10, "python", ticks // 2, 1, "-m", "tool", "secret")
        proc.process(11, "a (b) c", ticks // 10)
        proc.process(12, "idle", 5)
        source.sample(second)
    found = source.others()
    assert found.seconds == 10
    assert found.cores == {"python job.py": 1.0, "python -m tool": 0.5, "a (b) c": 0.1}
    assert found.pids == {"python job.py": [9], "python -m tool": [10], "a (b) c": [11]}


def test_perftui_is_counted_apart_and_never_named(tmp_path: Path) -> None:
    proc, recorder = Proc(tmp_path), os.getpid()
    source = ContentionSource(Roles, lambda: frozenset({7}), str(tmp_path))
    for second, ticks in ((10, 100), (20, 1100)):
        proc.process(7, "python", ticks, recorder, "train.py")
        proc.process(8, "python", ticks, 7, "-c", "new worker")
        proc.process(recorder, "python", ticks, 5, "-P", "-m", "perftui.own_path", "recorder")
        proc.process(9, "py-spy", ticks, recorder)
        proc.process(5, "perftui", ticks, 1, "/usr/bin/perftui", "train.py")
        proc.process(6, "python", ticks, 1, "-m", "perftui_tui", "runs")
        proc.process(10, "python", ticks, 1, "perftui_notes.py")
        values = source.sample(second)
    assert values[1] == 400.0
    assert source.others().cores == {"python perftui_notes.py": 1.0}


def test_processes_of_one_program_are_numbered_while_they_live(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    source = ContentionSource(Roles, frozenset, str(tmp_path))
    for second, ticks in ((10, 0), (20, 100), (30, 200)):
        for pid in range(11, 16):
            if pid != 15 or second < 30:
                proc.process(pid, "cc1", ticks * pid)
            else:
                shutil.rmtree(tmp_path / "15")
        source.sample(second)
    found = source.others()
    assert found.cores == {"cc1": round((200 * (11 + 12 + 13 + 14) + 100 * 15) / 100 / 20, 2)}
    assert found.pids == {"cc1": [14, 13, 12]}


def test_processes_that_end_meanwhile_are_passed_over(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    source = ContentionSource(
        lambda: Roles(ranks=frozenset({5})), lambda: frozenset({5}), str(tmp_path)
    )
    (tmp_path / "9").mkdir()
    (tmp_path / "10").mkdir()
    (tmp_path / "10" / "stat").write_text("10 (cut")
    proc.process(11, "cc", 0)
    assert source.sample(10) == [None, None]
    assert source.sample(20) == [None, 0.0]
    assert source.others().cores == {}


MS = 1_000_000


def test_threads_of_a_run(tmp_path: Path) -> None:
    run = Proc(tmp_path, *FOUR)
    run.thread(10, 11, 0, 0, "pt_autograd_0")
    run.thread(10, 12, 0, 0, "pt_data_pin")
    source = run.threads()
    assert set(sampled(source, 0.0).values()) == {None}
    run.thread(10, 10, 400 * MS, 0)
    run.thread(20, 20, 500 * MS, 900 * MS)
    run.thread(10, 11, 250 * MS, 0, "pt_autograd_0")
    run.thread(10, 12, 500 * MS, 0, "pt_data_pin")
    run.thread(30, 30, 500 * MS, 50 * MS)
    run.thread(40, 40, 100 * MS, 200 * MS)
    assert sampled(source, 0.5) == {
        "processes.main_cpu": pytest.approx(180.0),
        "processes.autograd_cpu": pytest.approx(50.0),
        "processes.workers_delayed": pytest.approx(40.0),
    }


def test_autograd_threads_that_start_later_are_found(tmp_path: Path) -> None:
    run = Proc(tmp_path, *FOUR)
    source = run.threads()
    for now in (0.0, 0.5):
        assert sampled(source, now)["processes.autograd_cpu"] is None
    run.thread(20, 21, 0, 0, "pt_autograd_1")
    assert sampled(source, 10.0)["processes.autograd_cpu"] is None
    run.thread(20, 21, 100 * MS, 0, "pt_autograd_1")
    assert sampled(source, 11.0)["processes.autograd_cpu"] == pytest.approx(10.0)


def test_threads_that_end_or_whose_number_is_used_again_make_no_jump(tmp_path: Path) -> None:
    run = Proc(tmp_path, *FOUR)
    run.thread(10, 10, 700 * MS, 0)
    source = run.threads()
    source.sample(0.0)
    run.thread(10, 10, 0, 0)
    run.thread(20, 20, "cut", 0)
    (tmp_path / "30/task/30/schedstat").unlink()
    row = sampled(source, 1.0)
    assert row["processes.main_cpu"] is None
    assert row["processes.workers_delayed"] == 0.0


@pytest.mark.slow
@given(st.binary(), st.binary())
def test_any_file_is_read_as_a_thread_or_as_none(before: bytes, after: bytes) -> None:
    contents = {"/p/10/task/10/schedstat": before}
    with pytest.MonkeyPatch.context() as patched:
        module = "perftui.telemetry.contention"
        patched.setattr(f"{module}.record", lambda path: contents.get(path, b""))
        patched.setattr(f"{module}.why_unreadable", lambda _path: "")
        source = ThreadSource(lambda: Roles(frozenset([10])), "/p")
        source.sample(0.0)
        contents["/p/10/task/10/schedstat"] = after
        row = sampled(source, 1.0)
    assert row["processes.main_cpu"] is None or row["processes.main_cpu"] >= 0


@pytest.mark.slow
def test_the_main_thread_is_told_from_an_autograd_thread() -> None:
    """This process trains; its main thread computes for a while, then another that is named so."""
    source = ThreadSource(lambda: Roles(frozenset([os.getpid()])))
    assert names_of(source) == [column.name for column in THREAD_COLUMNS]
    ready, go, done = threading.Event(), threading.Event(), threading.Event()
    spent: list[float] = []

    def backward() -> None:
        task = threading.get_native_id()
        Path(f"/proc/self/task/{task}/comm").write_text("pt_autograd_0")
        ready.set()
        go.wait()
        began = time.thread_time()
        while time.thread_time() < began + 0.1:
            pass
        spent.append(time.thread_time() - began)
        done.set()
        finish.wait()

    finish = threading.Event()
    thread = threading.Thread(target=backward)
    thread.start()
    ready.wait()
    source.sample(10.0)
    before = time.thread_time()
    while time.thread_time() < before + 0.1:
        pass
    mine = time.thread_time() - before
    go.set()
    done.wait()
    row = sampled(source, 11.0)
    finish.set()
    thread.join()
    # The kernel brings the count of a running thread up to date with every tick.
    assert row["processes.main_cpu"] == pytest.approx(100 * mine, abs=3)
    assert row["processes.autograd_cpu"] == pytest.approx(100 * spent[0], abs=3)


@pytest.mark.subprocess
def test_two_busy_workers_on_one_core_wait_for_each_other() -> None:
    core = min(os.sched_getaffinity(0))
    with running(BUSY, BUSY) as pids:
        for pid in pids:
            os.sched_setaffinity(pid, {core})
        roles = Roles(workers=frozenset(pids))
        threads = ThreadSource(lambda: roles)
        usage = ProcessTreeSource(pids[0], lambda: roles, others=lambda: pids[1:])
        switches = [psutil.Process(pid).num_ctx_switches().involuntary for pid in pids]
        for source in (threads, usage):
            source.sample(0.0)
        began = time.monotonic()
        time.sleep(0.6)
        seconds = time.monotonic() - began
        delayed = sampled(threads, seconds)["processes.workers_delayed"]
        row = sampled(usage, seconds)
        after = [psutil.Process(pid).num_ctx_switches().involuntary for pid in pids]
    assert 25 <= delayed <= 100
    assert row["processes.worker_cpu_max"] < 80
    done = (sum(after) - sum(switches)) / seconds
    assert row["processes.workers_involuntary"] == pytest.approx(done, rel=0.3, abs=5)
    assert row["processes.workers_involuntary"] > 5
    assert row["processes.ranks_involuntary"] is None
