"""What the kernel tells of a worker, and rows that hold only what it told."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from perftui.recorder.loader_workers import process_use

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
    assert use is not None
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
    assert after is not None
    assert after.cpu + after.others - before.cpu - before.others >= 30_000_000
