"""A run that goes on and on: what it writes and what reading it takes stay flat.

``python tests/benchmarks/bench_soak.py [STEPS]`` (default 1,000,000). Records of steps go through
the recorder's own journals as fast as they can be written; a second process reads along as a viewer
does. Each row is of twice as many steps as the one before.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from perftui.recorder.faults import FaultLog
from perftui.recorder.rank import RankJournals
from perftui.run.layout import RunLayout, create_run_directory
from perftui.run.manifest import Manifest, write_manifest
from perftui.run.ring import Record
from perftui.run.spool import Spool

VIEWER = """\
import sys, time
from pathlib import Path
import psutil
from perftui.diagnosis.evidence import gather
from perftui.run.reader import RunReader

reader = RunReader(Path(sys.argv[1]))
for line in sys.stdin:
    reader.poll()
    began = time.process_time()
    evidence = gather(reader.poll(), None)
    cost = 1000 * (time.process_time() - began)
    share = evidence.share
    memory = psutil.Process().memory_info().rss
    print(evidence.train_steps, share.mean if share else 0, cost, memory)
    sys.stdout.flush()
"""


def record(kind: str, start: int, duration: int, step: int, value: int = -1) -> Record:
    return Record(0, start, duration, value, 0, step, kind, 0)


def steps(first: int, count: int) -> list[Record]:
    records = []
    for step in range(first, first + count):
        start, duration = step * 2 * 10**6, 10**6 + step * 7919 % 10**5
        records.append(record("input_wait", start, 1000 + step % 13, step, 2))
        records.append(record("forward", start + 2000, 300_000, step))
        records.append(record("backward", start + 400_000, 300_000, step))
        records.append(record("step", start, duration, step, 1))
    return records


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        layout = create_run_directory(directory / "runs", "r")
        write_manifest(layout.manifest, Manifest("r", ("python", "t.py"), "/w", 5, "elsewhere"))
        soak(layout, directory, most)


def soak(layout: RunLayout, directory: Path, most: int) -> None:
    viewer = subprocess.Popen(
        [sys.executable, "-c", VIEWER, str(layout.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert viewer.stdin is not None
    assert viewer.stdout is not None
    journals = RankJournals(layout.rank(0), Spool(directory), FaultLog(directory / "log"))
    print("     steps   on disk  recorder  CPU a step    viewer  judging it  mean step")
    done, told, began = 0, most // 16, time.process_time()
    while done < most:
        journals.records(steps(done, 1000))
        done += 1000
        viewer_lags = done % 50_000 == 0
        if viewer_lags or done >= told:
            viewer.stdin.write("\n")
            viewer.stdin.flush()
            count, mean, cost, rss = viewer.stdout.readline().split()
        if done >= told:
            own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            step = 1e6 * (time.process_time() - began) / done
            print(
                f"{int(count):>10,} {size_of(layout.root) / 1e6:>6.1f} MB {own:>6.0f} MB "
                f"{step:>8.1f} us {int(rss) / 1e6:>6.0f} MB {float(cost):>8.0f} ms {mean:>7} ns"
            )
            told *= 2
    journals.finish()
    viewer.stdin.close()
    viewer.wait()


if __name__ == "__main__":
    main()
