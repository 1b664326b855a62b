"""Who else uses the cores, and how long threads of the training wait for one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from perftui.telemetry.contention import ContentionSource
from perftui.telemetry.processes import Roles

SECOND = 1_000_000_000


class Proc:
    """A made-up ``/proc``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "self").mkdir()
        (root / "self" / "schedstat").touch()

    def process(self, pid: int, name: str, ticks: int, parent: int = 1, *words: str) -> None:
        place = self.root / str(pid)
        place.mkdir(exist_ok=True)
        fields = ["R", parent, *[0] * 9, ticks, 0, 0, 0]
        (place / "stat").write_text(f"{pid} ({name}) " + " ".join(map(str, fields)))
        (place / "cmdline").write_text("\0".join([name, *words]) + "\0")

    def thread(self, pid: int, task: int, delay: int) -> None:
        place = self.root / str(pid) / "task" / str(task)
        place.mkdir(parents=True, exist_ok=True)
        (place / "schedstat").write_text(f"1 {delay} 1\n")


def test_the_thread_that_waited_the_longest_counts(tmp_path: Path) -> None:
    proc, roles = Proc(tmp_path), Roles(ranks=frozenset({7}))
    source = ContentionSource(lambda: roles, lambda: frozenset({7}), str(tmp_path))
    proc.thread(7, 7, 5 * SECOND)
    proc.thread(7, 8, 0)
    assert source.sample(100) == [None, None]
    proc.thread(7, 7, 6 * SECOND)
    proc.thread(7, 8, 2 * SECOND)
    proc.thread(7, 9, 9 * SECOND)
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


def test_a_kernel_without_schedstat_has_no_column(tmp_path: Path) -> None:
    source = ContentionSource(Roles, frozenset, str(tmp_path))
    assert source.columns == ()
    assert source.sample(0.0) == []
    why = "schedstat: No such file or directory"
    assert source.missing == {"processes.delayed": why, "processes.perftui_cpu": why}
