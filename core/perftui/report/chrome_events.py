"""Events of the Chrome trace format: spans on threads, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec

from perftui.report.shown import encodable

CATEGORY = "perftui"
_ENCODER = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True)
class Span:
    """Something that lasts; times in ns since the trace's start 0."""

    name: str
    start: int
    end: int
    args: Mapping[str, Any] = field(default_factory=dict)
    """Figures and texts; those that are None are left out."""


def span_event(
    span: Span, process: int | str, thread: int | str, origin: int, category: str = CATEGORY
) -> bytes:
    """A complete event in microseconds with three decimals, on the clock of the file."""
    return _encoded(
        ph="X",
        cat=category,
        name=span.name,
        pid=process,
        tid=thread,
        ts=Decimal(origin + span.start).scaleb(-3),
        dur=Decimal(span.end - span.start).scaleb(-3),
        args={name: value for name, value in span.args.items() if value is not None},
    )


def process_event(process: int | str, name: str) -> bytes:
    """What a process is called."""
    return _encoded(ph="M", name="process_name", pid=process, tid=0, args={"name": name})


def process_labels(process: int | str, labels: str) -> bytes:
    """What stands beside the name of a process."""
    args = {"labels": labels}
    return _encoded(ph="M", name="process_labels", pid=process, tid=0, args=args)


def process_order(process: int | str, position: int) -> bytes:
    """Where a process is drawn, from the lowest position down."""
    args = {"sort_index": position}
    return _encoded(ph="M", name="process_sort_index", pid=process, tid=0, args=args)


def thread_event(process: int | str, thread: int | str, name: str) -> bytes:
    """What a thread is called."""
    return _encoded(ph="M", name="thread_name", pid=process, tid=thread, args={"name": name})


def without_crossing(spans: Iterable[Span]) -> Iterator[Sequence[Span]]:
    """The spans by start, the longest first, in as few lists as come of it if each goes into the
    first where it crosses none: a thread draws spans within others, but none that outlast them."""
    lists: list[list[Span]] = []
    opened: list[list[int]] = []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        for ends in opened:
            while ends and ends[-1] <= span.start:
                ends.pop()
        at = next((at for at, ends in enumerate(opened) if not ends or span.end <= ends[-1]), None)
        if at is None:
            at = len(lists)
            lists.append([])
            opened.append([])
        lists[at].append(span)
        opened[at].append(span.end)
    return iter(lists)


def _encoded(**fields: Any) -> bytes:
    return _ENCODER.encode(_encodable(fields))


def _encodable(value: Any) -> Any:
    if isinstance(value, dict):
        return {encodable(name): _encodable(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encodable(each) for each in value]
    return encodable(value) if isinstance(value, str) else value
