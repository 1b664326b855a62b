"""The format of the ring, a memory-mapped file that hands the agent's intervals to the recorder.

Layout: a header page of JSON, NUL-padded to ``PAGE`` bytes; at ``HEAD_OFFSET`` inside it the number
of records ever written as a little-endian unsigned 64-bit integer, stored after each record, and at
``LOST_NOTES_OFFSET`` the number of the agent's notes that could not be written; from ``PAGE`` on,
slots of ``RECORD``. Record number n (from 0) is in slot ``n % capacity`` and holds n in its first
field, so that a slot overwritten during the copy shows. The agent declares it for C in
``native/fast_path.c``.
"""

from __future__ import annotations

import struct

VERSION = 1

RECORD = struct.Struct("<QqqqqIBBxx")
"""sequence, start (monotonic ns), duration (ns), value, extra, step, kind, flag."""

HEAD = struct.Struct("<Q")

PAGE = 4096
"""Bytes within which the JSON of the header ends."""

HEAD_OFFSET = PAGE - HEAD.size
LOST_NOTES_OFFSET = HEAD_OFFSET - HEAD.size

PROFILED_FLAG, EVAL_FLAG, INFER_FLAG, DEVICE_FLAG = 1, 2, 4, 8
"""Bits of ``flag`` in a ``step`` record; without EVAL and INFER it is a training step. DEVICE: its
``device_phases`` will come, unless the process ends or the GPU falls far behind."""

KINDS = (
    "step",
    "input_wait",
    "loader_start",
    "forward",
    "backward",
    "optimizer",
    "profiler",
    "gc",
    "memory",
    "memory_peak",
    "input_cpu",
    "device_phases",
    "memory_trouble",
)
"""Kinds of records, written when the interval has finished, on the thread that trains.

``step``: ``value`` micro batches, ``extra`` the agent's own cost in ns, ``step`` its index.
``input_wait``: ``value`` batches that were ready when the wait began, or -1. ``gc``: ``value`` the
generation. ``memory``, ``memory_peak``: instants at the end of the step whose index ``step`` is,
before or after its own record; ``value`` allocated (or highest allocated) bytes, ``extra`` of
``memory`` reserved bytes.
``input_cpu``: an instant, ``value`` the CPU time in ns that the thread used in an ``input_wait``
that has just finished, written only where the thread fetches the batch itself.
``device_phases``: of the step whose index ``step`` is, written after its own record, in the order
of the steps: ``duration`` the ns that its forward took on the GPU, ``value`` its backward,
``extra`` its optimizer. ``memory_trouble``: an instant beside ``memory`` of the same step;
``value`` the allocations that were tried again since the last ``memory``, ``extra`` those that
failed; without it there were none. The others carry nothing more. Intervals may lie inside one
another; the reader makes them exclusive.
"""

STEP, INPUT_WAIT, LOADER_START, FORWARD, BACKWARD, OPTIMIZER = range(6)
PROFILER, GC, MEMORY, MEMORY_PEAK, INPUT_CPU = range(6, 11)
DEVICE_PHASES, MEMORY_TROUBLE = range(11, 13)
