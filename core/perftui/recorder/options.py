"""What the agent is asked to do, as it travels to the training process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec


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
    """Mark phases as NVTX ranges too, for nsys."""
    shapes: bool = False
    stacks: bool = False
    memory: bool = False
    modules: bool = False
    """What a window records besides operators; each costs time while the window is open."""
    memory_snapshot: bool = False
    """Keep what the GPU's memory holds at its peak, and as it runs out."""
    nsys: bool = False
    """Let nsys record the steps of windows, instead of torch's own profiler."""
    max_steps: int | None = None
    """End the training after so many training steps, as a trial does; None lets it run."""
    syncs: bool = False
    """Count in each window the calls that make the host wait for the GPU, by line."""
    tracer: int = 0
    """The process whose descendants may read the memory of those that train, as far as the system
    asks for leave; 0 where it need not be said."""

    def encode(self) -> str:
        """The JSON object that the agent reads from its environment."""
        return msgspec.json.encode(asdict(self)).decode()

    def as_profile(self) -> dict[str, Any]:
        """The same as plain values, for the manifest."""
        return asdict(self)


def options_of(profile: Mapping[str, Any]) -> AgentOptions:
    """The options among the ``profile`` facts of a manifest; what is not there has its default.

    All have their defaults where another version wrote them in another form.
    """
    try:
        return msgspec.convert(profile, AgentOptions)
    except msgspec.ValidationError:
        return AgentOptions()
