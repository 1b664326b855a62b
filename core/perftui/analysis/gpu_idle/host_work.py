"""Time in which a thread of the host works in operators without driving the device."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import Intervals, union, unite
from perftui.analysis.once import once
from perftui.trace.model import Int64, Trace

_VIEW = re.compile(
    r"aten::(t|T|transpose|permute|view|_unsafe_view|_reshape_alias|view_as\w*|unsqueeze|squeeze"
    r"|narrow|slice|select|unbind|split\w*|chunk|expand\w*|as_strided|unfold|unflatten\w*|diagonal"
    r"|detach|alias|empty\w*|result_type|lift_fresh|set_|resize_|is_\w+)_?$"
)

COMPUTES = 100_000
"""From so many ns without a sign of life on an operator of PyTorch that calls the driver not once
computes on the CPU: what it does before a launch takes 1 to 50 us, also on slow hosts."""

SILENT = 1_000_000
"""From so many ns without a sign of life on an operator of the script's own computes something."""

SETS_UP = 5_000_000
"""From so many ns without a sign of life on an operator of PyTorch that launches something loads or
chooses it first: less may be an interruption."""


class HostWork(NamedTuple):
    """Exclusive."""

    computing: Intervals
    """In operators that compute on the CPU."""
    setting_up: Intervals
    """In operators of PyTorch that launch something after a long silence: they load a library or
    look for the best algorithm. What PyTorch computes on the CPU is in operators of its own."""


def host_work(trace: Trace, track: int) -> HostWork:
    """What the thread of ``track`` does so: in intervals in which nothing else begins or ends."""
    here = (trace.track == track) & kinds.believable(trace)
    called = np.flatnonzero(here & kinds.launches(trace))
    rows = np.flatnonzero(here & kinds.operators(trace))
    starts, ends = trace.start[rows], trace.ends_of(rows)
    calls = union(trace.start[called], trace.ends_of(called))
    first_calls = np.sort(trace.start[called])
    calls_none = np.searchsorted(first_calls, starts) == np.searchsorted(first_calls, ends)

    def covered(chosen: kinds.Mask) -> Intervals:
        return union(starts[chosen], ends[chosen])

    own = kinds.of_pytorch(trace)[rows]
    views = covered(_only_views(trace)[rows])
    alone, launching = covered(own & calls_none), covered(own & ~calls_none)
    others = covered(~own & ~kinds.of_autograd(trace)[rows])

    silent = _silences(np.concatenate([starts, ends, calls.start, calls.end]))
    silent = silent[~unite(views, calls).holds(silent[:, 0])]
    at, lasting = silent[:, 0], silent[:, 1] - silent[:, 0]
    computes, launches = alone.holds(at), launching.holds(at)
    sets_up = ~computes & launches & (lasting >= SETS_UP)
    computes |= ~launches & others.holds(at) & (lasting >= SILENT)
    return HostWork(union(*silent[computes].T), union(*silent[sets_up].T))


def _silences(times: Int64) -> Int64:
    """Starts and ends, a row each, of intervals of ``COMPUTES`` and more with none of ``times``."""
    ordered = np.sort(times)
    long = np.flatnonzero(np.diff(ordered) >= COMPUTES)
    return np.stack([ordered[long], ordered[long + 1]], axis=1)


@once
def _only_views(trace: Trace) -> kinds.Mask:
    """Operators that never touch what tensors hold: one that takes long has been interrupted."""
    return kinds.operators(trace) & kinds.named(trace, _VIEW.match)
