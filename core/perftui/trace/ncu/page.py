"""The CSV that ncu prints: one row a metric (details page), or one row a launch (raw page)."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from perftui.trace.errors import TraceError
from perftui.trace.ncu.model import KernelMetrics, Launch, Metric, MetricKey
from perftui.trace.ncu.numbers import decimal_mark, number, unit_of
from perftui.trace.text import printable

HEADER = re.compile(r'^"?ID"?,.*"?Kernel Name"?,', re.MULTILINE)
"""The line with the names of the columns; output of the program and ncu comes before it."""

_ERROR = re.compile(r"^==ERROR== .*", re.MULTILINE)
_DESCRIBING = re.compile(
    "ID|Process ID|Process Name|Host Name|Kernel Name|Kernel Time|Context|Stream|Block Size"
    "|Grid Size|Device|CC|thread Domain:.*|Id:Domain:.*"
)
"""Columns of a launch, the last two of ``--nvtx``; every other one of a raw page is a metric."""

_LONGEST_QUOTE = 200

Cells: TypeAlias = Mapping[str, str]


@dataclass
class _Draft:
    cells: Cells
    metrics: dict[MetricKey, Metric] = field(default_factory=dict)


def parse(path: Path, text: str) -> KernelMetrics:
    """Every launch of one page; raises TraceError where there is no page or no launch in it."""
    header = HEADER.search(text)
    if header is None:
        raise TraceError(_no_page(path, text))
    try:
        rows = [row for row in csv.reader(text[header.start() :].splitlines(keepends=True)) if row]
    except csv.Error as error:
        raise TraceError(f"cannot read {path}: it is damaged: {error}") from error
    columns, body = rows[0], [row for row in rows[1:] if not row[0].startswith("==")]
    if len(set(columns)) < len(columns):
        raise TraceError(f"cannot read {path}: a column stands twice in its header")
    is_details = "Metric Name" in columns
    drafts, torn = _details(columns, body) if is_details else _raw(columns, body)
    if not drafts:
        raise TraceError(f"{path} holds no kernels: ncu profiled none; see its options -k and -c")
    warnings = (f"{torn} rows are cut off and were not read",) if torn else ()
    return KernelMetrics(path, tuple(_launch(draft) for draft in drafts), warnings)


def _no_page(path: Path, text: str) -> str:
    error = _ERROR.search(text)
    if error:
        return f"{path} holds no metrics, ncu failed: {printable(error.group())[:_LONGEST_QUOTE]}"
    return (
        f"{path} is not CSV from ncu: it has no header with ID and Kernel Name; create it with: "
        "ncu --import REPORT --csv --page raw"
    )


def _details(columns: Sequence[str], body: Sequence[Sequence[str]]) -> tuple[list[_Draft], int]:
    """Rules have rows of their own, without a metric; rows of metrics end before the rules'."""
    needed = columns.index("Metric Name")
    if "Metric Value" in columns:
        needed = max(needed, columns.index("Metric Value"))
    whole = [dict(zip(columns, row, strict=False)) for row in body if len(row) > needed]
    mark = decimal_mark(cells.get("Metric Value", "") for cells in whole)
    drafts: dict[tuple[str, ...], _Draft] = {}
    for cells in whole:
        identity = tuple(cells.get(column, "") for column in ("ID", "Process ID", "Kernel Name"))
        draft = drafts.setdefault(identity, _Draft(cells))
        if name := cells["Metric Name"]:
            section = cells.get("Section Name", "")
            metric = _metric(cells.get("Metric Value", ""), cells.get("Metric Unit", ""), mark)
            draft.metrics.setdefault((section, name), metric)
    return list(drafts.values()), len(body) - len(whole)


def _raw(columns: Sequence[str], body: Sequence[Sequence[str]]) -> tuple[list[_Draft], int]:
    """The first row holds the units, and no ID."""
    units: Cells = {}
    if body and not body[0][0].strip():
        units, body = dict(zip(columns, body[0], strict=False)), body[1:]
    whole = [dict(zip(columns, row, strict=False)) for row in body if len(row) >= len(columns)]
    named = [name for name in columns if name and not _DESCRIBING.fullmatch(name)]
    mark = decimal_mark(cells[name] for cells in whole for name in named)
    drafts = []
    for cells in whole:
        metrics = {("", name): _metric(cells[name], units.get(name, ""), mark) for name in named}
        drafts.append(_Draft(cells, metrics))
    return drafts, len(body) - len(whole)


def _metric(text: str, unit: str, mark: str) -> Metric:
    normal = unit_of(unit)
    return Metric(number(text, mark, normal), normal.name, text)


def _launch(draft: _Draft) -> Launch:
    cells = draft.cells
    return Launch(
        id=cells.get("ID", ""),
        name=cells.get("Kernel Name", ""),
        compute_capability=cells.get("CC", ""),
        metrics=draft.metrics,
    )
