"""Begins the recording of a process: its ring, its notes and all that it records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ...wire.options import AgentOptions
from ...wire.spool import Spool
from ..gc_pauses.pauses import GcPauses
from ..gpu.device import Device
from ..output.notes import Notes
from ..output.ring import create_ring
from ..overhead.hook_cost import calibrate, inner_call_ns
from ..overhead.meter import Meter
from ..startup.process import process_facts
from ..startup.tracer import declare
from ..steps.machine import StepMachine
from ..windows.windows import Windows
from .recording import Recording


def start_recording(
    torch: Any,
    spool: Path,
    options: AgentOptions,
    notes: Notes,
    steps: StepMachine,
    meter: Meter,
    thread: int,
) -> Recording:
    """Create this process's ring and begin.

    Raises:
        OSError: the spool is full or gone.
    """
    declare(options.tracer)
    facts = process_facts(torch)
    header = {name: facts[name] for name in ("pid", "rank", "world_size")}
    ring = create_ring(Spool(spool).ring(os.getpid()), header)
    notes.begin(facts, ring.lose_notes)
    recording = Recording(ring, steps, meter, thread, options.max_steps)
    recording.windows = Windows(torch, spool, options, notes)
    recording.device = Device(torch, ring, meter)
    recording.pauses = GcPauses(thread)
    calibrate(meter)
    recording.inner_call_ns = inner_call_ns(torch.compiler.is_compiling)
    return recording
