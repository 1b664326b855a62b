"""A report against what is known of its training, the totals of many, and both as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.verify.scenarios.expected import HEALTHY_RULE, Expected, Kind, Nearness

ACCUSING = frozenset({"warning", "critical"})
BUSY = "busy-host"
"""True of the machine that the trainings run on, and no fault of theirs: it is set aside."""
TOP_BAR = 0.95
PLACE_BAR = 0.9


@dataclass(frozen=True)
class Row:
    """What was said of one training, and whether that is right."""

    expected: Expected
    rule: str = ""
    """Of the first finding, of a repaired one the first that accuses it of what it had; empty where
    nothing was found."""
    severity: str = ""
    place: str = ""
    """``file:line``, or the operator where no line is said."""
    nearness: Nearness | None = None
    """None where no planted line is known."""
    cost_ns: int = 0
    share: float = 0.0
    ok: bool = False
    """The cause is right; the place is counted apart."""
    error: str = ""
    """Why there is no report; such a row is never right."""
    busy: bool = False
    """Other programs took cores meanwhile: what was measured is doubtful."""


@dataclass(frozen=True)
class Totals:
    """Counts over all rows, each with the number it is out of."""

    planted: int
    top: int
    """First finding names the planted cause."""
    placed: int
    """Planted ones whose line is known."""
    place: int
    """First finding at the planted line or near it."""
    exact: int
    innocent: int
    """Healthy and repaired ones."""
    accused: int
    """Innocent ones with a finding above info (of a repaired one: about what it had)."""
    called_healthy: int
    """Planted ones of which no bottleneck is said to be found."""
    failed: int
    """Those that gave no report."""
    busy: int
    """Those that ran beside other programs."""

    @property
    def met(self) -> bool:
        """Whether the diagnosis is as right as it must be."""
        return (
            self.top >= TOP_BAR * self.planted
            and self.place >= PLACE_BAR * self.placed
            and not (self.accused or self.called_healthy or self.failed)
        )


def judge(report: dict[str, Any], expected: Expected) -> Row:
    """The row of a report, as ``perftui report --json`` prints it."""
    known = report["findings"]
    findings = [one for one in known if one["rule"] != BUSY or BUSY in expected.rules]
    busy = len(findings) < len(known)
    accusing = [finding for finding in findings if finding["severity"] in ACCUSING]
    if expected.kind is Kind.REPAIRED:
        accusing = [finding for finding in accusing if finding["rule"] in expected.rules]
    # A busy host stands beside the verdict.
    is_beside = expected.kind is not Kind.PLANTED or BUSY in expected.rules
    first = next(iter(accusing), None) if is_beside else None
    first = first or next(iter(findings), None)
    if first is None:
        none = Nearness.WRONG if expected.planted else None
        return Row(expected, nearness=none, ok=expected.kind is not Kind.PLANTED, busy=busy)
    right = first["rule"] in expected.rules if expected.kind is Kind.PLANTED else not accusing
    place = first["place"] or {}
    file, line = place.get("file"), place.get("line")
    return Row(
        expected,
        first["rule"],
        first["severity"],
        f"{file.rpartition('/')[2]}:{line}" if file else place.get("operator") or "",
        expected.planted.nearness(file, line) if expected.planted else None,
        first["cost_ns"],
        first["share"],
        right,
        busy=busy,
    )


def failed(expected: Expected, error: str) -> Row:
    """The row of a training without a report."""
    return Row(expected, nearness=Nearness.WRONG if expected.planted else None, error=error)


def totals(rows: Sequence[Row]) -> Totals:
    """The counts over ``rows``."""
    planted = [row for row in rows if row.expected.kind is Kind.PLANTED]
    innocent = [row for row in rows if row.expected.kind is not Kind.PLANTED]
    placed = [row.nearness for row in planted if row.nearness is not None]
    return Totals(
        planted=len(planted),
        top=sum(row.ok for row in planted),
        placed=len(placed),
        place=len(placed) - placed.count(Nearness.WRONG),
        exact=placed.count(Nearness.OK),
        innocent=len(innocent),
        accused=sum(not row.ok and not row.error for row in innocent),
        called_healthy=sum(row.rule == HEALTHY_RULE for row in planted),
        failed=sum(bool(row.error) for row in rows),
        busy=sum(row.busy for row in rows),
    )


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
