"""A run of a week: what it writes and what recording and reading it take stay flat.

``python tests/verify/benchmarks/bench_soak.py [STEPS]`` (default 1,000,000). An agent's ring, the
recorder and its journals are the real ones, fed as fast as they take it; a second process reads
along as a viewer does. Each row is of twice as many steps as the one before.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from week import EPOCH, SECONDS, Week, size_of

VIEWER = """\
import sys, time
from pathlib import Path
import psutil
from perftui.facts.fact import Facts
from perftui.facts.cpu.machine import machine_use
from perftui.facts.source.lines import main_thread
from perftui.facts.step.steps import step_breakdown, step_count
from perftui.facts.data_loader.batch_place import loader_lines
from perftui.run.reader import RunReader

reader = RunReader(Path(sys.argv[1]))
for line in sys.stdin:
    reader.poll()
    began = time.process_time()
    facts = Facts(reader.poll())
    share = step_breakdown(facts)
    loader_lines(facts), main_thread(facts), machine_use(facts)
    cost = 1000 * (time.process_time() - began)
    memory = psutil.Process().memory_info().rss
    print(step_count(facts), share.mean if share else 0, cost, memory)
    sys.stdout.flush()
"""

TITLE = "days       steps   on disk    spool  recorder  CPU a step    viewer  judging it  mean step"


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as temporary:
        soak(Week(Path(temporary), most), most)


def soak(week: Week, most: int) -> None:
    viewer = subprocess.Popen(
        [sys.executable, "-c", VIEWER, str(week.layout.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert viewer.stdin is not None
    assert viewer.stdout is not None
    print(TITLE)
    told, began = most // 16, time.process_time()
    while week.step < most:
        week.go_on(min(EPOCH * 50, most - week.step))
        viewer.stdin.write("\n")
        viewer.stdin.flush()
        count, mean, cost, rss = viewer.stdout.readline().split()
        if week.step >= told:
            cpu = 1e6 * (time.process_time() - began) / week.step
            print(
                f"{7 * week.step / most:>4.1f} {int(count):>11,} "
                f"{size_of(week.layout.root) / 1e6:>6.1f} MB "
                f"{size_of(week.spool.root) / 1e6:>5.1f} MB "
                f"{psutil.Process().memory_info().rss / 1e6:>6.0f} MB {cpu:>8.1f} us "
                f"{int(rss) / 1e6:>6.0f} MB {float(cost):>8.0f} ms {mean:>7} ns"
            )
            told *= 2
    week.finish()
    viewer.stdin.close()
    viewer.wait()
    print(f"{week.sampled:,} samples of {SECONDS:,}; faults: {week.log.read_text() or 'none'}")


if __name__ == "__main__":
    main()
