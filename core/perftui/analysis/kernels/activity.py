"""What each device did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import Intervals, union
from perftui.analysis.links import Links
from perftui.analysis.model import DeviceActivity
from perftui.trace.categories import KERNEL, MEMCPY, MEMSET
from perftui.trace.model import NONE, Int64, Trace


def device_activities(trace: Trace, links: Links) -> tuple[DeviceActivity, ...]:
    """One for each device that ran anything at a time that can be true, by number."""
    devices = kinds.devices(trace)[links.activity]
    near = kinds.believable(trace)[links.activity]
    return tuple(
        _activity(trace, links, device, devices == device)
        for device in np.unique(devices[near]).tolist()
    )


def busy(trace: Trace, rows: Int64) -> Intervals:
    """When any of the rows runs."""
    return union(trace.start[rows], trace.ends_of(rows))


def _activity(trace: Trace, links: Links, device: int, mine: kinds.Mask) -> DeviceActivity:
    rows = links.activity[mine]
    near = rows[kinds.believable(trace)[rows]]
    sums = {
        category: _count_and_sum(trace, rows, category) for category in (KERNEL, MEMCPY, MEMSET)
    }
    return DeviceActivity(
        device=device,
        name=device_name(trace.metadata, device),
        kernel_count=sums[KERNEL][0],
        kernel_sum=sums[KERNEL][1],
        memcpy_count=sums[MEMCPY][0],
        memcpy_sum=sums[MEMCPY][1],
        memset_count=sums[MEMSET][0],
        memset_sum=sums[MEMSET][1],
        start=int(trace.start[near].min()),
        end=int(trace.ends_of(near).max()),
        busy=busy(trace, near).total,
        unlinked=int(np.count_nonzero(links.launch[mine] == NONE)),
    )


def _count_and_sum(trace: Trace, rows: Int64, category: str) -> tuple[int, int]:
    chosen = rows[trace.in_category(category)[rows]]
    return len(chosen), int(np.sum(trace.duration[chosen]))


def device_name(metadata: Mapping[str, Any], device: int) -> str:
    """What ``deviceProperties`` calls the device, or nothing where it does not know it."""
    listed = metadata.get("deviceProperties")
    for properties in listed if isinstance(listed, list) else []:
        if isinstance(properties, dict) and properties.get("id") == device:
            name = properties.get("name")
            return name if isinstance(name, str) else ""
    return ""
