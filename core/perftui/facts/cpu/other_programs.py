"""Programs beside the run that used the cores of its machine."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.facts.fact import Facts, fact
from perftui.facts.samples import noted_of_host
from perftui.format import middle
from perftui.run.manifest import OTHER_PROGRAMS
from perftui.trace.text import printable

_NAME_CELLS = 28


@dataclass(frozen=True)
class Program:
    """A program beside the run."""

    name: str
    """With the script that it runs; safe to show, of a long one the beginning and the end."""
    cores: float
    """Mean cores that it took."""
    pids: tuple[int, ...] = ()
    """Its processes that lived when it was last looked at, busiest first; of many the first."""

    @property
    def label(self) -> str:
        """``pid 4123 python other.py``; of several ``pids 4123, 4124 python other.py``."""
        if not self.pids:
            return self.name
        numbers = ", ".join(map(str, self.pids))
        return f"{'pid' if len(self.pids) == 1 else 'pids'} {numbers} {self.name}"


@fact
def other_programs(facts: Facts) -> tuple[Program, ...]:
    """The busiest programs beside the run on the rank's host, busiest first; empty where none was
    seen, as in a container."""
    host = noted_of_host(facts, OTHER_PROGRAMS) if facts.rank else None
    cores = host.get("cores") if isinstance(host, dict) else None
    pids = host.get("pids") if isinstance(host, dict) else None
    # Older recordings have no process numbers.
    known = pids if isinstance(pids, dict) else {}
    return tuple(
        Program(middle(printable(name), _NAME_CELLS), taken, tuple(known.get(name, ())))
        for name, taken in (cores.items() if isinstance(cores, dict) else ())
    )
