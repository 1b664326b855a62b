"""What the agent is asked to do, as it travels to the training process in its environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from .spool import OPTIONS_VARIABLE

SPARED_JOURNAL = "journal.jsonl"
"""In the directory ``spared``, one line of JSON for each file: ``path``, ``copy`` (a name beside
it, None where the file was not there), and ``time``; for each directory that was made ``made``."""


@dataclass(frozen=True)
class AgentOptions:
    """Options of the agent, in force for a whole run."""

    profile: bool = True
    """Whether windows are opened at all; steps are found and timed either way."""
    window_steps: int | None = None
    """Steps in each profiled window; None lets the agent choose by what the last one cost."""
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
    """What a window records besides operators; each costs time while the window is open."""
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
    """Of how many steps the losses are noted, from the first on that goes backward."""
    spares_files: bool = False
    """Whether files are copied before the training writes to them, as a trial wants it; to where
    is ``spared``, which the recorder knows."""
    spared: str = ""
    tracer: int = 0
    """The process whose descendants may read the memory of those that train, as far as the system
    asks for leave; 0 where that need not be declared."""

    @property
    def in_detail(self) -> bool:
        """Whether windows record more than operators, which costs more to save."""
        return self.shapes or self.stacks or self.memory or self.modules

    def as_profile(self) -> dict[str, Any]:
        """The options as plain values, for the manifest."""
        return asdict(self)

    def encode(self) -> str:
        """The JSON object that ``read_options`` reads from the environment."""
        return json.dumps(self.as_profile())


def read_options(environment: Mapping[str, str]) -> AgentOptions:
    """Options in force; unknown ones are ignored, for recorders newer than the agent.

    Raises:
        ValueError: the variable does not hold a JSON object.
    """
    given = decode(environment.get(OPTIONS_VARIABLE), dict)
    known = {field.name for field in fields(AgentOptions)}
    return AgentOptions(**{name: value for name, value in given.items() if name in known})


def decode(text: str | None, kind: Any) -> Any:
    """The JSON of an environment variable, an empty ``kind`` where it is not set.

    Raises:
        ValueError: it does not hold JSON of that kind.
    """
    if not text:
        return kind()
    value = json.loads(text)
    if not isinstance(value, kind):
        raise ValueError(f"expected a JSON {kind.__name__}, got {text[:80]!r}")
    return value
