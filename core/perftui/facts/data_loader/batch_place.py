"""Where batches are made, by line of user code, and what workers read meanwhile."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perftui import format as fmt
from perftui.facts.data_loader.loader import training_loader, worker_rows, worker_use
from perftui.facts.fact import Facts, fact
from perftui.facts.place import Place
from perftui.facts.source.lines import (
    FEWEST_SAMPLES,
    FEWEST_TO_NAME,
    LinesByTime,
    LineShare,
    lines_by_time,
    sampled,
    stack_samples,
)
from perftui.facts.source.source_calls import in_own_files
from perftui.facts.step.steps import steady_rows, steady_span
from perftui.run.columns import COLLATE, FETCH, WAIT
from perftui.run.table import Table
from perftui.script.program import Program
from perftui.trace.model import Int64, Mask
from perftui.trace.text import printable

LEAST_NAMED = 0.25
"""Share of making batches from which a line is named."""

_ITERATOR = "torch/utils/data/dataloader.py"
"""Start of the frame that the user's innermost line called when it only requests a batch: installed
packages then make the whole batch."""


@dataclass(frozen=True)
class BatchLines:
    """Lines of user code that make batches, by ``lines`` of all code."""

    lines: LinesByTime
    first: LineShare | None
    """The first line, if it or its function is the user's and takes enough of the time."""
    named: str
    """``71 % of it at train.py:6``; the function, or the frame of a package, if no line stands out;
    empty if none does, or there are too few samples."""


@fact
def making_batches(facts: Facts) -> tuple[Table, Int64]:
    """Samples of the thread that makes batches, a worker's or the training's, and the ns within the
    steady steps that each stands for, 0 where it does something else."""
    feeds = training_loader(facts)
    if facts.rank is not None and feeds is not None and feeds.num_workers:
        stacks, time = facts.rank.worker_stacks, _worker_times(facts, feeds.numbers)
    else:
        stacks, time = sampled(facts)
    if "stage" not in stacks:
        return stacks, np.zeros(len(stacks), dtype=np.int64)
    return stacks, np.where(np.isin(stacks["stage"], (FETCH, COLLATE)), time, 0)


@fact
def batch_lines(facts: Facts) -> BatchLines | None:
    """Where batches are made over the steady steps, in workers or in the training thread; None with
    fewer than ``FEWEST_TO_NAME`` samples."""
    stacks, time = making_batches(facts)
    lines = lines_by_time(stacks, time)
    if lines.samples < FEWEST_TO_NAME:
        return None
    # Lines that only request a batch do not make it.
    own = lines_by_time(stacks, np.where(asks_loader(stacks, time), 0, time), lines.samples)
    (first, at), named = own.named(LEAST_NAMED * lines.covered), ""
    if first is not None:
        named = f"{fmt.percent(lines.share(first))} of it {at}"
    elif inner := _package_frame(stacks, time, lines.covered):
        named = f"mostly in {inner}"
    return BatchLines(lines, first, named if lines.samples >= FEWEST_SAMPLES else "")


def asks_loader(stacks: Table, time: Int64) -> Mask:
    """Which rows with time are of lines that request a batch from the loader."""
    asks = np.zeros(len(stacks), dtype=np.bool_)
    if "via" in stacks:
        rows = np.flatnonzero(time > 0)
        asks[rows] = [str(via).startswith(_ITERATOR) for via in stacks["via"][rows].tolist()]
    return asks


def _package_frame(stacks: Table, times: Int64, covered: int) -> str:
    """The package function with most of the time; empty if none stands out."""
    spent: Counter[str] = Counter()
    rows = np.flatnonzero(times > 0)
    for inner, time in zip(stacks["inner"][rows].tolist(), times[rows].tolist(), strict=True):
        at, _, function = str(inner).rpartition(" ")
        spent[f"{at.partition(':')[0]} {function}"] += time
    names = (name for name, time in spent.most_common(1) if time >= LEAST_NAMED * covered)
    return printable(next(names, ""))


def _worker_times(facts: Facts, numbers: tuple[int, ...]) -> Int64:
    """ns within the steady steps that each worker sample stands for, of the loaders ``numbers``."""
    stacks, during = facts.rank.worker_stacks if facts.rank else Table(), steady_span(facts)
    if "loader" not in stacks or during is None:
        return np.zeros(len(stacks), dtype=np.int64)
    begin = np.maximum(stacks["time"], during[0])
    end = np.minimum(stacks["time"] + stacks["held"], during[1])
    serves = np.isin(stacks["loader"], np.array(numbers, dtype=np.int64))
    return np.where(serves, np.maximum(end - begin, 0), 0)


@fact
def batch_place(facts: Facts) -> Place | None:
    """The line that makes batches; without samples the call that makes the loader; None if neither
    is known."""
    lines = batch_lines(facts)
    return facts.at(lines.first) if lines and lines.first else loader_place(facts)


def loader_place(facts: Facts) -> Place | None:
    """The call that makes the loader; None if unknown."""
    feeds = training_loader(facts)
    return facts.at(feeds) if feeds is not None and feeds.file is not None else None


def collate_place(facts: Facts) -> Place | None:
    """Where the user's own collate function returns a batch; None where it is not known."""
    feeds = training_loader(facts)
    name = (feeds.collate_fn or "").rpartition(".")[2] if feeds else ""

    def returns(program: Program) -> Iterator[int]:
        for node in program.nodes:
            # What returns its argument puts nothing together.
            is_own = getattr(program.function(node), "name", "") == name
            if isinstance(node, ast.Return) and is_own and not isinstance(node.value, ast.Name):
                yield node.lineno

    found = in_own_files(facts, returns)
    return facts.at(LineShare(*found[-1])) if found else None


def asking_place(facts: Facts) -> Place | None:
    """The line that requests the loader's iterator, by samples; else the loader's own line."""
    outside, inside = stack_samples(facts)
    stacks = outside if len(outside) else inside
    if "via" not in stacks or not len(stacks):
        return loader_place(facts)
    time = stacks["held"]
    lines = lines_by_time(stacks, np.where(asks_loader(stacks, time), time, 0)).lines
    return facts.at(lines[0]) if lines and lines[0].file else loader_place(facts)


@dataclass(frozen=True)
class WorkerLines:
    """Lines by the time in which workers make batches, and the share of their time it is."""

    making: LinesByTime
    busy: float
    """Share of the workers' time in which they make batches, by the samples, 0 to 1."""
    collate: float
    """Share of the collate function in the time of making batches, 0 to 1."""


@fact
def loader_lines(facts: Facts) -> WorkerLines | None:
    """Lines of the loader's workers over the steady steps; None if fewer than ``FEWEST_SAMPLES``
    found them making a batch."""
    feeds = training_loader(facts)
    if facts.rank is None or feeds is None or not len(stacks := facts.rank.worker_stacks):
        return None
    time, stage = _worker_times(facts, feeds.numbers), stacks["stage"]
    collating = np.where(stage == COLLATE, time, 0)
    making = np.where(stage == FETCH, time, collating)
    staged = making + np.where(stage == WAIT, time, 0)
    lines = lines_by_time(stacks, making)
    if lines.samples < FEWEST_SAMPLES:
        return None
    busy = lines.covered / int(staged.sum())
    return WorkerLines(lines, busy, collate=int(collating.sum()) / lines.covered)


REMOTE = (
    *("nfs", "cifs", "smb", "fuse", "lustre", "ceph"),
    *("gpfs", "beegfs", "9p", "afs", "glusterfs"),
)
"""Prefixes of file systems that are, or may be, on another machine."""


SMALL_READ = 64 * 1024
MANY_READS = 500.0
"""Bytes per read and reads a second that mark many small files; datapath-doctor's."""

READS = 1e6
"""Bytes a second from storage from which workers count as reading."""

PAGE_FAULTS = 100.0
"""Page faults a second from which memory is too small for what is mapped or held."""

COLD = 3.0
"""Ratio of bytes read in the first third to the last for files read for the first time;
gpuprof's."""

WARM_WAIT = 0.10
"""Largest share of wait in the last third of steps, if the wait was due to a cold cache."""


@fact
def reading(facts: Facts) -> str:
    """What the workers wait for while they make batches, as the end of a sentence, with the disk or
    mount and the read rate if known."""
    use, feeds = worker_use(facts), training_loader(facts)
    where = ""
    if feeds is not None and feeds.filesystem:
        where = f" ({feeds.filesystem} at {feeds.mount or feeds.path})"
    small = ""
    if use.mean_read is not None and use.mean_read < SMALL_READ and use.reads >= MANY_READS:
        small = f", {use.reads:.0f} reads of {fmt.size(use.mean_read)} a second"
    if use.faults >= PAGE_FAULTS and use.read >= READS:
        return f"for pages that do not fit in memory ({fmt.size(use.read)} a second){where}"
    if use.read >= READS:
        return f"for the disk{where}: {fmt.size(use.read)} a second{small}"
    kind = (feeds.filesystem if feeds else None) or ""
    is_mounted = feeds is not None and feeds.mount is not None
    if kind.startswith(REMOTE) if is_mounted else kind not in ("", "file"):
        return f"for files of another machine{where}{small}"
    if small:
        return f"for files{where}{small}"
    return f"for a network, a lock or a clock{where} instead of computing"


@fact
def is_first_reading(facts: Facts) -> bool:
    """Whether files were read for the first time and later steps hardly wait: no fault of the
    training's."""
    rows, steps = worker_rows.or_none(facts), steady_rows(facts)
    if rows is None or "read" not in rows or len(rows) < 6 or len(steps) < 6:
        return False
    ordered = np.argsort(rows["time"], kind="stable")
    third = len(ordered) // 3
    first, last = (int(rows["read"][part].sum()) for part in (ordered[:third], ordered[-third:]))
    late = slice(-(len(steps) // 3), None)
    waits, whole = (int(steps[name][late].sum()) for name in ("input_wait", "duration"))
    return first >= READS and first >= COLD * last and waits < WARM_WAIT * whole
