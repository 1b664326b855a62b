"""Made-up /proc and /sys trees, and samples by name."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BUSY = "while True: pass"
ASLEEP = "import time; time.sleep(60)"


def sampled(source: Any, now: float) -> dict[str, Any]:
    """The values of ``source`` by the names of its columns."""
    names = [column.name for column in source.columns]
    return dict(zip(names, source.sample(now), strict=True))


def names_of(source: Any) -> list[str]:
    return [column.name for column in source.columns]


def write(root: Path, files: dict[str, str | bytes | int]) -> str:
    """Write ``files`` by their path below ``root``, and return ``root`` as text."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    return str(root)


def stat_line(
    pid: int, *, name: str = "python", state: str = "S", started: int = 7, **counts: int
) -> str:
    """A line of ``/proc/<pid>/stat``; ``counts`` are those that are not 0."""
    places = {"faults": 9, "user": 11, "system": 12, "threads": 17, "started": 19, "pages": 21}
    places["minor"] = 7
    fields = ["0"] * 49
    for key, value in {**counts, "started": started}.items():
        fields[places[key]] = str(value)
    fields[0], fields[5] = state, "-1"
    return f"{pid} ({name}) {' '.join(fields)}\n"


@contextmanager
def running(*sources: str) -> Iterator[list[int]]:
    """The pids of Python processes that run ``sources`` meanwhile."""
    processes = [subprocess.Popen([sys.executable, "-S", "-c", source]) for source in sources]
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
