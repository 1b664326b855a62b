"""Facts: figures of a run or a trace, computed when first requested, and the evidence they need."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from perftui.facts.place import Place, SourceLine
from perftui.facts.question import Question
from perftui.run.reader import RankSnapshot, RunSnapshot
from perftui.run.table import Table

if TYPE_CHECKING:
    # A run that is not judged yet has no analysis.
    from perftui.analysis.model import TraceAnalysis


T = TypeVar("T")

RankPaths = tuple[tuple[int, Path], ...]
"""Each rank with the path of its trace."""


class UnknownError(Exception):
    """The evidence for a fact is missing; the message names what, for a person.

    A ``Question`` in place of the message is about evidence that the next window can record."""

    @property
    def question(self) -> Question | None:
        """What to record, if that would let the fact be known."""
        return self.args[0] if isinstance(self.args[0], Question) else None

    def __str__(self) -> str:
        return self.question.lack if self.question else super().__str__()


class NotApplicableError(Exception):
    """The subject of the fact does not exist, such as the GPU of a training that uses none."""


class Facts:
    """The evidence about one rank of a run, a trace, or a run and its newest window.

    ``run`` or ``analysis`` may be None. Both are immutable, and so is every fact. Any thread may
    ask; if two ask at once, a fact may be computed twice."""

    def __init__(
        self,
        run: RunSnapshot | None,
        analysis: TraceAnalysis | None = None,
        rank_number: int = 0,
        beside: RankPaths = (),
    ) -> None:
        self.run = run
        self.analysis = analysis
        self.beside = beside
        """Traces of all ranks of a directory, including that of ``analysis``; read only if a fact
        asks for them. Empty unless a directory was opened."""
        self.manifest = run.manifest if run else None
        """What was started; None for a trace without a run."""
        self.rank: RankSnapshot | None = run.rank(rank_number) if run else None
        """The rank of that number, or the first rank with data; None until a rank has data."""
        self.rank_number = self.rank.rank if self.rank else None
        """The number of ``rank``; None without a rank."""
        self.steps = self.rank.steps if self.rank else Table()
        """The rank's steps, by ``STEP_COLUMNS``; no columns before the first."""
        self.events = self.rank.events if self.rank else Table()
        """The rank's events, by ``EVENT_COLUMNS``; no columns before the first event."""
        self.worked_out: dict[object, object] = {}
        # Not itself: a cycle would keep a trace of hundreds of megabytes until collected.
        self._chosen = rank_number
        self._of_ranks: dict[int, Facts] = {}

    def at(self, line: SourceLine, operator: str | None = None) -> Place:
        """The place of this rank at ``line``, of a finding about ``operator``."""
        return Place(self.rank_number, operator=operator, file=line.file, line=line.line)

    def of_rank(self, number: int) -> Facts:
        """Facts of a rank of the run; other ranks than this one come without a trace."""
        if number == self._chosen:
            return self
        if number not in self._of_ranks:
            self._of_ranks[number] = Facts(self.run, None, number)
        return self._of_ranks[number]


class Fact(Generic[T]):
    """A figure of a run with or without a trace; called with ``Facts``, it returns the value."""

    def __init__(self, compute: Callable[[Facts], T]) -> None:
        self._compute = compute
        update_wrapper(self, compute)

    def __call__(self, facts: Facts) -> T:
        """The value.

        Raises:
            UnknownError: the evidence is missing; the message names what.
            NotApplicableError: the subject of the fact does not exist.
        """
        return cached(self, facts.worked_out, lambda: self._compute(facts))

    def or_none(self, facts: Facts) -> T | None:
        """The value, or None if it is unknown or not applicable."""
        try:
            return self(facts)
        except (UnknownError, NotApplicableError):
            return None


class TraceFact(Fact[T]):
    """A figure of a trace alone.

    It is cached with the trace: a run is reread several times a second, its newest window is not.
    """

    def __init__(self, compute: Callable[[TraceAnalysis], T]) -> None:
        self._compute_of_trace = compute
        super().__init__(self.__call__)
        update_wrapper(self, compute)

    def __call__(self, facts: Facts | TraceAnalysis) -> T:
        """The value for a trace, or for a run's newest window; raises as any fact does."""
        analysis = facts.analysis if isinstance(facts, Facts) else facts
        if analysis is None:
            raise UnknownError("no window has been profiled")
        return cached(self, analysis.worked_out, lambda: self._compute_of_trace(analysis))


def cached(key: object, worked_out: dict[object, object], compute: Callable[[], T]) -> T:
    """The value kept under ``key``, which stands for all that it is computed from; computed on
    first use. Errors of missing evidence are kept and raised again."""
    if key not in worked_out:
        try:
            worked_out[key] = compute()
        except (UnknownError, NotApplicableError) as error:
            # The traceback would keep every local of the failed computation alive.
            worked_out[key] = error.with_traceback(None)
    value = worked_out[key]
    if isinstance(value, (UnknownError, NotApplicableError)):
        raise type(value)(*value.args)
    return value  # type: ignore[return-value] # kept under the key of what made it


fact = Fact
"""Makes a fact of a rank of a run, with or without its newest window."""

trace_fact = TraceFact
"""Makes a fact of a trace alone."""


def host_of(facts: Facts) -> str:
    """The rank's host, else the host that started the run; empty for a trace."""
    if facts.run is None:
        return ""
    return (facts.rank.host if facts.rank else "") or facts.run.manifest.host


def samples(facts: Facts) -> Table:
    """Telemetry of the rank's host; without columns if none was recorded."""
    return facts.run.telemetry.get(host_of(facts), Table()) if facts.run else Table()


def finite(table: Table, column: str) -> npt.NDArray[np.float64]:
    """The finite values of ``column``; empty if there is no such column."""
    if column not in table:
        return np.zeros(0)
    values = np.asarray(table[column], dtype=np.float64)
    return values[np.isfinite(values)]


def noted_of_host(facts: Facts, name: str) -> object:
    """What the run noted about the rank's host as ``name``, one of ``BY_HOST``; None if nothing."""
    noted = facts.manifest.profile.get(name) if facts.manifest else None
    return noted.get(host_of(facts)) if isinstance(noted, dict) else None


def events_of(events: Table, kind: str) -> Table:
    """The rows of that kind; an empty table if there are none."""
    if "kind" not in events or not len(events):
        return Table()
    return events.where(events["kind"] == kind)


def notes_of(events: Table, kind: str) -> list[dict[str, Any]]:
    """The data of all ``events`` of that kind."""
    rows = events_of(events, kind)
    return [data for data in rows["data"] if isinstance(data, dict)] if len(rows) else []
