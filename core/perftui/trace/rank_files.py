"""The rank of each trace in a directory, by its name and its text.

Only the head of a file is read, and the end of a plain one: kernels and operators are not."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from perftui.trace.formats import ENDINGS, find_traces
from perftui.trace.kineto.damaged_text import fields_behind, start_of_events, top_level_fields
from perftui.trace.kineto.source import Source
from perftui.trace.model import TraceError

_ENDINGS = re.compile(rf"(?:{'|'.join(map(re.escape, ('.pt', *ENDINGS)))})+$", re.IGNORECASE)
_SPAN = re.compile(r"\.(\d{10}|\d{13}|\d{16}|\d{19})$", re.ASCII)
"""Suffix of ``tensorboard_trace_handler`` after a worker's name: the time of writing since the
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
    """The parts of a file name; None for missing ones."""

    worker: str
    """The name without endings and time: the writer."""
    stamp: str | None
    """The time of writing as the name spells it: it distinguishes the recordings of one worker."""
    time_ns: int | None
    """Time of writing in ns since the epoch; None if the name has no time, or no year and
    ``parse_name`` did not get the file's time of change."""
    rank: int | None
    """The rank; None if the name has none, or several."""
    series: str
    """The worker without the number of its rank: equal for files of one recording that are named by
    rank."""


def without_endings(name: str) -> str:
    """A file name without the suffixes of traces."""
    return _ENDINGS.sub("", name)


def parse_name(name: str, changed_ns: int | None = None) -> NameParts:
    """Parse a file name such as ``rank-3.json`` or ``worker0.1623143089861.pt.trace.json.gz``.

    A date without a year is the last one before the file was changed, ``changed_ns`` since the
    epoch; its zone is taken for UTC, so it can be off by some hours.
    """
    stem = without_endings(name)
    span, date = _SPAN.search(stem), _DATE.search(stem)
    stamped = span or date
    time_ns = int(span[1]) * 10 ** (19 - len(span[1])) if span else None
    if date is not None and changed_ns is not None:
        changed = changed_ns // 10**9
        year, month = time.gmtime(changed).tm_year, _MONTHS.index(date["month"]) + 1
        rest = (month, int(date["day"]), *map(int, date["time"].split("_")))
        written = calendar.timegm((year, *rest))
        if written > changed + _DAY:
            written = calendar.timegm((year - 1, *rest))
        time_ns = written * 10**9
    worker = stem[: stamped.start()] if stamped else stem
    match = _rank(worker)
    return NameParts(
        worker=worker,
        stamp=stamped[1] if stamped else None,
        time_ns=time_ns,
        rank=match[0] if match else None,
        series=f"{worker[: match[1]]}*{worker[match[2] :]}" if match else "",
    )


def is_rank_directory(name: str) -> bool:
    """Whether a directory is named by a rank alone: ``rank_3`` holds traces of rank 3."""
    match = _RANK.fullmatch(name)
    return match is not None and match["part"] is None


def _rank(worker: str) -> tuple[int, int, int] | None:
    """The rank in the name, and the start and end of its digits."""
    matches = [match for match in _RANK.finditer(worker) if match["part"] is None]
    if len({int(match["rank"]) for match in matches}) == 1:
        return int(matches[0]["rank"]), *matches[0].span("rank")
    if matches:
        return None
    match = _WORKER.search(worker)
    return (int(match[1]), *match.span(1)) if match else None


HEAD = 4 * 1024 * 1024
"""Bytes of text within which the events begin: the process groups of 300 ranks take 17 KB."""

TAIL = 64 * 1024
"""Bytes at the end of a plain file that are searched; gzip has no end without all before it."""

_MOST = 10**9
"""Above any rank and any number of ranks; a file can claim anything."""

_TRIES = 4
"""Fields of that name at the end of a file that are tried, since each is read to the end."""

_INFO = re.compile(rb'"distributedInfo"\s*:')


@dataclass(frozen=True)
class RankFile:
    """One trace and its rank."""

    path: Path
    rank: int | None
    source: Literal["file", "name"] | None
    """Source of the rank: ``distributedInfo`` in the file, or the file's or its directory's name;
    None without either."""
    name: NameParts
    world_size: int | None
    """Ranks of the training, None where the file does not name it."""
    time_ns: int
    """Time of writing in ns since the epoch: by the file's name, else its time of change."""
    changed_ns: int
    """The file's time of change, since the epoch."""

    @property
    def directory(self) -> Path:
        """Directory of the recording: above ``rank_3/``, which holds only one rank."""
        parent = self.path.parent
        return parent.parent if is_rank_directory(parent.name) else parent


def find_ranks(directory: Path) -> tuple[RankFile, ...]:
    """All traces below ``directory`` with their ranks, if known, sorted by path.

    A file whose head cannot be read goes by its name: opening it reports the error. Raises
    TraceError if there is no such directory.
    """
    files = (_rank_file(path) for path in find_traces(directory))
    return tuple(file for file in files if file is not None)


def _rank_file(path: Path) -> RankFile | None:
    """The rank's file at ``path``; None if it is gone meanwhile."""
    try:
        status = path.stat()
    except OSError:
        return None
    info: Mapping[str, Any] = {}
    with suppress(TraceError):
        info = distributed_info(path)
    name = parse_name(path.name, status.st_mtime_ns)
    name_rank = name.rank
    if name_rank is None and is_rank_directory(path.parent.name):
        name_rank = parse_name(path.parent.name).rank
    stated = _whole(info.get("rank"), 0)
    source: Literal["file", "name"] = "name" if stated is None else "file"
    rank = name_rank if stated is None else stated
    return RankFile(
        path=path,
        rank=rank,
        source=source if rank is not None else None,
        name=name,
        world_size=_whole(info.get("world_size"), 1),
        time_ns=status.st_mtime_ns if name.time_ns is None else name.time_ns,
        changed_ns=status.st_mtime_ns,
    )


def distributed_info(path: Path) -> Mapping[str, Any]:
    """``distributedInfo`` from the head or the end of the file; empty if missing. Raises TraceError
    if the file cannot be opened."""
    source = Source(path)
    text, start = bytearray(), None
    pieces = source.pieces()
    while start is None and len(text) < HEAD and (piece := next(pieces, b"")):
        searched = len(text)
        text += piece
        try:
            start = start_of_events(path, text, searched)
        except TraceError:
            return {}
    if start is not None:
        fields, _ = top_level_fields(bytes(text[:start]), b"")
        info = fields.get("distributedInfo")
        if isinstance(info, dict):
            return info
    if source.compressed:
        return {} if next(pieces, b"") else _behind(bytes(text[-TAIL:]))
    return _behind(source.read_at(max(0, source.total - TAIL), TAIL))


def _behind(end: bytes) -> Mapping[str, Any]:
    """The field after the events; it must be closed by the last bracket, or it is nested deeper."""
    for match in list(_INFO.finditer(end))[-_TRIES:]:
        fields = fields_behind(b"," + end[match.start() :])
        info = (fields or {}).get("distributedInfo")
        if isinstance(info, dict):
            return info
    return {}


def _whole(value: object, lowest: int) -> int | None:
    """A number that can be a rank or a count of ranks; ``True`` is not."""
    return value if type(value) is int and lowest <= value < _MOST else None
