"""Rows and totals as text."""

from __future__ import annotations

from collections.abc import Sequence

from tests.verify.scenarios.expected import Kind
from tests.verify.scenarios.score import PLACE_BAR, TOP_BAR, Row, Totals

HEAD = ("training", "planted", "gain", "said", "place said", "place", "lost", "share", "")


def table(rows: Sequence[Row]) -> str:
    """One line a training, those that are wrong marked in the last column."""
    lines = [HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def summary(totals: Totals) -> str:
    """The totals, a line each, with the bar that each must meet."""
    return "\n".join(
        (
            f"first finding right   {_of(totals.top, totals.planted)}, "
            f"at least {100 * TOP_BAR:.0f} % wanted",
            f"place right           {_of(totals.place, totals.placed)}, "
            f"at least {100 * PLACE_BAR:.0f} % wanted; {totals.exact} at the very line",
            f"innocent accused      {_of(totals.accused, totals.innocent)}, none wanted",
            f"planted but HEALTHY   {_of(totals.called_healthy, totals.planted)}, none wanted",
            f"without a report      {totals.failed}, none wanted",
            f"beside other programs {totals.busy}: what is said of them is doubtful",
            "all met" if totals.met else "NOT MET",
        )
    )


def _cells(row: Row) -> tuple[str, ...]:
    expected = row.expected
    rules = ", ".join(expected.rules)
    planted = {Kind.HEALTHY: "healthy", Kind.REPAIRED: f"no {rules}", Kind.PLANTED: rules}
    return (
        expected.name,
        planted[expected.kind],
        f"{expected.gain:.2f}x" if expected.gain else "",
        row.error or f"{row.rule or 'nothing'} {row.severity}".strip(),
        row.place,
        row.nearness.value if row.nearness else "",
        f"{row.cost_ns / 1e6:.1f} ms" if row.cost_ns else "",
        f"{100 * row.share:.0f} %" if row.cost_ns else "",
        ("ok" if row.ok else "WRONG") + (" (busy machine)" if row.busy else ""),
    )


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole}" + (f" ({100 * part / whole:.0f} %)" if whole else "")
