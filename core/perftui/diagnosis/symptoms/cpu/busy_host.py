"""Other programs take the cores that the training could use."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.cpu.core_wait import core_wait
from perftui.facts.cpu.machine import BUSY_SHARE, busy_host, machine_use
from perftui.facts.fact import Facts, NotApplicableError, fact
from perftui.facts.samples import noted_of_host
from perftui.facts.step.judged_step import judged_step
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


WORTH_NAMING = 0.05
"""Cores that a program takes from which on it is named."""


def _busy(facts: Facts) -> Lost | None:
    """The time in which a thread of the training was ready to run and waited for a core, as far as
    others were the reason and not more threads of its own than cores."""
    if facts.run is None:
        raise NotApplicableError
    use = machine_use(facts)
    if not busy_host(facts) or use.other_cores is None or not use.cores:
        return None
    waited, judged, others = core_wait(facts), judged_step(facts), use.other_cores
    cost = round(waited * judged.of.mean)
    if judged.on_device:
        cost = min(cost, judged.of.mean - judged.computing)
    seen = other_programs(facts)
    programs = [each for each in seen if each.cores >= WORTH_NAMING]
    figures = [
        Figure("other programs, cores", round(others, 1), threshold=BUSY_SHARE * use.cores),
        Figure("cores", use.cores, "count"),
        Figure.share("waiting for a core", use.delayed or 0.0),
        *(Figure.share(f"{each.label}, of a core", each.cores) for each in programs),
        Figure("mean step", judged.of.mean, "ns"),
        Figure("steady steps", judged.of.count, "count"),
    ]
    return Lost(
        cost,
        judged.of,
        f"Other programs take {others:.1f} of {fmt.several(use.cores, 'core')}{_named(programs)}: "
        f"the training waits for a core {fmt.part_of_step(cost, judged.of.mean)}.",
        tuple(figures),
        parts=tuple(part.name for part in judged.parts if part.computes != judged.on_device),
        unproven="" if seen else "the names of those programs, which are outside the container",
    )


def _named(programs: list[Program]) -> str:
    """The first three, each with the number of its busiest process."""
    first = [replace(each, pids=each.pids[:1]).label for each in programs[:3]]
    return f" ({', '.join(first)})" if first else ""


BUSY_HOST = Rule(
    id="busy-host",
    when="other programs take cores from the training",
    explanation=(
        "Programs outside the run keep at least a fifth of the cores busy while threads of the "
        "training wait for a core. All other findings were measured on a busy machine. The cost "
        "is the time that the longest-waiting thread was ready to run but had no core."
    ),
    lost=_busy,
    limits=Limits(
        0.30,
        1.0,
        "Measurements are unreliable once other programs use a fifth of the cores and tasks wait "
        "a tenth of the time. It is not the training's fault, so the limits are high.",
        info=0.10,
    ),
    answer="stop the other programs, or run elsewhere or later",
)
