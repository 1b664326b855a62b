"""A slow and obvious reading of a Kineto file, with exact decimals: what each column must hold."""

import gzip
import json
from collections import Counter, defaultdict
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from perftui.trace.model import NONE

Row = tuple[Any, ...]

UNSIGNED_MINUS_ONE = (2**32 - 1, 2**64 - 1)
ACTIVITY = {"kernel", "gpu_memcpy", "gpu_memset"}
ON_DEVICE = ACTIVITY | {"gpu_user_annotation", "cuda_sync", "cuda_event", "mtia_ccp_events"}
LEGACY = {
    "operator": "cpu_op",
    "runtime": "cuda_runtime",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "python": "python_function",
}
BY_PROCESS = {"CPU functions": "cpu_op", "CUDA functions": "kernel"}
MEMORY = ("Bytes", "Device Type", "Device Id", "Total Allocated", "Total Reserved", "Addr")


def number(value: Any) -> int:
    """An id, as a number or as text."""
    if isinstance(value, str):
        value = int(value, 0)
    return NONE if value is None or value in UNSIGNED_MINUS_ONE else int(value)


def nanoseconds(value: Any) -> int:
    return int(Decimal(value) * 1000)


def category(event: dict[str, Any]) -> str:
    if event.get("cat") is None:
        return BY_PROCESS.get(str(event["pid"]), "")
    lowered = str(event["cat"]).lower()
    return LEGACY.get(lowered, lowered)


def runs_on_host(of_category: str) -> bool:
    return of_category in {"cpu_op", "python_function", "hpu_op"} or of_category.endswith(
        ("_runtime", "_driver")
    )


class ExactReading:
    """The file as ``json`` reads it."""

    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        document = json.loads(text, parse_float=Decimal, strict=False)
        self.around = document if isinstance(document, dict) else {}
        self.events: list[dict[str, Any]] = (
            self.around.pop("traceEvents") if self.around else document
        )
        self.rows = [
            event
            for event in self.events
            if event["ph"] == "X" and str(event.get("cat")).lower() != "trace"
        ]

    @cached_property
    def origin(self) -> int:
        return min(nanoseconds(event["ts"]) for event in self.rows)

    @cached_property
    def process_names(self) -> dict[str, str]:
        return {
            str(event["pid"]): event["args"]["name"]
            for event in self.events
            if event["ph"] == "M" and event["name"] == "process_name"
        }

    @cached_property
    def thread_names(self) -> dict[tuple[str, str], dict[bool, str]]:
        """By ids, then by whether the name is that of a stream."""
        names: dict[tuple[str, str], dict[bool, str]] = defaultdict(dict)
        for event in self.events:
            if event["ph"] == "M" and event["name"] == "thread_name" and event["args"]["name"]:
                name = event["args"]["name"]
                ids = str(event["pid"]), str(event["tid"])
                names[ids][name.lower().split(" ")[0] == "stream"] = name
        return names

    @cached_property
    def sides(self) -> dict[tuple[str, str], set[bool]]:
        """By ids, whether rows there are on a device, as far as their categories tell."""
        sides: dict[tuple[str, str], set[bool]] = defaultdict(set)
        for event in self.rows:
            found = category(event)
            if found in ON_DEVICE or runs_on_host(found):
                sides[str(event["pid"]), str(event["tid"])].add(found in ON_DEVICE)
        return sides

    def columns(self) -> Counter[Row]:
        """Start, duration, name, category, process and thread with their names, correlation,
        external id and bytes of each row; device and stream of activity, of what else is on
        the host NONE, and None where neither is told."""
        return Counter(self._row(event) for event in self.rows)

    def memory(self) -> list[Row]:
        """Columns of the allocators' events, by time, with process and thread last."""
        found = [
            (
                nanoseconds(event["ts"]) - self.origin,
                *(event["args"].get(name, NONE) for name in MEMORY),
                (str(event["pid"]), str(event["tid"])),
            )
            for event in self.events
            if event["ph"] == "i" and event["name"] == "[memory]"
        ]
        return sorted(found, key=lambda row: row[0])

    def _row(self, event: dict[str, Any]) -> Row:
        arguments = event.get("args", {})
        external = number(arguments.get("External id"))
        return (
            nanoseconds(event["ts"]),
            nanoseconds(event.get("dur", 0)),
            event["name"],
            category(event),
            str(event["pid"]),
            str(event["tid"]),
            self.process_names.get(str(event["pid"]), ""),
            self._thread_name(event),
            number(arguments.get("correlation")),
            number(arguments.get("external id")) if external == NONE else external,
            number(arguments.get("bytes")),
            self._place(event),
        )

    def _thread_name(self, event: dict[str, Any]) -> str:
        ids, found = (str(event["pid"]), str(event["tid"])), category(event)
        names, sides = self.thread_names.get(ids, {}), self.sides[ids]
        if found in ON_DEVICE or runs_on_host(found):
            on_device = found in ON_DEVICE
        else:
            on_device = sides == {True}
        if on_device in names:
            return names[on_device]
        return "" if (not on_device) in sides else names.get(not on_device, "")

    def _place(self, event: dict[str, Any]) -> tuple[int, int] | None:
        """Device and stream."""
        found, arguments = category(event), event.get("args", {})
        if found in ACTIVITY:
            ids = arguments.get("device", event["pid"]), arguments.get("stream", event["tid"])
            # In the first profiler's files the ids are words: there is one device, 0.
            return tuple(number(each) if str(each).isdecimal() else NONE for each in ids)
        return (NONE, NONE) if runs_on_host(found) else None
