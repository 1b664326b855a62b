"""Tables that analysis makes from a trace. All times are integer nanoseconds."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from perftui.analysis.kernels.names import short_names
from perftui.analysis.timeline.track import TimelineTrack
from perftui.trace.model import NONE, Int64, Trace


@dataclass(frozen=True)
class DeviceActivity:
    """Activity of one device; times in nanoseconds, ``busy`` is the union over its streams, never a
    sum of overlaps."""

    device: int
    name: str
    kernel_count: int
    kernel_sum: int
    memcpy_count: int
    memcpy_sum: int
    memset_count: int
    memset_sum: int
    start: int
    """First start of a kernel, copy or set."""
    end: int
    """Last end of a kernel, copy or set."""
    busy: int
    unlinked: int
    """GPU events whose launch is not in the file."""

    idle: int = field(init=False)
    """Time within ``span`` without any activity."""
    span: int = field(init=False)
    """From the first start to the last end."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "span", self.end - self.start)
        object.__setattr__(self, "idle", self.span - self.busy)


@dataclass(frozen=True, eq=False)
class OpTable:
    """CPU operators grouped by name; every column as long as ``names``.

    ``total`` counts recursion once, ``self`` excludes children; the self times of one thread sum to
    its time in operators. Device time is that of the activity launched by an operator (for the
    total, also by anything it called).
    """

    names: tuple[str, ...]
    calls: Int64
    cpu_total: Int64
    cpu_self: Int64
    device_total: Int64
    device_self: Int64
    first_row: Int64
    """Trace row of the longest call of each, to jump to."""

    @classmethod
    def empty(cls) -> OpTable:
        """A table without rows."""
        return cls((), *(np.zeros(0, dtype=np.int64) for _ in range(6)))

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class KernelTable:
    """Device activity grouped by name; every column as long as ``names``."""

    names: tuple[str, ...]
    categories: tuple[str, ...]
    """``kernel``, ``gpu_memcpy`` or ``gpu_memset``."""
    calls: Int64
    total: Int64
    shortest: Int64
    median: Int64
    """The lower one of two in the middle."""
    longest: Int64
    first_row: Int64
    """Trace row of the longest call of each, to jump to."""
    streams: tuple[tuple[tuple[int, int], ...], ...]
    """Device and stream of each one's calls, in order."""

    @cached_property
    def short_names(self) -> tuple[str, ...]:
        """The names as shown: short, and unique among kernels."""
        short = short_names(self.names)
        return tuple(short[name] for name in self.names)

    @classmethod
    def empty(cls) -> KernelTable:
        """A table without rows."""
        none = np.zeros(0, dtype=np.int64)
        return cls((), (), none, none, none, none, none, none, ())

    def __len__(self) -> int:
        return len(self.names)


class GapCause(str, enum.Enum):
    """Why a device was idle: what the launching thread did meanwhile."""

    INPUT_WAIT = "data loader wait"
    SYNCHRONISATION = "synchronisation"
    LAUNCH = "launch-bound"
    """The thread was on its way to the next launch, in operators and enqueuing calls."""
    PYTHON = "python"
    CPU_OPERATORS = "cpu operators"
    """The thread computed in an operator that launched nothing meanwhile."""
    ALLOCATION = "allocation"
    COMPILATION = "compilation"
    INITIALISATION = "initialisation"
    """The driver or a library loaded code or set itself up, as at first use."""
    QUEUED = "queue wait"
    """The work was already launched: it waited for older work, or for another device."""
    PROFILER = "profiler"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Gap:
    """An interval in which a device is idle."""

    device: int
    start: int
    end: int
    previous_row: int
    """The activity before it; NONE before the first."""
    next_row: int
    """The activity after it; NONE after the last."""
    cause: GapCause
    launch_row: int
    """The runtime call that launched ``next_row``; NONE if not in the file."""
    operator_row: int
    """Innermost operator or annotation on the launching thread for most of the gap, or NONE."""
    phase: str = ""
    """``forward``, ``backward``, ``optimizer``, ``input_wait``... if the file marks phases."""
    wait_row: int = NONE
    """For synchronisation, the operator or call in which the host waited."""

    @property
    def duration(self) -> int:
        """Idle time, ns."""
        return self.end - self.start


@dataclass(frozen=True)
class IdleTime:
    """Idle time of one device by one cause, in all gaps, however short: a gap of several causes
    counts for each with its part."""

    device: int
    cause: GapCause
    total: int


@dataclass(frozen=True)
class Step:
    """A training step, as marked in the trace or derived from its optimizer."""

    index: int
    start: int
    end: int
    row: int

    @property
    def duration(self) -> int:
        """Wall time of the step, ns."""
        return self.end - self.start


@dataclass(frozen=True)
class StepParts:
    """Where one step's wall time went: exclusive parts, in drawing order, that sum to the step.

    With a GPU: ``gpu compute``, ``exposed communication``, ``exposed copies``, then idle by
    ``GapCause``. Without: ``input_wait``, ``forward``, ``backward``, ``optimizer`` as far as the
    file marks them, ``operators`` for those in no marked phase, ``other``.
    """

    step: Step
    """On the judged device's clock, if any: ``TraceAnalysis.steps`` has it as marked."""
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, eq=False)
class TraceAnalysis:
    """All tables of one trace."""

    trace: Trace
    steps: tuple[Step, ...]
    """Steps in order; for merged ranks, rank by rank."""
    activity: tuple[DeviceActivity, ...] = ()
    ops: OpTable = field(default_factory=OpTable.empty)
    kernels: KernelTable = field(default_factory=KernelTable.empty)
    gaps: tuple[Gap, ...] = ()
    """Longest first."""
    idle: tuple[IdleTime, ...] = ()
    """Idle time by cause; for each device it sums to all of its idle time."""
    step_parts: tuple[StepParts, ...] = ()
    """An entry for each step, or one for the whole trace if steps are unknown (index -1)."""
    notes: tuple[str, ...] = ()
    """What the trace cannot show: ``no GPU activity recorded``, ``no steps marked``..."""
    modules: OpTable = field(default_factory=OpTable.empty)
    """Operators grouped by module, last those outside modules; empty if no module is marked."""
    timeline_tracks: tuple[TimelineTrack, ...] = ()
    """Precomputed tracks; if empty, ``timeline.tracks.timeline_tracks`` makes them."""

    worked_out: dict[object, object] = field(default_factory=dict, init=False, repr=False)
    """Cached facts of the trace; never stored with it."""

    def steps_of(self, rank: int) -> tuple[Step, ...]:
        """The steps of one of several ranks; all steps with a single rank (NONE)."""
        if rank == NONE:
            return self.steps
        tracks, of_row = self.trace.tracks, self.trace.track
        return tuple(step for step in self.steps if tracks[int(of_row[step.row])].rank == rank)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Merged ranks, in order; empty with a single rank."""
        return tuple(sorted({track.rank for track in self.trace.tracks} - {NONE}))

    @property
    def has_tables(self) -> bool:
        """Whether the trace has been analysed, or can only be drawn so far."""
        return bool(self.step_parts)

    @property
    def has_gpu(self) -> bool:
        """Whether any device activity was recorded."""
        return bool(self.activity)
