"""Workers of the data loader that died, by what torch prints of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact
from perftui.run.files import open_regular
from perftui.run.layout import RunLayout
from perftui.run.manifest import Status
from perftui.trace.text import printable

FIRST_BYTES, LAST_BYTES = 1 << 20, 1 << 16
"""Bytes of the output that are read from its beginning and from its end, where most such messages
are: a worker that dies ends the training, unless the script goes on by itself."""

LONGEST = 160
"""Characters of a message's first sentence that are kept."""

_SHARED_MEMORY = (
    rb"unable to open shared memory object",
    rb"unable to allocate shared memory\(shm\)",
    rb"unable to (?:write to|resize|mmap \d+ bytes from) file </torch_",
    rb"Unexpected bus error encountered in worker",
    rb"DataLoader worker \(pid \d+\) is killed by signal: Bus error",
)
_FILES = (rb"Too many open files\. Communication with the workers",)
_KILLED = (
    rb"DataLoader worker \(pid \d+\) is killed by signal: (?!Bus error|Terminated|Interrupt)",
)
_ENDED = (rb"DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly",)

_CAUSES = {
    "shared memory": _SHARED_MEMORY,
    "open files": _FILES,
    "killed": _KILLED,
    "ended": _ENDED,
}
"""Beginnings of messages by what they report, the one that names a cause first."""

_ANY = re.compile(b"|".join(b"(%s)" % b"|".join(texts) for texts in _CAUSES.values()))
_NAMES = tuple(_CAUSES)


@dataclass(frozen=True)
class WorkerDeath:
    """The message that explains most."""

    cause: str
    """``shared memory``, ``open files``, ``killed`` (by a signal) or ``ended`` (by itself)."""
    message: str
    messages: int
    """How many of the kind there are in what was read."""


@fact
def worker_death(facts: Facts) -> WorkerDeath | None:
    """What the output says of workers that died; None where it says nothing.

    Raises:
        NotApplicableError: there is no run.
        UnknownError: its output cannot be read.
    """
    if facts.run is None:
        raise NotApplicableError
    path = RunLayout(facts.run.root).output
    try:
        found = _deaths(path, path.stat().st_size)
    except OSError as error:
        raise UnknownError(f"the output cannot be read: {error.strerror}") from error
    # Who ends the training ends its workers too, and torch may say so.
    is_ended = facts.run.manifest.status is Status.KILLED
    return None if found is not None and found.cause == "ended" and is_ended else found


@lru_cache(maxsize=8)
def _deaths(path: Path, size: int) -> WorkerDeath | None:
    """What the log at ``path`` says in its first ``size`` bytes; it only grows."""
    with open_regular(path) as file:
        content = file.read(min(size, FIRST_BYTES))
        if size > FIRST_BYTES:
            file.seek(max(size - LAST_BYTES, FIRST_BYTES))
            content += file.read(LAST_BYTES)
    found = [(match.lastindex or 1, match.start()) for match in _ANY.finditer(content)]
    if not found:
        return None
    kind, at = min(found)
    end = content.find(b"\n", at)
    line = content[at : end if end >= 0 else None].decode("utf-8", "replace").strip()
    same = sum(one == kind for one, _ in found)
    return WorkerDeath(_NAMES[kind - 1], printable(line.partition(". ")[0])[:LONGEST], same)
