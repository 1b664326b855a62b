"""The ranks of a training side by side, each step as a bar on one scale."""

from __future__ import annotations

from perftui import format as fmt
from perftui.facts.fact import Facts
from perftui.facts.ranks.rank_table import RankRow, RankTable
from perftui.report.html.boxes import Box
from perftui.report.html.breakdown import part_boxes
from perftui.report.html.element import Element, element
from perftui.report.html.strip import legend, strip
from perftui.report.html.tables import UNKNOWN, table
from perftui.report.ranks import table_of_ranks

FEWEST = 2


def ranks(facts: Facts) -> Element | None:
    """The table of ranks; None where one process trains."""
    found = table_of_ranks(facts)
    if len(found.rows) < FEWEST:
        return None
    kinds = dict.fromkeys(name for row in found.rows for name, time in row.parts if time)
    return element(
        "figure",
        table(_heads(found), [_row(one, found) for one in found.rows]),
        legend(tuple(kinds)),
        element("figcaption", " ".join(map(_sentence, found.notes))) if found.notes else None,
    )


def _heads(found: RankTable) -> tuple[str, ...]:
    heads = ["rank and parts of its step", "mean step", "without waits"]
    if any(row.caused is not None for row in found.rows):
        heads.append("waits caused")
    if any(row.peak_memory is not None for row in found.rows):
        heads.append("GPU memory")
    return tuple(heads)


def _row(row: RankRow, found: RankTable) -> Element:
    heads, known = _heads(found), bool(row.mean)
    cells = [_time(row.mean if known else None), _time(row.own if known else None)]
    if "waits caused" in heads:
        cells.append(_time(row.caused))
    if "GPU memory" in heads:
        cells.append(UNKNOWN if row.peak_memory is None else fmt.size(row.peak_memory))
    name = f"rank {row.rank}" + (f" on {row.host}" if len(_hosts(found)) > 1 else "")
    slow = found.straggler if found.straggler and found.straggler.rank == row.rank else None
    late = f" {fmt.duration(slow.lag)} behind the others" if slow else None
    first = element(
        "td",
        name,
        element("strong", late) if late else None,
        strip(_boxes(row), 0, _longest(found), f"parts of the step of rank {row.rank}", "rank"),
    )
    return element("tr", first, *(element("td", cell, class_="n") for cell in cells))


def _boxes(row: RankRow) -> tuple[Box, ...]:
    return part_boxes(row.parts)


def _longest(found: RankTable) -> int:
    return max(1, *(row.mean for row in found.rows))


def _hosts(found: RankTable) -> set[str]:
    return {row.host for row in found.rows if row.host}


def _time(ns: int | None) -> str:
    return UNKNOWN if ns is None else fmt.duration(ns)


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."
