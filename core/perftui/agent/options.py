"""What the recorder asks of the agent, read from the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .overrides.request import Request, request_of

OPTIONS_VARIABLE = "PERFTUI_OPTIONS"
OVERRIDES_VARIABLE = "PERFTUI_OVERRIDES"


@dataclass(frozen=True)
class Options:
    """Options of one run; an unknown one is ignored, for recorders newer than the agent."""

    profile: bool = True
    """Open windows at all."""
    window_steps: int | None = None
    """Steps in each window; None leaves it to what the last one cost."""
    first_step: int | None = None
    """Open the one window at this step, and none by itself."""
    overhead: float = 0.01
    """Share of the training's time that recording may take, windows included."""
    nvtx: bool = False
    """Mark phases with NVTX ranges too."""
    shapes: bool = False
    stacks: bool = False
    """Record Python frames, so that a finding can name a line. They made a window of two 30 ms
    steps hold up the training 12 ms instead of 6, one of ten 1 ms steps 98 ms instead of 37."""
    memory: bool = False
    modules: bool = False
    """Mark the calls of modules, 3 us each, so that operators can be told apart by them."""
    memory_snapshot: bool = False
    """Have torch keep who allocated what on the GPU, and write it down at the peak of memory and as
    that runs out."""
    nsys: bool = False
    """nsys records the steps of windows: torch's own profiler stays off, both need the one
    interface of the driver."""
    max_steps: int | None = None
    """End the script after so many steps."""
    syncs: bool = False
    """Count in each window the calls that synchronise, by line."""
    tracer: int = 0
    """The process whose descendants may read this one's memory, where that must be declared."""

    @property
    def in_detail(self) -> bool:
        """Whether windows record more than operators, which costs more to save."""
        return self.shapes or self.stacks or self.memory or self.modules


def read_options(environment: Mapping[str, str]) -> Options:
    """Options in force.

    Raises:
        ValueError: the variable does not hold a JSON object.
    """
    given = _decode(environment.get(OPTIONS_VARIABLE), dict)
    known = {field.name for field in fields(Options)}
    return Options(**{name: value for name, value in given.items() if name in known})


def read_overrides(environment: Mapping[str, str]) -> list[Request]:
    """The overrides of the run, as the recorder wrote them.

    Raises:
        ValueError: the variable does not hold a JSON array.
    """
    given = _decode(environment.get(OVERRIDES_VARIABLE), list)
    read = (request_of(number, one) for number, one in enumerate(given))
    return [request for request in read if request is not None]


def _decode(text: str | None, kind: Any) -> Any:
    if not text:
        return kind()
    value = json.loads(text)
    if not isinstance(value, kind):
        raise ValueError(f"expected a JSON {kind.__name__}, got {text[:80]!r}")
    return value
