"""Kernel metrics as plain text."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.report.blocks import cut, joined, listed
from perftui.report.kernel_metrics import Figures, MetricsReport, TraceMetrics
from perftui.trace.text import printable

_WIDTH = 78
_MOST_UNMATCHED = 10

_LEGEND = (
    "compute and memory: share of the peak throughput",
    "occupancy: share of the warps that fit; -: ncu did not measure it",
)


def render_metrics(report: MetricsReport) -> str:
    """The kernels of one report of ncu."""
    blocks = (_heading(report), _table(report), listed("Notes", (*_LEGEND, *report.notes)))
    return joined(blocks)


def _heading(report: MetricsReport) -> Iterator[str]:
    yield printable(str(report.path))
    launches = "1 launch" if report.launches == 1 else f"{report.launches} launches"
    yield f"{fmt.several(report.kernels, 'kernel')}, {launches}, measured by Nsight Compute"


def _table(report: MetricsReport) -> Iterator[str]:
    yield "Kernels, longest first"
    yield f"  {'launches':>8} {'time':>9} {_COLUMNS}  limited by"
    for row in report.rows:
        time = "-" if row.total_ns is None else fmt.duration(row.total_ns)
        yield f"  {cut(row.name, _WIDTH)}"
        yield f"  {row.figures.launches:>8} {time:>9} {_cells(row.figures)}".rstrip()


def trace_metrics(metrics: TraceMetrics | None) -> Iterator[str]:
    """The kernels of a trace with what ncu measured; nothing without metrics."""
    if metrics is None:
        return
    yield printable(f"What limits the kernels, longest first (measured in {metrics.path.name})")
    if metrics.rows:
        yield f"  {'calls':>8} {'device':>9} {_COLUMNS}  {'limited by':<18}  ncu/trace"
    for row in metrics.rows:
        ratio = "" if row.ratio is None else f"{row.ratio:9.2f}x"
        cells = _cells(row.figures) if row.figures else "not measured by ncu"
        yield f"  {cut(row.name, _WIDTH)}"
        yield f"  {row.calls:>8} {fmt.duration(row.total_ns):>9} {cells}  {ratio}".rstrip()
    yield from (f"  {line}" for line in _LEGEND)
    for name in metrics.unmatched[:_MOST_UNMATCHED]:
        yield f"  not in the trace: {cut(name, _WIDTH - 18)}"
    more = len(metrics.unmatched) - _MOST_UNMATCHED
    if more > 0:
        yield f"  not in the trace: {more} more"


_COLUMNS = f"{'compute':>8} {'memory':>8} {'occupancy':>9}"


def _cells(figures: Figures) -> str:
    limit = figures.limit.value if figures.limit else "not known"
    compute, memory = _percent(figures.compute), _percent(figures.memory)
    return f"{compute:>8} {memory:>8} {_percent(figures.occupancy):>9}  {limit:<18}"


def _percent(value: float | None) -> str:
    return "-" if value is None else fmt.percent(value / 100)
