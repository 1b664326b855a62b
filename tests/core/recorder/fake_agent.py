"""Stands for an agent: writes a ring, notes and a window, and watches nothing.

``python fake_agent.py STEPS [SECONDS_BETWEEN]``; RANK and WORLD_SIZE as a launcher sets them."""

import os
import struct
import sys
import time
from pathlib import Path

from perftui.agent.recording.output import Notes, create_ring
from perftui.wire.ring import KINDS
from perftui.wire.spool import Spool

SPOOL = Spool(Path(os.environ["PERFTUI_SPOOL"]))
PID = os.getpid()


def main() -> None:
    steps = int(sys.argv[1])
    pause = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    ring = create_ring(SPOOL.ring(PID), {"pid": PID, "rank": rank, "world_size": world}, 4096)
    notes = Notes(SPOOL.root)

    def write(kind: str, start: int, duration: int, step: int, value: int = 0) -> None:
        ring.write(KINDS.index(kind), start, duration, step, value)

    facts = {"pid": PID, "rank": 0, "python": "3.9.1", "torch": "9.9.9", "devices": ["FAKE 100"]}
    notes.write("process", facts)
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
    (SPOOL.root / name).write_text('{"traceEvents": []}')
    notes.write("window", {"file": name, "first_step": 3, "steps": 2, "events": 0, "stall": 5}, 3)
    print("captures", struct.unpack_from("<Q", SPOOL.control.read_bytes())[0])


main()
