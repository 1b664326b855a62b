"""As much of a damaged snapshot as can be read, and one warning that says where it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from perftui.trace.errors import TraceError
from perftui.trace.memory_snapshot.assemble import assemble
from perftui.trace.memory_snapshot.content import Content, finished_content, whole_content
from perftui.trace.memory_snapshot.model import MemorySnapshot
from perftui.trace.memory_snapshot.plain_pickle import Damage, PlacedPickle, PlainPickle
from perftui.trace.memory_snapshot.read_bytes import FileBytes
from perftui.trace.memory_snapshot.refusal import RefusedError
from perftui.trace.model import LoadWarning

Watch = Callable[[int], None]


def read_snapshot(path: Path, file: FileBytes, watch: Watch, check: Watch) -> MemorySnapshot:
    """All rows before the first damage; ``check`` is called where parts are read once more.

    Nothing behind damage is read: instructions name values by the count of those before them, so
    what follows would be read as something else than was written.

    Raises TraceError where there is no such row, RefusedError for what is refused.
    """
    size = len(file.data)
    pickle = PlainPickle(file.data)
    damage = pickle.run(watch)
    content = _content(pickle, damage)
    warnings = tuple(_warnings(file, damage, pickle.end))
    try:
        return assemble(path, content, size, warnings)
    except RefusedError:
        raise
    except TraceError:
        good = _readable(path, content, size, check)
        if not good:
            raise
    # All rows can be good, and what lies between their lists not.
    behind = good == len(content)
    number = good - behind
    name, _ = content.row(number)
    snapshot = assemble(path, content.first(good), size, ())
    # Two trees at once would take more memory than is promised.
    del pickle, content
    at = _place(file.data, number, check)
    what = "what follows the" if behind else "the"
    message = f"{what} {name} at byte {at:,}{_unit(file)} cannot be read; loaded up to there"
    return replace(snapshot, warnings=(LoadWarning(message, at), *snapshot.warnings))


def _content(pickle: PlainPickle, damage: Damage | None) -> Content:
    if damage is None:
        return whole_content(pickle.value)
    problem = f"it is damaged at byte {damage.at}: {damage.why}; nothing before that can be shown"
    try:
        content = finished_content(pickle.stack, pickle.marks)
    except TraceError as error:
        raise TraceError(f"{problem}: record it again") from error
    pickle.stack.clear()
    if not len(content):
        raise TraceError(f"{problem}: record it again")
    return content


def _warnings(file: FileBytes, damage: Damage | None, end: int) -> list[LoadWarning]:
    """At most one about damage; the bytes behind what is whole are none."""
    at = end if damage is None else damage.at
    where = f"loaded up to byte {at:,}{_unit(file)}"
    if damage is not None and not damage.ended:
        return [LoadWarning(f"the file is damaged ({damage.why}); {where}", at)]
    if file.damage is not None:
        return [LoadWarning(f"{file.damage}; {where}", at)]
    if damage is not None:
        return [LoadWarning(f"the file ends before its value does; {where}", at)]
    behind = len(file.data) - end
    if behind:
        return [LoadWarning(f"{behind} bytes behind the snapshot were not read", end)]
    return []


def _unit(file: FileBytes) -> str:
    return " of the inflated pickle" if file.compressed else ""


def _readable(path: Path, content: Content, size: int, check: Watch) -> int:
    """How many rows come before the first that makes ``assemble`` fail, by halving."""
    good, bad = 0, len(content) + 1
    while bad - good > 1:
        check(0)
        middle = (good + bad) // 2
        try:
            assemble(path, content.first(middle), size, ())
        except RefusedError:
            raise
        except TraceError:
            bad = middle
        else:
            good = middle
    return good


def _place(data: bytes, number: int, check: Watch) -> int:
    """Where this row begins, or the one before it, which is a dict, where this is none."""
    pickle = PlacedPickle(data)
    content = _content(pickle, pickle.run(check))
    found = (pickle.place(content.row(each)[1]) for each in (number, number - 1))
    return next(place for place in found if place is not None)
