"""What TraceLens computes, from our columns."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from perftui.analysis.intervals import subtract
from tests.verify.corpus.opened import Device, Opened, opened
from tests.verify.corpus.outcome import MET, Differs, Verdict, explained, not_shown

UNLINKED = explained("TraceLens", Differs.UNLINKED)


def _copies(it: Device) -> int:
    return it.covered(it.trace.in_category("gpu_memcpy")).total


def _exposed_copies(it: Device) -> int:
    return it.busy.total - it.covered(it.trace.in_category("kernel", "gpu_memset")).total


TIMES: dict[str, Callable[[Device], int]] = {
    "computation_time_us": lambda it: it.computing.total,
    "exposed_comm_time_us": lambda it: subtract(it.communication, it.computing).total,
    "exposed_memcpy_time_us": _exposed_copies,
    "busy_time_us": lambda it: it.busy.total,
    "idle_time_us": lambda it: it.span - it.busy.total,
    "total_time_us": lambda it: it.span,
    "total_comm_time_us": lambda it: it.communication.total,
    "total_memcpy_time_us": _copies,
}


def claims(entry: dict[str, Any]) -> bool:
    """Whether the entry is from TraceLens."""
    return bool(entry["quantity"].startswith("tracelens."))


def judge(entry: dict[str, Any]) -> Verdict:
    """The verdict on one entry; fails where our columns do not give the value."""
    quantity = entry["quantity"].removeprefix("tracelens.")
    it = opened(entry["trace"])
    if quantity.startswith("category["):
        return not_shown("kernel time by kind of operator")
    if ".is_recompute=" in quantity:
        return not_shown("time of recomputed activations by itself")
    if quantity.startswith("collective["):
        assert _collectives(it)[_key(entry["value"])] == pytest.approx(_figures(entry["value"]))
        return MET
    value = TIMES[quantity]
    # TraceLens adds doubles, which in recent files are 0.12 us apart and more; its stated
    # tolerance is 2 us.
    wanted = pytest.approx(entry["value"], abs=0.12, rel=0)
    if value(it.device) / 1000 == wanted:
        return MET
    assert value(it.linked) / 1000 == wanted, quantity
    return UNLINKED


_KEY = ("Collective name", "dtype", "In msg nelems", "stream")


def _key(arguments: dict[str, Any]) -> tuple[str, ...]:
    return tuple(re.sub(r"\.0$", "", str(arguments.get(name))) for name in _KEY)


def _figures(value: dict[str, Any]) -> list[float]:
    return [float(value[name]) for name in ("dur_sum", "dur_mean", "dur_min", "dur_max")] + [
        float(value["operation_count"])
    ]


def _collectives(it: Opened) -> dict[tuple[str, ...], list[float]]:
    """Durations in us of kernels that communicate, by what they say they communicate."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for row in it.device.rows[it.device.is_communication[it.device.rows]].tolist():
        key = _key(dict(it.trace.read_arguments(row)))
        groups.setdefault(key, []).append(int(it.trace.duration[row]) / 1000)
    return {
        key: [sum(each), float(np.mean(each)), min(each), max(each), float(len(each))]
        for key, each in groups.items()
    }
