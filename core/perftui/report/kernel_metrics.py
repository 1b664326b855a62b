"""What limits each kernel: of a report of ncu, or of a trace that such a report is joined to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perftui import format as fmt
from perftui.analysis.kernels.metrics import Figures, MeasuredKernel, join_kernels, measured_kernels
from perftui.analysis.kernels.names import short_names
from perftui.analysis.model import KernelTable
from perftui.report.output_text import joined, listed, printable
from perftui.trace.ncu import KernelMetrics

MOST_KERNELS = 40
"""Kernels of a report that are listed."""

MOST_JOINED = 10
"""Kernels of a trace that are listed, as in the trace's own report."""

UNLIKE = 2.0
"""From this ratio of durations on, either way, ncu's launches were not much like those of the
trace. Chosen: fixed clocks and cold caches, as ncu has them, explain less."""


_WIDTH = 78
_MOST_UNMATCHED = 10

LEGEND = (
    "compute and memory: share of the peak throughput",
    "occupancy: share of the warps that fit; -: ncu did not measure it",
)
_COLUMNS = f"{'compute':>8} {'memory':>8} {'occupancy':>9}"


@dataclass(frozen=True)
class MeasuredRow:
    """A kernel in an ncu report."""

    name: str
    total_ns: int | None
    """ns of all launches under ncu; None where it did not measure each of them."""
    figures: Figures


@dataclass(frozen=True)
class TraceRow:
    """A kernel of a trace, times as the trace has them."""

    name: str
    calls: int
    total_ns: int
    figures: Figures | None
    """What ncu measured of the kernel; None where it did not."""
    ratio: float | None
    """Mean duration under ncu over that in the trace."""


@dataclass(frozen=True)
class MetricsReport:
    """A report of ncu by kernel, longest first."""

    path: Path
    launches: int
    kernels: int
    """Kernels in all."""
    rows: tuple[MeasuredRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class TraceMetrics:
    """The kernels of a trace, longest first, with their ncu metrics."""

    path: Path
    """Path of ncu's report."""
    rows: tuple[TraceRow, ...]
    unmatched: tuple[str, ...]
    """Kernels that ncu measured and the trace does not hold, or not under one name."""
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """What the rows are, and where they come from; not yet safe to show."""
        return f"What limits the kernels, longest first (measured in {self.path.name})"


def report_metrics(metrics: KernelMetrics) -> MetricsReport:
    """The kernels of one report."""
    kernels = measured_kernels(metrics)
    rows = tuple(
        MeasuredRow(
            kernel.name, None if kernel.total is None else round(kernel.total), _figures(kernel)
        )
        for kernel in kernels[:MOST_KERNELS]
    )
    notes = list(metrics.warnings)
    if len(kernels) > len(rows):
        notes.append(f"{len(kernels) - len(rows)} more kernels are not listed")
    return MetricsReport(metrics.path, len(metrics), len(kernels), rows, tuple(notes))


def join_metrics(metrics: KernelMetrics, table: KernelTable) -> TraceMetrics:
    """The kernels of a trace that took longest, with what ncu measured of them."""
    join = join_kernels(metrics, table)
    by_row = {kernel.row: kernel for kernel in join.kernels}
    kernels = [row for row, category in enumerate(table.categories) if category == "kernel"]
    longest = sorted(kernels, key=lambda row: (-int(table.total[row]), table.names[row]))
    rows = []
    for row in longest[:MOST_JOINED]:
        measured = by_row.get(row)
        rows.append(
            TraceRow(
                table.names[row],
                int(table.calls[row]),
                int(table.total[row]),
                _figures(measured) if measured else None,
                measured.duration_ratio if measured else None,
            )
        )
    notes = [*metrics.warnings]
    if not kernels:
        notes.append("the trace has no kernels to join metrics to")
    unlike = [row for row in rows if row.ratio and not 1 / UNLIKE <= row.ratio <= UNLIKE]
    if unlike:
        notes.append(
            f"{fmt.several(len(unlike), 'kernel')} took more than {UNLIKE:g} times as long under "
            "ncu, or less than half: its figures say little about the traced launches"
        )
    return TraceMetrics(metrics.path, tuple(rows), join.unmatched, tuple(notes))


def _figures(kernel: MeasuredKernel) -> Figures:
    return Figures(kernel.launches, kernel.compute, kernel.memory, kernel.occupancy, kernel.limit)


def render_metrics(report: MetricsReport, head: str = "") -> str:
    """The kernels of one report of ncu; ``head`` first."""
    heading = (*([head] if head else []), *_heading(report))
    return joined((heading, _table(report), listed("Notes", (*LEGEND, *report.notes))))


def _heading(report: MetricsReport) -> Iterator[str]:
    yield printable(str(report.path))
    launches = "1 launch" if report.launches == 1 else f"{report.launches} launches"
    yield f"{fmt.several(report.kernels, 'kernel')}, {launches}, measured by Nsight Compute"


def _table(report: MetricsReport) -> Iterator[str]:
    yield "Kernels, longest first"
    yield f"  {'launches':>8} {'time':>9} {_COLUMNS}  limited by"
    names = short_names((row.name for row in report.rows), _WIDTH)
    for row in report.rows:
        time = "-" if row.total_ns is None else fmt.duration(row.total_ns)
        yield printable(f"  {names[row.name]}")
        yield f"  {row.figures.launches:>8} {time:>9} {_cells(row.figures)}".rstrip()


def trace_metrics(metrics: TraceMetrics | None) -> Iterator[str]:
    """The kernels of a trace with what ncu measured; nothing without metrics."""
    if metrics is None:
        return
    yield printable(metrics.title)
    if metrics.rows:
        yield f"  {'calls':>8} {'device':>9} {_COLUMNS}  {'limited by':<18}  ncu/trace"
    names = short_names((row.name for row in metrics.rows), _WIDTH)
    for row in metrics.rows:
        ratio = "" if row.ratio is None else f"{row.ratio:9.2f}x"
        cells = _cells(row.figures) if row.figures else "not measured by ncu"
        yield printable(f"  {names[row.name]}")
        yield f"  {row.calls:>8} {fmt.duration(row.total_ns):>9} {cells}  {ratio}".rstrip()
    yield from (f"  {line}" for line in LEGEND)
    for name in short_names(metrics.unmatched[:_MOST_UNMATCHED], _WIDTH - 18).values():
        yield printable(f"  not in the trace: {name}")
    more = len(metrics.unmatched) - _MOST_UNMATCHED
    if more > 0:
        yield f"  not in the trace: {more} more"


def _cells(figures: Figures) -> str:
    limit = figures.limit.value if figures.limit else "not known"
    compute, memory = rate(figures.compute), rate(figures.memory)
    return f"{compute:>8} {memory:>8} {rate(figures.occupancy):>9}  {limit:<18}"


def rate(value: float | None) -> str:
    """Per cent as a person reads it, ``-`` where ncu did not measure it."""
    return "-" if value is None else fmt.percent(value / 100)
