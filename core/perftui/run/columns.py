"""The columns of a rank's journals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perftui.run.journal import Column

PHASES = ("input_wait", "loader_start", "forward", "backward", "optimizer", "profiler", "other")
"""The exclusive parts of a step, in the order they are drawn; they sum to the step exactly.

``input_wait``: the training thread is in the data loader's ``__next__``. ``loader_start``: it
creates the loader's iterator, and waits for the first batch of workers that were started for it.
``profiler``: perftui started, stopped or saved a window. ``other``: everything else the script does
between those."""

_PHASE_NAMES = {
    "input_wait": "data loader wait",
    "loader_start": "loader start",
    "profiler": "perftui",
}


def phase_name(phase: str) -> str:
    """Name of a phase of a run or of a trace for people; most have their own."""
    return _PHASE_NAMES.get(phase, phase)


STEP_COLUMNS = (
    Column("index", "count", "step"),
    Column("kind", "", "train, eval or infer"),
    Column("start", "ns", "start"),
    Column("duration", "ns", "duration"),
    *(Column(phase, "ns", phase_name(phase)) for phase in PHASES),
    Column("micro_batches", "count", "micro batches"),
    Column("profiled", "count", "1 if a window was open, and in the step after it"),
    Column("overhead", "ns", "estimated overhead of perftui inside the step"),
    Column("batches_ready", "count", "batches waiting in the loader's queue, -1 unknown"),
    Column("allocated", "B", "GPU memory allocated at the end of the step, -1 unknown"),
    Column("reserved", "B", "GPU memory reserved at the end of the step, -1 unknown"),
    Column("peak_allocated", "B", "peak GPU memory allocated so far, -1 unknown"),
    Column("input_cpu", "ns", "CPU time of the training thread while it fetched, -1 unknown"),
    Column("device_forward", "ns", "forward on the GPU, -1 unknown"),
    Column("device_backward", "ns", "backward on the GPU, -1 unknown"),
    Column("device_optimizer", "ns", "optimizer on the GPU, -1 unknown"),
    Column("alloc_retries", "count", "GPU allocation retries, -1 unknown"),
    Column("alloc_failures", "count", "GPU allocations that failed, -1 unknown"),
)
"""``device_...``: from when the GPU reached the phase until it had done its work, including idle
time in between. ``alloc_...``: since the last step with known values."""

EVENT_COLUMNS = (
    Column("time", "ns", "when"),
    Column("kind", "", "what"),
    Column("duration", "ns", "duration, 0 for an instant"),
    Column("step", "count", "the step it falls in, -1 before the first"),
    Column("data", "", "an object, by kind"),
)
"""Kinds: ``process`` (pid, rank, python, torch, devices), ``loader`` (configuration and call site
of a DataLoader, the pids of its workers), ``override`` (number: of the manifest's override, fix,
target, outcome: ``applied``, ``partly`` or ``refused``, why, file and line of the call, values in
force; none where no such call was reached), ``settings`` (once, how the training is set up:
threads, environment, matmul, cudnn, modes, autocast, gc, optimizers, wrappers, parameters,
compiled; null for what could not be read), ``look`` (now and then: tools that slow Python, counts
that may grow, ``subnormal`` of so many values), ``window`` (file,
first_step, steps, stall in ns, bytes, the reason it was opened, cuda: whether it should hold
kernels), ``gc`` (generation, and ``count`` where a row stands for several), ``follows`` (rank: of a
process that had ended, whose number this one has), ``memory_snapshot`` (file, reason: ``peak`` or
``out of memory``, peak in bytes, bytes of the file), ``nsys_range`` (first_step, steps, stall in
ns, the reason: steps that nsys recorded), ``warning`` (message), ``error`` (message)."""

MEMORY_SNAPSHOT = "memory_snapshot"
NSYS_RANGE = "nsys_range"

WORKER_COLUMNS = (
    Column("time", "ns", "when"),
    Column("loader", "count", "data loader, -1 unknown"),
    Column("worker", "count", "its worker, -1 for the training process"),
    Column("pid", "count", "process"),
    Column("elapsed", "ns", "time since this process's previous row"),
    Column("batches", "count", "batches made in that time"),
    Column("sized", "count", "batches of known size"),
    Column("bytes", "B", "their tensors and arrays"),
    Column("fetch", "ns", "time fetching from the dataset"),
    Column("collate", "ns", "time in the collate function"),
    Column("squares", "us2", "sum of the squared time of each batch"),
    Column("watched", "ns", "fetch and collate time while the following were known"),
    Column("cpu", "ns", "CPU time of the thread that makes batches"),
    Column("delayed", "ns", "time that thread waited for a core"),
    Column("others", "ns", "CPU time of the process's other threads"),
    Column("threads", "ns", "threads of the process, weighted by the time they existed"),
    Column("read", "B", "read from storage"),
    Column("asked", "B", "bytes read by system calls, from storage or page cache"),
    Column("reads", "count", "number of those calls"),
    Column("faults", "count", "pages read from storage (major faults)"),
)
"""Each row counts since the row before, so sums over rows are exact. An idle process writes no row:
its next one covers all the time. An unfinished batch counts with its time so far. From ``watched``
on all is 0 if the kernel has no counters; for the training itself it covers everything it does."""


STACK_COLUMNS = (
    Column("time", "ns", "first seen there"),
    Column("held", "ns", "until it was seen elsewhere"),
    Column("samples", "count", "times a stack was first seen there, at least 1"),
    Column("file", "", "source file of the user's code, empty if none was on the stack"),
    Column("line", "count", "its line, -1 if none"),
    Column("function", "", "the function of that line"),
    Column("inner", "", "innermost frame"),
    Column("every", "ns", "mean time between samples"),
    Column("stage", "", "the activity: one of STAGES, empty for anything else"),
    Column("via", "", "what that line called: file and function of the inner frame"),
)
"""A row is an interval in which every sample found one line and one innermost frame. Samples come
at random moments, so on average an interval covers its share of the time, but only its first moment
is certain."""

WORKER_STACK_COLUMNS = (
    *STACK_COLUMNS,
    Column("pid", "count", "process"),
    Column("loader", "count", "data loader"),
)
"""Stacks of data loader workers. One is sampled at a time, so their rows do not overlap."""

LOCK_COLUMNS = (
    *STACK_COLUMNS,
    Column("observed", "ns", "how long it was sampled"),
    Column("idle", "ns", "of that, the main thread neither ran nor waited for a core; or -1"),
)
"""Stacks of other threads than the main one while they held Python's lock. The rows of one turn
have the same ``observed`` and ``idle``; turns in which no other thread held it have no row."""

TEXT = frozenset({"kind", "data", "file", "function", "inner", "stage", "via"})
"""Columns of text, or of an object, in any journal but those of samples."""

FETCH, COLLATE, WAIT = "fetch", "collate", "wait"
"""Stages of a worker: making a batch in either, or waiting for the next task."""

FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"
COMPILE, SAVE, PROFILE = "compile", "save", "profile"
"""torch.compile at work, a checkpoint being written, a profiler of the script's own."""

STAGES = (FETCH, COLLATE, WAIT, FORWARD, BACKWARD, OPTIMIZER, COMPILE, SAVE, PROFILE)
"""Stages of a stack, a main thread's without ``wait``; runs recorded before December 2026 have the
first two."""

STACK_RATE = 10
"""What the command asks for by default. With 46 frames on the stack a sample took
py-spy 0.3 ms of a core, so all of them 0.4 % of one, beside the training; a loop of 1 ms took 0.99
times as long with them as without (0.96 to 1.01 in eight turns)."""

INNER_EVERY = 5_000_000
"""Mean ns between samples from inside the process, in a window."""

STACK_RATE_KEY = "stack_rate"
"""Key in the manifest's ``profile``: requested samples per second."""

ASKED = "asked"
"""Key in the manifest's ``profile``: names of what viewers asked windows to record besides."""

NO_STACKS = "no_stacks"
"""Key in the manifest's ``profile``: why there are no stack samples, in words."""


def stack_rate_of(profile: Mapping[str, Any]) -> int:
    """Requested samples per second in the ``profile`` of a manifest, 0 if missing."""
    # Runs recorded before November 2026 name it "looks".
    rate = profile.get(STACK_RATE_KEY, profile.get("looks", 0))
    return rate if isinstance(rate, int) and rate > 0 else 0
