"""Look up what a finding's line does in the table of slow calls, for advice that fits it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np

from perftui.diagnosis.model import COMPUTE_BOUND_ID, READ_MORE, Figure, Finding
from perftui.diagnosis.slow_calls import (
    arrays,
    files,
    forms,
    layers,
    losses,
    media,
    models,
    reporting,
    standard_library,
    structure,
    tables,
    tensors,
    training,
)
from perftui.diagnosis.slow_calls.row import EVALUATION, ITEM, START, STEP, Seen, SlowCall
from perftui.facts.cpu.machine import has_gpu
from perftui.facts.data_loader.batch_place import LEAST_NAMED, REMOTE
from perftui.facts.data_loader.loader import loader_work, training_loader
from perftui.facts.fact import Facts, cached
from perftui.facts.place import Place
from perftui.facts.source.lines import stack_samples
from perftui.facts.source.source_calls import own_program
from perftui.run.columns import COLLATE, FETCH
from perftui.run.table import Table
from perftui.script.forms import forms_at
from perftui.script.item_work import cut_at, fetched_at, search_at
from perftui.script.unread import unread_at
from perftui.script.uses import Use, uses_at
from perftui.trace.model import NONE, Trace

_ROOMS = (
    *(forms, structure, files, tables, media, reporting, arrays, losses, layers, tensors, models),
    *(training, standard_library),
)
ROWS = tuple(sorted((row for room in _ROOMS for row in room.ROWS), key=lambda row: not row.loop))
"""The table, specific rows before general ones: of rows that fit as well the first counts."""

_OF_INPUT = frozenset(
    {"input-in-main-thread", "input-bound", "input-worker-bound", "input-disk-bound"}
    | {"input-uneven", "input-bursty", "input-handover"}
)
_OF_LINES = _OF_INPUT | frozenset(
    {"python-bound", "largest-part", "slow-operator", "sync-bound", "evaluation", "checkpoint"}
    | {"growing-steps", "slow-steps", "launch-bound", "copies-exposed", "pageable-copies"}
    | {"created-on-cpu", "many-small-copies", "slow-start", "allocator-churn", "unfused-attention"}
    | {"loop-of-indexing", "per-parameter-loop", "dropped-results", "layout-copies", "sorting"}
    | {"dense-gradients", "memory-bound-elementwise", "many-backward-passes", "own-process"}
    | {"page-faults", COMPUTE_BOUND_ID}
)
"""Rules whose line, or operator, is what takes the time."""

_GENERAL = (
    "look for what grows",
    "start with ",
    "fuse the longest operators",
    "convolve by Fourier transforms",
    "compute on the whole tensor",
    "make what the workers do cheaper",
)
"""Advice that begins so is none yet."""

_WHERE = {"evaluation": EVALUATION, "slow-start": START}
_ITEMS = r"(@.*\n)*(async )?def (__getitems?__|collate)"

OVERSIZED = 4
"""How many times its sample's tensors a file has at least to hold more than them: torch.save adds
one or two KB, and fewer bits or a crop may halve it twice."""

MOST_FILES = 64
"""Files of a dataset whose sizes are looked at."""

MOST_CALLS = 1000
"""Calls of an operator whose callers are looked at."""


def advised(facts: Facts, finding: Finding) -> Finding:
    """``finding`` with the advice of the row that fits its line, unless it has its own."""
    is_known = finding.advice and not finding.advice.startswith(_GENERAL)
    if is_known or finding.rule not in _OF_LINES:
        return finding
    for place in filter(None, dict.fromkeys((finding.place, *_lines(finding)))):
        if found := row_of(_seen(facts, finding.rule, place)):
            row, use = found
            where = "" if place == finding.place else f"at {place.short}, "
            more = [Figure(READ_MORE, f"{row.source.title}, {row.source.address}")]
            if row.oversized:
                names = "mean size of a file", "tensors of a sample"
                more += map(Figure, names, _sizes(facts), ("B", "B"))
            advice, shown = where + row.advice(use), finding.place or place
            return replace(finding, advice=advice, facts=(*finding.facts, *more), place=shown)
    return finding


def _lines(finding: Finding) -> Iterator[Place]:
    """Other lines that take much of the finding's time."""
    for figure in finding.facts:
        is_much = isinstance(figure.value, (int, float)) and figure.value >= 100 * LEAST_NAMED
        if figure.unit == "%" and is_much and figure.place is not None and figure.place.file:
            yield figure.place


def row_of(seen: Seen) -> tuple[SlowCall, Use | None] | None:
    """The first row about the use that takes most of the place's time; None without one."""
    rows = _rows_about(frozenset(use.last for use in seen.uses))
    shares = [(*row.share(seen), row) for row in rows]
    fits = [(share, use, row) for share, use, row in shares if share and share >= row.least]
    fits = [fit for fit in fits if not fit[2].general] or fits
    # The finding's operator is certain, a call beside it is not.
    told = [fit for fit in fits if not seen.operators.isdisjoint(fit[2].operators.split())]
    fits = [fit for fit in told if fit[1] is not None] or fits
    _, longest, _ = max(fits, key=lambda fit: fit[0], default=(0.0, None, None))
    return next(((row, use) for _, use, row in fits if use is longest or use is None), None)


@lru_cache(64)
def _rows_about(called: frozenset[str]) -> tuple[SlowCall, ...]:
    """The rows that a line with calls of these names may be about: a poll looks up several lines,
    and most rows are about a few names."""
    return tuple(row for row in ROWS if row.operators or row.may_be_called(called))


def _seen(facts: Facts, rule: str, place: Place) -> Seen:
    frames: Counter[tuple[str, str]] = Counter()
    stages: Counter[str] = Counter()
    tables = (*stack_samples(facts), facts.rank.worker_stacks if facts.rank else Table())
    for stacks in tables:
        if "via" not in stacks or not len(stacks):
            continue
        at = (stacks["file"] == place.file) & (stacks["line"] == place.line)
        if rule in _OF_INPUT and not at.any():
            # Installed packages make the batches, and the place is where the loader is made.
            at = np.isin(stacks["stage"], (FETCH, COLLATE))
        columns = (stacks[name][at].tolist() for name in ("via", "inner", "stage", "held"))
        for via, inner, stage, held in zip(*columns, strict=True):
            frames[str(via), str(inner)] += held
            stages[str(stage)] += held
    program = own_program(facts, place.file)
    uses = uses_at(program, place.line or 0) if program else ()
    makes = sum(stages[stage] for stage in (FETCH, COLLATE)) * 2 > stages.total()
    in_item = any(re.match(_ITEMS, use.around) for use in uses)
    where = ITEM if makes or in_item else _WHERE.get(rule, STEP)
    operators, on_device = _operators(facts, place.operator), bool(has_gpu(facts))
    file, sample = _sizes(facts) if any(use.name == "torch.load" for use in uses) else (0, 0)
    oversized = OVERSIZED * sample < file if file and sample else None
    if program:
        unread = unread_at(program, place.line or 0)
        uses += (*([unread.use] if unread else ()), *search_at(program, place.line or 0))
        uses += forms_at(program, place.line or 0)
    if program and where == ITEM:
        feeds = training_loader(facts)
        uses += cut_at(program, place.line or 0, (feeds.num_workers or 0) if feeds else 0)
        # However a sample is made, it need not be made twice.
        uses = fetched_at(program, place.line or 0) or uses
    return Seen(uses, frames, where, operators, on_device, oversized, rule)


def _sizes(facts: Facts) -> tuple[int, int]:
    """Mean bytes of the dataset's files of torch, and of a sample's tensors; 0 if not known."""
    feeds, work = training_loader(facts), loader_work(facts)
    if not (feeds and feeds.path and feeds.batch_size and work and work.batch_bytes):
        return 0, 0
    if (feeds.filesystem or "").startswith(REMOTE):
        return 0, 0
    return _mean_size(Path(feeds.path)), work.batch_bytes // feeds.batch_size


@lru_cache(8)
def _mean_size(path: Path) -> int:
    """Mean bytes of files of torch in a directory, or in that of a file; looked at once, since a
    live run is judged every second."""
    sizes = []
    with suppress(OSError):
        for file in islice(os.scandir(path.parent if path.is_file() else path), MOST_FILES):
            sizes += [file.stat().st_size] if file.name.endswith((".pt", ".pth")) else []
    return sum(sizes) // max(len(sizes), 1)


def _operators(facts: Facts, operator: str | None) -> frozenset[str]:
    """The operator, and what calls it most of the times in the trace; cached with the trace."""
    analysis = facts.analysis
    if operator is None or analysis is None or operator not in analysis.trace.names:
        return frozenset([operator] if operator else [])
    key = (_with_callers, operator)
    return cached(key, analysis.worked_out, lambda: _with_callers(analysis.trace, operator))


def _with_callers(trace: Trace, operator: str) -> frozenset[str]:
    above = Counter[str]()
    rows = np.flatnonzero(trace.name == trace.names.index(operator))[:MOST_CALLS].tolist()
    for row in rows:
        names = set()
        while (row := int(trace.parent[row])) != NONE:
            names.add(trace.name_of(row))
        above.update(names)
    often = (name for name, times in above.items() if 2 * times > len(rows))
    return frozenset(name.rpartition(" ")[2] for name in (operator, *often))
