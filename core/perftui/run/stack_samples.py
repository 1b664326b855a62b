"""The journals of where a training's main thread and its data-loader workers were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perftui.run.journal import Column
from perftui.run.journal_table import Kept

STACK_COLUMNS = (
    Column("time", "ns", "first seen there"),
    Column("held", "ns", "until it was seen elsewhere"),
    Column("samples", "count", "times a stack was first seen there, at least 1"),
    Column("file", "", "source file of the user's code, empty if none was on the stack"),
    Column("line", "count", "its line, -1 if none"),
    Column("function", "", "the function of that line"),
    Column("inner", "", "innermost frame"),
    Column("every", "ns", "mean time between samples"),
    Column("stage", "", "the activity: one of STAGES, empty for anything else"),
    Column("via", "", "what that line called: file and function of the inner frame"),
)
"""A row is an interval in which every sample found one line and one innermost frame. Samples come
at random moments, so an interval stands in the mean for its share of the time, and of its moments
only the first is certain."""

WORKER_STACK_COLUMNS = (
    *STACK_COLUMNS,
    Column("pid", "count", "process"),
    Column("loader", "count", "data loader"),
)
"""Stacks of data loader workers. One is sampled at a time, so their rows do not overlap."""

LOCK_COLUMNS = (
    *STACK_COLUMNS,
    Column("observed", "ns", "how long it was sampled"),
    Column("idle", "ns", "of that, the main thread neither ran nor waited for a core; or -1"),
)
"""Stacks of other threads than the main one while they held Python's lock. The rows of one turn
have the same ``observed`` and ``idle``; turns in which no other thread held it have no row."""

STACK_TEXT = frozenset({"file", "function", "inner", "stage", "via"})
"""Columns of text."""

FETCH, COLLATE, WAIT = "fetch", "collate", "wait"
"""A batch is being made there, or a worker waits for the next task."""

FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"
COMPILE, SAVE, PROFILE = "compile", "save", "profile"
"""torch.compile at work, a checkpoint being written, a profiler of the script's own."""

STAGES = (FETCH, COLLATE, WAIT, FORWARD, BACKWARD, OPTIMIZER, COMPILE, SAVE, PROFILE)
"""Stages of a stack, a main thread's without ``wait``; runs recorded before December 2026 have the
first two."""

KEPT_STACKS = Kept(4096, 32768)
"""Over an hour of newest samples at ten a second."""

STACK_RATE = 10
"""What the command asks for by default. With 46 frames on the stack a sample took
py-spy 0.3 ms of a core, so all of them 0.4 % of one, beside the training; a loop of 1 ms took 0.99
times as long with them as without (0.96 to 1.01 in eight turns)."""

INNER_EVERY = 5_000_000
"""Mean ns between samples from inside, in a window."""

STACK_RATE_KEY = "stack_rate"
"""Key in the manifest's ``profile``: how many samples a second were asked for."""

NO_STACKS = "no_stacks"
"""Key in the manifest's ``profile``: why there are no stack samples, in words."""


def stack_rate_of(profile: Mapping[str, Any]) -> int:
    """How many samples a second the ``profile`` of a manifest asks for, 0 where it does not."""
    # Runs recorded before November 2026 name it "looks".
    rate = profile.get(STACK_RATE_KEY, profile.get("looks", 0))
    return rate if isinstance(rate, int) and rate > 0 else 0
