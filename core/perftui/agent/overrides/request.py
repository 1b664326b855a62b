"""An override that was asked for, what became of it, and the note about that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Optional

from ..hooks.call_site import CallSite
from ..recording.output import Notes

APPLIED, PARTLY, REFUSED = "applied", "partly", "refused"


class Outcome:
    """What became of the overrides at one call, ``requests``.

    ``requested`` is what the script passed, plain values only.
    """

    def __init__(self, requested: dict[str, Any], requests: list[Request]) -> None:
        self.requested = requested
        self.requests = requests
        self.applied: dict[str, Any] = {}
        self.refused: dict[str, str] = {}
        """Why not, by argument."""

    def decide(
        self,
        given: Mapping[str, Any],
        why_not: Callable[[str, Any, dict[str, Any]], Optional[str]],
        is_last: Callable[[str, Any], bool],
    ) -> None:
        """Apply what ``why_not`` has nothing against, in addition to what is ``given``.

        Whether an argument that ``is_last`` makes sense may hang on the others.
        """
        asked = arguments_of(self.requests)
        for name in sorted(asked, key=lambda name: is_last(name, asked[name])):
            why = why_not(name, asked[name], {**given, **self.applied})
            if why is None:
                self.applied[name] = asked[name]
            else:
                self.refused[name] = why

    def report(
        self, notes: OverrideNotes, site: Optional[CallSite], in_force: Callable[[str], Any]
    ) -> None:
        """Note what became of each request, now that what was asked for is made."""
        for request in self.requests:
            values = {name: in_force(name) for name in request.arguments}
            notes.report(request.note(self.refused, values, site))


class Blocks(NamedTuple):
    """Steps of training in which a switch is changed and in which it is not, in turn."""

    first: int
    """Steps before the first block, in the way that it begins with."""
    steps: int
    begins_changed: bool

    def begins(self, trained: int) -> Optional[int]:
        """The number of the block that begins after so many steps; None within one."""
        past = trained - self.first
        return past // self.steps if past >= 0 and past % self.steps == 0 else None

    def is_changed(self, number: int) -> bool:
        """Whether it is in a block: pairs of blocks, every other one turned around."""
        return ((number + 1) // 2 % 2 == 1) != self.begins_changed


class Request(NamedTuple):
    """One override of the run; ``number`` is its place in the manifest's list of them."""

    number: int
    target: str
    arguments: Mapping[str, Any]
    file: Optional[str] = None
    line: Optional[int] = None
    """The call it is meant for; every call of the target where no file is given."""
    fix: Optional[str] = None
    blocks: Optional[Blocks] = None

    def covers(self, site: CallSite | None) -> bool:
        """Whether this request is meant for the call at ``site``."""
        if self.file is None:
            return True
        return site is not None and site.covers(self.file, self.line or site.line)

    def note(
        self, refused: Mapping[str, str], values: Mapping[str, Any], site: CallSite | None = None
    ) -> dict[str, Any]:
        """Data of its ``override`` note.

        ``refused`` holds reasons by argument, of other overrides too; ``values`` what is in force.
        An argument that is not in force as asked for has a reason, if only that.
        """
        why = {}
        for name in self.arguments or refused:
            if name in refused:
                why[name] = refused[name]
            elif name not in values or values[name] != self.arguments[name]:
                why[name] = f"{values.get(name)!r} is in force"
        outcome = PARTLY if len(why) < len(self.arguments) else REFUSED
        return {
            "number": self.number,
            "fix": self.fix,
            "target": self.target,
            "outcome": outcome if why else APPLIED,
            "why": "; ".join(f"{name}: {reason}" for name, reason in sorted(why.items())) or None,
            "file": site.file if site else self.file,
            "line": site.line if site else self.line,
            "values": {name: values.get(name) for name in self.arguments},
        }


def request_of(number: int, given: Any) -> Request | None:
    """The override that the recorder wrote as ``given``, None where it is none."""
    if not isinstance(given, dict) or not isinstance(given.get("target"), str):
        return None
    arguments, line = given.get("arguments"), given.get("line")
    blocks: Any = given.get("blocks")
    has_blocks = isinstance(blocks, dict) and blocks.get("steps")
    return Request(
        number,
        given["target"],
        arguments if isinstance(arguments, dict) else {},
        given.get("file"),
        line if isinstance(line, int) else None,
        given.get("fix"),
        Blocks(blocks["first"], blocks["steps"], blocks["begins_changed"]) if has_blocks else None,
    )


def wanted(requests: list[Request], site: CallSite | None) -> list[Request]:
    """The ``requests`` that are meant for the call at ``site``."""
    return [request for request in requests if request.covers(site)]


def arguments_of(requests: list[Request]) -> dict[str, Any]:
    """The arguments of all ``requests``; of two that name one, the later decides."""
    return {name: value for one in requests for name, value in one.arguments.items()}


MOST_NOTES = 1000
"""Notes of one process. A script that makes its loader anew for each epoch causes the same note
each time, which is written once."""


class OverrideNotes:
    """What became of overrides in this process, and in the one it was forked from."""

    def __init__(self) -> None:
        self._reported: dict[str, dict[str, Any]] = {}
        self._notes: Notes | None = None

    def report(self, data: dict[str, Any]) -> None:
        """Something was made, or will never be."""
        key = repr(data)
        if key in self._reported or len(self._reported) >= MOST_NOTES:
            return
        self._reported[key] = data
        if self._notes is not None:
            self._notes.write("override", data)

    def begin(self, notes: Notes) -> None:
        """Write into ``notes`` from now on: this process records."""
        self._notes = notes
        for data in self._reported.values():
            notes.write("override", data)

    def reset(self) -> None:
        """Write no more in this child of the process that recorded."""
        self._notes = None
