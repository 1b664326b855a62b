"""A recorded run, and the events of its window as plain dictionaries."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from perftui.analysis.analyse import analyse
from perftui.analysis.model import TraceAnalysis
from perftui.run.reader import RankSnapshot
from perftui.trace.formats import load_trace

ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
LAUNCHING = frozenset({"cuda_runtime", "cuda_driver"})

Event = dict[str, Any]


@dataclass(frozen=True)
class Recorded:
    """``rank`` is its only one."""

    root: Path
    rank: RankSnapshot

    @property
    def window(self) -> Path:
        """Its only one."""
        (path,) = self.rank.windows
        return path

    @property
    def window_facts(self) -> dict[str, Any]:
        """What the agent noted of it."""
        events = zip(self.rank.events["kind"], self.rank.events["data"], strict=True)
        (facts,) = (data for kind, data in events if kind == "window")
        return dict(facts)

    @cached_property
    def analysis(self) -> TraceAnalysis:
        """What perftui reads out of the window."""
        return analyse(load_trace(self.window))

    @cached_property
    def events(self) -> list[Event]:
        """What has a beginning and an end."""
        events = json.loads(self.window.read_bytes())["traceEvents"]
        return [event for event in events if event.get("ph") == "X"]

    def of(self, *categories: str) -> list[Event]:
        """Events of these categories, by their beginning."""
        found = (event for event in self.events if event.get("cat") in categories)
        return sorted(found, key=lambda event: float(event["ts"]))


def begin(event: Event) -> float:
    return float(event["ts"])


def end(event: Event) -> float:
    return float(event["ts"]) + float(event["dur"])


def correlation(event: Event) -> int | None:
    """What an event on the device has in common with the call that launched it."""
    number: int | None = event["args"].get("correlation")
    return number
