"""The spool: a small host-local directory through which the agents of a run hand over data.

The run directory may be on a slow shared file system; the training process touches only the spool.
The recorder creates it, names it to the agents in ``PERFTUI_SPOOL``, moves its files into the run
directory, and removes it when the training has ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

SPOOL_VARIABLE = "PERFTUI_SPOOL"
"""Absolute path of the spool; its presence arms the agent."""

OPTIONS_VARIABLE = "PERFTUI_OPTIONS"
"""JSON object of the agent's options, see ``wire.options``."""

OVERRIDES_VARIABLE = "PERFTUI_OVERRIDES"
"""JSON array of overrides, each with ``target``, ``arguments``, ``file``, ``line``, ``fix``."""


class Spool(NamedTuple):
    """Names inside the spool at ``root``.

    No data class: every process of a run imports this, and making one takes three times as long.
    """

    root: Path

    @property
    def control(self) -> Path:
        """The control page, which agents read at step boundaries: see ``wire.control_page``."""
        return self.root / "control"

    def ring(self, pid: int) -> Path:
        """The ring of process ``pid``."""
        return self.root / f"ring-{pid}"

    def rings(self) -> list[Path]:
        """Rings that agents have finished creating."""
        return sorted(path for path in self.root.glob("ring-*") if path.name[5:].isdecimal())

    def notes(self, pid: int) -> Path:
        """Lines of JSON ``{"time", "kind", "duration", "step", "data"}`` by process ``pid``.

        ``time`` is on the wall clock in ns; ``data`` of a ``window`` note holds ``file`` (its name
        in the spool) and ``first_step``, that of a ``process`` note ``python``, ``torch`` and
        ``devices`` (a name for each GPU).
        """
        return self.root / f"notes-{pid}.jsonl"

    def notes_files(self) -> list[Path]:
        """Notes of all processes."""
        paths = self.root.glob("notes-*.jsonl")
        return sorted(path for path in paths if path.stem[6:].isdecimal())

    def trainers(self) -> frozenset[int]:
        """Processes that train: those with a ring."""
        return frozenset(int(path.name.removeprefix("ring-")) for path in self.rings())

    def workers(self) -> frozenset[int]:
        """Processes that load data for another; some may have ended."""
        pairs = (path.name.split("-")[1:3] for path in self.root.glob("loader-*-*-*"))
        return frozenset(int(pid) for owner, pid in pairs if pid != owner)

    def worker_pages(self, owner: int) -> list[Path]:
        """Complete pages of batches for process ``owner``: ``loader-<owner>-<pid>-<begun>``."""
        paths = self.root.glob(f"loader-{owner}-*-*")
        return sorted(path for path in paths if path.suffix != ".new")


SPARED_JOURNAL = "journal.jsonl"
"""File in the directory ``spared``, a line of JSON for each file: ``path``, ``copy`` (a name beside
it, None if there was no file), and ``time``; for each directory that was made ``made``."""


DETAILS = ("shapes", "stacks", "modules", "syncs")
"""What viewers may have windows record besides, by the names of options; on the control page each
is a bit, in this order. Not allocations: recording them in the middle of a run makes torch print
warnings about memory that was allocated before."""


def details_of(mask: int) -> list[str]:
    """The names of the bits of ``mask``."""
    return [name for bit, name in enumerate(DETAILS) if mask >> bit & 1]


@dataclass(frozen=True)
class AgentOptions:
    """Options of the agent, for a whole run."""

    profile: bool = True
    """Whether windows are opened at all; steps are found and timed either way."""
    window_steps: int | None = None
    """Steps in each profiled window; None lets the agent choose by the cost of the last one."""
    first_step: int | None = None
    """The step at which the only window opens; None lets the agent choose when, and how often."""
    overhead: float = 0.01
    """Share of the training's time that recording may take; windows are spaced to stay within."""
    nvtx: bool = False
    """Mark steps and phases of windows as NVTX ranges too, for nsys."""
    shapes: bool = False
    stacks: bool = False
    memory: bool = False
    modules: bool = False
    """Recorded in windows besides operators; each costs time while the window is open."""
    memory_snapshot: bool = False
    """Snapshot the GPU's memory at its peak, and as it runs out; torch then remembers where each
    allocation came from."""
    nsys: bool = False
    """Let nsys record the steps of windows; torch's own profiler stays off, since both need the one
    interface of the driver."""
    max_steps: int | None = None
    """End the training after so many training steps, as a trial does; None lets it run."""
    syncs: bool = False
    """Count in each window the calls that make the host wait for the GPU, by line."""
    losses: int = 0
    """Number of steps whose losses are noted, from the first on with a backward pass."""
    spares_files: bool = False
    """Whether files are copied before the training writes to them, as a trial wants it; to where
    is ``spared``, which the recorder knows."""
    spared: str = ""
    tracer: int = 0
    """A process whose descendants may read the memory of training processes, if the system requires
    permission; 0 if it does not."""

    @property
    def in_detail(self) -> bool:
        """Whether windows record more than operators, which costs more to save."""
        return self.shapes or self.stacks or self.memory or self.modules

    def with_details(self, asked: int) -> AgentOptions:
        """These options with what viewers ``asked`` windows to record, as on the control page."""
        named: dict[str, Any] = dict.fromkeys(details_of(asked), True)
        return replace(self, **named)


def read_options(environment: Mapping[str, str]) -> AgentOptions:
    """The options; unknown ones are ignored, for recorders newer than the agent. Raises ValueError
    if the variable does not hold a JSON object."""
    values = decode(environment.get(OPTIONS_VARIABLE), dict)
    names = {field.name for field in fields(AgentOptions)}
    return AgentOptions(**{name: value for name, value in values.items() if name in names})


def decode(text: str | None, kind: Any) -> Any:
    """The JSON of an environment variable, an empty ``kind`` if it is not set. Raises ValueError if
    it does not hold JSON of that kind."""
    if not text:
        return kind()
    value = json.loads(text)
    if not isinstance(value, kind):
        raise ValueError(f"expected a JSON {kind.__name__}, got {text[:80]!r}")
    return value
