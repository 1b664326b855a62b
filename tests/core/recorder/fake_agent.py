"""Stands for an agent: writes a ring, notes and a window by the documented layout, no more.

``python fake_agent.py STEPS [SECONDS_BETWEEN]``; RANK and WORLD_SIZE as a launcher sets them.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import time
from pathlib import Path

KINDS = ("step", "input_wait", "forward", "backward", "optimizer", "gc", "memory")
SLOT = struct.Struct("<QqqqqIBBxx")
CAPACITY = 4096
SPOOL = Path(os.environ["PERFTUI_SPOOL"])
PID = os.getpid()


def open_ring() -> mmap.mmap:
    header = {
        "version": 1,
        "record": SLOT.format,
        "capacity": CAPACITY,
        "data_offset": 4096,
        "head_offset": 4088,
        "kinds": {kind: number for number, kind in enumerate(KINDS)},
        "pid": PID,
        "rank": int(os.environ.get("RANK", "0")),
        "world_size": int(os.environ.get("WORLD_SIZE", "1")),
        "wall_ns": time.time_ns(),
        "monotonic_ns": time.perf_counter_ns(),
    }
    new = SPOOL / f"new-ring-{PID}"
    new.write_bytes(json.dumps(header).encode().ljust(4096, b"\0") + bytes(CAPACITY * SLOT.size))
    with new.rename(SPOOL / f"ring-{PID}").open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)


def note(kind: str, step: int, **data: object) -> None:
    line = {"time": time.time_ns(), "kind": kind, "duration": 0, "step": step, "data": data}
    with (SPOOL / f"notes-{PID}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def main() -> None:
    steps = int(sys.argv[1])
    pause = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    ring = open_ring()
    count = 0

    def write(kind: str, start: int, duration: int, step: int, value: int = 0) -> None:
        nonlocal count
        number = KINDS.index(kind)
        slot = 4096 + count % CAPACITY * SLOT.size
        SLOT.pack_into(ring, slot, count, start, duration, value, 0, step, number, 0)
        count += 1
        struct.pack_into("<Q", ring, 4088, count)

    note("process", -1, pid=PID, rank=0, python="3.9.1", torch="9.9.9", devices=["FAKE 100"])
    start = time.perf_counter_ns()
    for step in range(steps):
        write("input_wait", start, 100, step, value=2)
        write("forward", start + 100, 300, step)
        write("backward", start + 400, 400, step)
        if step % 10 == 0:
            write("gc", start + 500, 50, step, value=2)
        write("optimizer", start + 800, 150, step)
        write("step", start, 1000, step, value=1)
        start += 1000
        time.sleep(pause)
    name = f"window-{PID}-0.json"
    (SPOOL / name).write_text('{"traceEvents": []}')
    note("window", 3, file=name, first_step=3, steps=2, events=0, stall=5)
    print("captures", struct.unpack_from("<Q", (SPOOL / "control").read_bytes())[0])


main()
