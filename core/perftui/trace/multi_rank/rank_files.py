"""Which rank of a distributed training wrote each trace of a directory.

Only the head of a file is read, and the end of a plain one: kernels and operators are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from perftui.trace.formats import find_traces
from perftui.trace.kineto.json_text import fields_behind, start_of_events, top_level_fields
from perftui.trace.kineto.source import Source
from perftui.trace.model import TraceError
from perftui.trace.multi_rank.file_names import NameParts, is_rank_directory, parse_name

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
