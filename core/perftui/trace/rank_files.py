"""Which rank of a distributed training wrote each trace of a directory, by its name and its text.

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
from perftui.trace.kineto.json_text import fields_behind, start_of_events, top_level_fields
from perftui.trace.kineto.source import Source
from perftui.trace.model import TraceError

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
        changed = changed_ns // 10**9
        year, month = time.gmtime(changed).tm_year, _MONTHS.index(date["month"]) + 1
        rest = (month, int(date["day"]), *map(int, date["time"].split("_")))
        written = calendar.timegm((year, *rest))
        if written > changed + _DAY:
            written = calendar.timegm((year - 1, *rest))
        time_ns = written * 10**9
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


def _rank(worker: str) -> tuple[int, int, int] | None:
    """The rank that is named, and where its digits begin and end."""
    named = [match for match in _RANK.finditer(worker) if match["part"] is None]
    if len({int(match["rank"]) for match in named}) == 1:
        return int(named[0]["rank"]), *named[0].span("rank")
    if named:
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
    """One trace, and whose it is."""

    path: Path
    rank: int | None
    source: Literal["file", "name"] | None
    """Where the rank is from: ``distributedInfo`` in the file, or the file's or its directory's
    name; None where neither has it."""
    name: NameParts
    world_size: int | None
    """Ranks of the training, None where the file does not name it."""
    time_ns: int
    """Time of writing in ns since the epoch: by the file's name, else its time of change."""
    changed_ns: int
    """The file's time of change, since the epoch."""

    @property
    def directory(self) -> Path:
        """Where the recording lies: above ``rank_3/``, which holds one rank's part of it."""
        parent = self.path.parent
        return parent.parent if is_rank_directory(parent.name) else parent


def find_ranks(directory: Path) -> tuple[RankFile, ...]:
    """All traces below ``directory`` with what is known of their ranks, sorted by path.

    A file whose head cannot be read goes by its name: opening it reports what is wrong. Raises
    TraceError if there is no such directory.
    """
    found = (_rank_file(path) for path in find_traces(directory))
    return tuple(file for file in found if file is not None)


def _rank_file(path: Path) -> RankFile | None:
    """The rank's file at ``path``; None for one that has gone meanwhile."""
    try:
        status = path.stat()
    except OSError:
        return None
    info: Mapping[str, Any] = {}
    with suppress(TraceError):
        info = distributed_info(path)
    name = parse_name(path.name, status.st_mtime_ns)
    named = name.rank
    if named is None and is_rank_directory(path.parent.name):
        named = parse_name(path.parent.name).rank
    stated = _whole(info.get("rank"), 0)
    source: Literal["file", "name"] = "name" if stated is None else "file"
    rank = named if stated is None else stated
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
    """``distributedInfo`` as it stands in the head or at the end of the file; empty without one.

    Raises:
        TraceError: the file cannot be opened.
    """
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
    """The field behind the events; text that it does not close to the last bracket is deeper."""
    for match in list(_INFO.finditer(end))[-_TRIES:]:
        fields = fields_behind(b"," + end[match.start() :])
        info = (fields or {}).get("distributedInfo")
        if isinstance(info, dict):
            return info
    return {}


def _whole(value: object, lowest: int) -> int | None:
    """A number that can be a rank or a count of them; ``True`` is none."""
    return value if type(value) is int and lowest <= value < _MOST else None
