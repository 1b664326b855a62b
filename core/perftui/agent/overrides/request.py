"""A requested override, its outcome, and the note about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Optional

from ..hooks.call_site import CallSite
from ..recording.output import Notes

APPLIED, PARTLY, REFUSED = "applied", "partly", "refused"


class Outcome:
    """The outcome of the overrides ``requests`` at one call.

    ``requested`` is what the script passed, plain values only.
    """

    def __init__(self, requested: dict[str, Any], requests: list[Request]) -> None:
        self.requested = requested
        self.requests = requests
        self.applied: dict[str, Any] = {}
        self.refused: dict[str, str] = {}
        """Reasons by argument."""

    def decide(
        self,
        given: Mapping[str, Any],
        why_not: Callable[[str, Any, dict[str, Any]], Optional[str]],
        is_last: Callable[[str, Any], bool],
    ) -> None:
        """Apply the arguments that ``why_not`` allows, in addition to those ``given``.

        Arguments that are ``is_last`` are decided last: they may depend on the others.
        """
        arguments = arguments_of(self.requests)
        for name in sorted(arguments, key=lambda name: is_last(name, arguments[name])):
            why = why_not(name, arguments[name], {**given, **self.applied})
            if why is None:
                self.applied[name] = arguments[name]
            else:
                self.refused[name] = why

    def report(
        self, notes: OverrideNotes, site: Optional[CallSite], in_force: Callable[[str], Any]
    ) -> None:
        """Note the outcome of each request, once the object is constructed."""
        for request in self.requests:
            values = {name: in_force(name) for name in request.arguments}
            notes.report(request.note(self.refused, values, site))


class Blocks(NamedTuple):
    """Alternating blocks of training steps with a switch changed and unchanged."""

    first: int
    """Steps before the first block, in the way that it begins with."""
    steps: int
    begins_changed: bool

    def begins(self, trained: int) -> Optional[int]:
        """The number of the block that begins after so many steps; None within one."""
        past = trained - self.first
        return past // self.steps if past >= 0 and past % self.steps == 0 else None

    def is_changed(self, number: int) -> bool:
        """Whether the switch is changed in a block: pairs of blocks, every other pair reversed."""
        return ((number + 1) // 2 % 2 == 1) != self.begins_changed


class Request(NamedTuple):
    """One override of the run; ``number`` is its place in the manifest's list of them."""

    number: int
    target: str
    arguments: Mapping[str, Any]
    file: Optional[str] = None
    line: Optional[int] = None
    """Line of the call that is meant; every call of the target if no file is given."""
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

        ``refused`` holds reasons by argument, of other overrides too; ``values`` are those in
        force. An argument that is not in force as asked for has a reason, if only that.
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


def request_of(number: int, entry: Any) -> Request | None:
    """The override that the recorder wrote as ``entry``, None if it is not one."""
    if not isinstance(entry, dict) or not isinstance(entry.get("target"), str):
        return None
    arguments, line = entry.get("arguments"), entry.get("line")
    blocks: Any = entry.get("blocks")
    has_blocks = isinstance(blocks, dict) and blocks.get("steps")
    return Request(
        number,
        entry["target"],
        arguments if isinstance(arguments, dict) else {},
        entry.get("file"),
        line if isinstance(line, int) else None,
        entry.get("fix"),
        Blocks(blocks["first"], blocks["steps"], blocks["begins_changed"]) if has_blocks else None,
    )


def wanted(requests: list[Request], site: CallSite | None) -> list[Request]:
    """Those of ``requests`` that are meant for the call at ``site``."""
    return [request for request in requests if request.covers(site)]


def arguments_of(requests: list[Request]) -> dict[str, Any]:
    """The arguments of all ``requests``; the last request wins."""
    return {name: value for request in requests for name, value in request.arguments.items()}


MOST_NOTES = 1000
"""Notes of one process. A script that constructs its loader anew for each epoch causes the same
note each time, which is written once."""


class OverrideNotes:
    """Outcomes of overrides in this process, and in the one it was forked from."""

    def __init__(self) -> None:
        self._reported: dict[str, dict[str, Any]] = {}
        self._notes: Notes | None = None

    def report(self, data: dict[str, Any]) -> None:
        """An object was constructed, or never will be."""
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
