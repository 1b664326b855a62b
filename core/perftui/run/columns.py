"""The columns of a rank's journals."""

from __future__ import annotations

from perftui.run.journal import Column

PHASES = ("input_wait", "loader_start", "forward", "backward", "optimizer", "profiler", "other")
"""The exclusive parts of a step, in the order they are drawn; they sum to the step exactly.

``input_wait``: the training thread is in the data loader's ``__next__``. ``loader_start``: it
creates the loader's iterator, and waits for the first batch of workers that were started for it.
``profiler``: perftui started, stopped or saved a window. ``other``: everything else the script does
between those.
"""

_PHASE_NAMES = {
    "input_wait": "data loader wait",
    "loader_start": "loader start",
    "profiler": "perftui",
}


def phase_name(phase: str) -> str:
    """How a person calls a phase of a run or of a trace; most are called as they are written."""
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
"""``device_...``: from when the GPU came to the phase until it had done its work, with the time in
between in which it had nothing to do. ``alloc_...``: since the step before of which they are known.
"""

STEP_TEXT = frozenset({"kind"})
"""Columns of text."""

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
compiled; null for what could not be read), ``window`` (file,
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
"""Rows are of what was done since the row before, so sums over rows are exact. A process that did
nothing writes no row: its next one stands for all the time. A batch that goes on counts with its
time so far. From ``watched`` on all is 0 where the kernel has no count; of the training itself it
is about all that it does."""
