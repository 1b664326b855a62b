"""The tables of operators and kernels; a bar shows the share of all in each row."""

from __future__ import annotations

from collections.abc import Sequence

from perftui import format as fmt
from perftui.analysis.kernels.names import short_names
from perftui.report.html.element import Element, Node, element, number
from perftui.report.report import MOST_ROWS, Report, listed_modules
from perftui.report.rows import OpRow, Totals

UNKNOWN = "–"


def operators(report: Report) -> Element | None:
    """Operators, longest first; None without any."""
    return _operators(report, "operator", report.ops[: _most(report)], "operators")


def modules(report: Report) -> Element | None:
    """Modules, longest own time first; None without any."""
    return _operators(report, "module", listed_modules(report.modules, _most(report)), "modules")


def _operators(report: Report, head: str, rows: tuple[OpRow, ...], kind: str) -> Element | None:
    totals = report.totals.get(kind)
    if not rows or totals is None:
        return None
    on_device = bool(report.facts.analysis and report.facts.analysis.has_gpu)
    whole = _longest(totals, on_device=on_device)
    body = []
    for row in rows:
        share = (row.device if on_device else row.cpu_own or 0) / whole
        times = _times(row.cpu_own, row.device, on_device=on_device)
        body.append(table_row(named(row.name, row.name, share), f"{row.calls:,}", *times))
    if totals.rows > len(rows):
        times = _times(totals.cpu_own, totals.device, on_device=on_device)
        body.append(table_row(f"all {totals.rows:,}", f"{totals.calls:,}", *times, whole=True))
    return table((head, "calls", "own CPU", *(["device"] if on_device else [])), body)


def _most(report: Report) -> int:
    return report.top or MOST_ROWS


def _times(own: int | None, device: int, *, on_device: bool) -> tuple[str, ...]:
    """The cells of an operator; without a GPU none for that."""
    return (fmt.duration(own or 0), *([_device(device)] if on_device else []))


def kernels(report: Report) -> Element | None:
    """Kernels and copies, longest first; None without any."""
    rows, totals = report.kernels[: _most(report)], report.totals.get("kernels")
    if not rows or totals is None:
        return None
    names, whole = short_names(row.name for row in rows), _longest(totals, on_device=True)
    body = [_kernel(row, names[row.name], whole) for row in rows]
    if totals.rows > len(rows):
        device = _device(totals.device)
        body.append(table_row(f"all {totals.rows:,}", f"{totals.calls:,}", device, whole=True))
    return table(("kernel or copy", "calls", "device"), body)


def table(heads: Sequence[str], rows: Sequence[Element], *, numbers: bool = True) -> Element:
    """A table whose columns but the first stand at the right, as numbers do; without ``numbers``
    all of it is text and takes no more room than it needs."""
    titles = (
        element("th", head, class_="n" if at and numbers else None, scope="col")
        for at, head in enumerate(heads)
    )
    head = element("thead", element("tr", *titles))
    kind = "wide" if numbers else "narrow"
    return element("table", head, element("tbody", *rows), class_=kind)


def _kernel(row: OpRow, name: str, whole: int) -> Element:
    return table_row(
        named(name, row.name, row.device / whole), f"{row.calls:,}", _device(row.device)
    )


def named(shown: str, full: str, share: float) -> Element:
    """A name with a bar below it; the whole of a short name is its tooltip."""
    width = f"width:{number(100 * min(share, 1.0))}%"
    bar = element("span", element("i", style=width), class_="meter")
    told = element("span", fmt.percent(share), class_="dim")
    name = element("code", shown, title=full if full != shown else None)
    return element("div", name, element("div", bar, told, class_="share"))


def table_row(first: Node, *others: str, whole: bool = False) -> Element:
    """A row of a table; ``whole`` is the one of all of it."""
    cells = (element("td", text, class_="n") for text in others)
    return element("tr", element("td", first), *cells, class_="whole" if whole else None)


def _longest(totals: Totals, *, on_device: bool) -> int:
    """What all rows take together, at least 1 ns."""
    return max(totals.device if on_device else totals.cpu_own or 0, 1)


def _device(ns: int) -> str:
    return fmt.duration(ns) if ns else UNKNOWN
