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
    """What one device did; ``busy`` is the union over its streams, never a sum of overlaps."""

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
    """Last end."""
    busy: int
    unlinked: int
    """GPU events whose launch is not in the file."""

    @property
    def span(self) -> int:
        """From the first start to the last end."""
        return self.end - self.start

    @property
    def idle(self) -> int:
        """Span without any activity."""
        return self.span - self.busy


@dataclass(frozen=True, eq=False)
class OpTable:
    """CPU operators grouped by name; every column as long as ``names``.

    ``total`` counts recursion once, ``self`` leaves children out; the self times of one thread sum
    to the time that thread spent in operators. Device time is that of the activity an operator (or,
    for the total, anything it called) launched.
    """

    names: tuple[str, ...]
    calls: Int64
    cpu_total: Int64
    cpu_self: Int64
    device_total: Int64
    device_self: Int64
    first_row: Int64
    """A trace row of each, the longest one, to jump to."""

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
    """A trace row of each, the longest one, to jump to."""
    streams: tuple[tuple[tuple[int, int], ...], ...]
    """Device and stream that each ran on, in order."""

    @cached_property
    def short_names(self) -> tuple[str, ...]:
        """The names as they are shown: short, and none like that of another kernel."""
        found = short_names(self.names)
        return tuple(found[name] for name in self.names)

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
    """The thread made its way to the next launch, through operators and calls that enqueue."""
    PYTHON = "python"
    CPU_OPERATORS = "cpu operators"
    """The thread computed in an operator, which launched nothing meanwhile."""
    ALLOCATION = "allocation"
    COMPILATION = "compilation"
    INITIALISATION = "initialisation"
    """The driver or a library loaded code or set itself up: what is paid at first use."""
    QUEUED = "queue wait"
    """The work was launched already: it waited for older work, or for work of another device."""
    PROFILER = "profiler"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Gap:
    """An interval in which a device is idle."""

    device: int
    start: int
    end: int
    previous_row: int
    """The activity before it, NONE before the first."""
    next_row: int
    """The activity behind it, NONE behind the last."""
    cause: GapCause
    launch_row: int
    """The runtime call that launched ``next_row``, NONE where it is not in the file."""
    operator_row: int
    """Innermost operator or annotation on the launching thread over most of the gap, or NONE."""
    phase: str = ""
    """``forward``, ``backward``, ``optimizer``, ``input_wait``... where marks are in the file."""
    wait_row: int = NONE
    """Where synchronisation is the cause: the operator, or call, in which the host waited."""

    @property
    def duration(self) -> int:
        """How long the device idled."""
        return self.end - self.start


@dataclass(frozen=True)
class IdleTime:
    """Idle time of one device that has one cause, in all gaps, however short: a gap of several
    causes counts for each with its part."""

    device: int
    cause: GapCause
    total: int


@dataclass(frozen=True)
class Step:
    """One training step, as marked in the trace or derived from its optimizer."""

    index: int
    start: int
    end: int
    row: int

    @property
    def duration(self) -> int:
        """Wall time of the step."""
        return self.end - self.start


@dataclass(frozen=True)
class StepParts:
    """Where one step's wall time went: exclusive parts, in drawing order, that sum to the step.

    With a GPU: ``gpu compute``, ``exposed communication``, ``exposed copies``, then idle by
    ``GapCause``. Without: ``input_wait``, ``forward``, ``backward``, ``optimizer`` as far as the
    file marks them, ``operators`` for those in no marked phase, ``other``.
    """

    step: Step
    """On the device's clock, where a device is judged: ``TraceAnalysis.steps`` has it as marked."""
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, eq=False)
class TraceAnalysis:
    """All tables of one trace."""

    trace: Trace
    steps: tuple[Step, ...]
    """Steps in order; of several ranks put together one rank's behind the other's."""
    activity: tuple[DeviceActivity, ...] = ()
    ops: OpTable = field(default_factory=OpTable.empty)
    kernels: KernelTable = field(default_factory=KernelTable.empty)
    gaps: tuple[Gap, ...] = ()
    """Longest first."""
    idle: tuple[IdleTime, ...] = ()
    """What there is of each cause; of one device they sum to all of its idle time."""
    step_parts: tuple[StepParts, ...] = ()
    """One for each step, or one over the whole trace if it has no known steps (index -1)."""
    notes: tuple[str, ...] = ()
    """What the trace cannot show: ``no GPU activity recorded``, ``no steps marked``..."""
    modules: OpTable = field(default_factory=OpTable.empty)
    """Operators grouped by module, last those in none; empty where no module is marked."""
    timeline_tracks: tuple[TimelineTrack, ...] = ()
    """Where they are known already; else ``timeline.tracks.timeline_tracks`` makes them."""

    worked_out: dict[object, object] = field(default_factory=dict, init=False, repr=False)
    """Facts of the trace that somebody has asked for; never stored with it."""

    def steps_of(self, rank: int) -> tuple[Step, ...]:
        """The steps of one of several ranks; all where there is only one (NONE)."""
        if rank == NONE:
            return self.steps
        tracks, of_row = self.trace.tracks, self.trace.track
        return tuple(step for step in self.steps if tracks[int(of_row[step.row])].rank == rank)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks that were put together, in order; empty where there is only one."""
        return tuple(sorted({track.rank for track in self.trace.tracks} - {NONE}))

    @property
    def has_tables(self) -> bool:
        """Whether the trace has been analysed, or can only be drawn yet."""
        return bool(self.step_parts)

    @property
    def has_gpu(self) -> bool:
        """Whether any device activity was recorded."""
        return bool(self.activity)
