"""What Nsight Compute measured of the kernels of a trace."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.kernels.names import short_names
from perftui.report.html.element import Element, element, section
from perftui.report.html.tables import UNKNOWN, table, table_row
from perftui.report.kernel_metrics import LEGEND, TraceMetrics, TraceRow, rate

HEADS = ("kernel", "calls", "device", "compute", "memory", "occupancy", "limited by", "ncu/trace")


def measured(metrics: TraceMetrics | None) -> Element | None:
    """A section; None without metrics, and where none of the kernels is in the trace."""
    if metrics is None or not metrics.rows:
        return None
    names = short_names(row.name for row in metrics.rows)
    missing = [f"Not in the trace: {name}." for name in short_names(metrics.unmatched).values()]
    return section(
        metrics.title,
        # Eight columns are wider than a phone.
        element(
            "div",
            table(HEADS, [_row(row, names[row.name]) for row in metrics.rows]),
            class_="scroll",
        ),
        *(element("p", text, class_="dim") for text in (*LEGEND, *missing)),
    )


def _row(row: TraceRow, name: str) -> Element:
    figures = row.figures
    shares, limit = [UNKNOWN] * 3, "not measured by ncu"
    if figures is not None:
        shares = [rate(one) for one in (figures.compute, figures.memory, figures.occupancy)]
        limit = figures.limit.value if figures.limit else "not known"
    ratio = UNKNOWN if row.ratio is None else f"{row.ratio:.2f}x"
    shown = element("code", name, title=row.name if row.name != name else None)
    return table_row(shown, f"{row.calls:,}", fmt.duration(row.total_ns), *shares, limit, ratio)
