"""What the name of a trace file holds: whose it is, and when it was written."""

from __future__ import annotations

import calendar
import re
import time
from dataclasses import dataclass

from perftui.trace.formats import ENDINGS

_ENDINGS = re.compile(rf"(?:{'|'.join(map(re.escape, ('.pt', *ENDINGS)))})+$", re.IGNORECASE)
_SPAN = re.compile(r"\.(\d{10}|\d{13}|\d{16}|\d{19})$", re.ASCII)
"""What ``tensorboard_trace_handler`` puts behind a worker's name: the time of writing since the
epoch, in ms until torch 2.1 and ns since."""

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = re.compile(
    rf"\.((?P<month>{'|'.join(_MONTHS)})_(?P<day>\d\d)_(?P<time>\d\d_\d\d_\d\d)(?:\.\d+)?)$",
    re.ASCII,
)
"""``.Apr_03_18_51_38.1102``: a date without its year, and a process."""

_DAY = 86_400

_RANK = re.compile(
    r"(?<![a-z])(?:(?P<part>local|node|group|dp|tp|pp|cp|ep|sp)[-_ ]?)?rank[-_ =]?(?P<rank>\d{1,6})"
    r"(?!\d)",
    re.ASCII | re.IGNORECASE,
)
"""A rank within a node or a group is not the rank of the whole world."""

_WORKER = re.compile(r"(?<![a-z])worker[-_]?(\d{1,6})$", re.ASCII | re.IGNORECASE)
"""Only at the end: in ``pool-worker-3_88`` it is a machine's name, and 88 the process."""


@dataclass(frozen=True)
class NameParts:
    """The parts of a file name; None for those that it lacks."""

    worker: str
    """The name without endings and time: who wrote it."""
    stamp: str | None
    """The time of writing as the name spells it: it distinguishes the recordings of one worker."""
    time_ns: int | None
    """The time of writing in ns since the epoch; None where the name has no time, or no year and
    ``parse_name`` was not given when the file was changed."""
    rank: int | None
    """The rank; None where the name has none, or several."""
    series: str
    """The worker without the number of its rank: the same for the files of one recording that are
    named by their rank."""


def without_endings(name: str) -> str:
    """A file name without the endings that traces have."""
    return _ENDINGS.sub("", name)


def parse_name(name: str, changed_ns: int | None = None) -> NameParts:
    """Read a file name such as ``rank-3.json`` or ``worker0.1623143089861.pt.trace.json.gz``.

    A date without a year is the last one before the file was changed, ``changed_ns`` since the
    epoch; its zone is taken for UTC, so it can be off by some hours.
    """
    stem = without_endings(name)
    span, date = _SPAN.search(stem), _DATE.search(stem)
    stamped = span or date
    time_ns = int(span[1]) * 10 ** (19 - len(span[1])) if span else None
    if date is not None and changed_ns is not None:
        time_ns = _dated(date, changed_ns)
    worker = stem[: stamped.start()] if stamped else stem
    found = _rank(worker)
    return NameParts(
        worker=worker,
        stamp=stamped[1] if stamped else None,
        time_ns=time_ns,
        rank=found[0] if found else None,
        series=f"{worker[: found[1]]}*{worker[found[2] :]}" if found else "",
    )


def is_rank_directory(name: str) -> bool:
    """Whether a directory is named by a rank alone: ``rank_3`` holds what rank 3 wrote."""
    match = _RANK.fullmatch(name)
    return match is not None and match["part"] is None


def _dated(date: re.Match[str], changed_ns: int) -> int:
    changed = changed_ns // 10**9
    year = time.gmtime(changed).tm_year
    rest = (_MONTHS.index(date["month"]) + 1, int(date["day"]), *map(int, date["time"].split("_")))
    written = calendar.timegm((year, *rest))
    if written > changed + _DAY:
        written = calendar.timegm((year - 1, *rest))
    return written * 10**9


def _rank(worker: str) -> tuple[int, int, int] | None:
    """The rank that is named, and where its digits begin and end."""
    named = [match for match in _RANK.finditer(worker) if match["part"] is None]
    if len({int(match["rank"]) for match in named}) == 1:
        return int(named[0]["rank"]), *named[0].span("rank")
    if named:
        return None
    match = _WORKER.search(worker)
    return (int(match[1]), *match.span(1)) if match else None
