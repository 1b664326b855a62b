"""Waits for data of a training that makes its batches itself, or restarts its loader."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Limits, Lost, rule, step_figures
from perftui.facts.cpu.machine import has_gpu, machine_use
from perftui.facts.data_loader.batch_place import (
    asking_place,
    asks_loader,
    batch_lines,
    batch_place,
    loader_place,
)
from perftui.facts.data_loader.input_wait import (
    InputWait,
    better_without_workers,
    fetches_in_main_thread,
    input_wait,
)
from perftui.facts.data_loader.loader import (
    LoaderFacts,
    fetch_cpu,
    fetch_demand,
    loader_starts,
    loader_work,
    training_loader,
)
from perftui.facts.fact import Facts, fact
from perftui.facts.source.lines import FEWEST_SAMPLES, lines_by_time, stack_samples, steady_held
from perftui.facts.step.steps import batches_ready, steady_step, step_breakdown, wait_p95

WAIT_LIMITS = Limits("As in TraceML.", 0.10, 0.20)

MOST_LINES = 3
"""Most lines listed by a finding."""


def wait_figures(wait: InputWait, facts: Facts, limits: Limits) -> list[Figure]:
    """The wait itself, and the time to make batches."""
    share = wait.wait / wait.of.mean if wait.of.mean else 0.0
    figures = [
        Figure.share("data loader wait", share, limits.warning),
        Figure("mean wait", wait.wait, "ns"),
    ]
    if wait.host:
        figures.append(Figure("of the training thread", wait.host, "ns"))
    figures += step_figures(wait.of)
    if not wait.of.of_run:
        return figures
    cpu, work, p95 = fetch_cpu(facts), loader_work(facts), wait_p95(facts)
    if cpu is not None:
        figures.append(Figure.share("CPU use while fetching", cpu))
    if work is not None:
        figures.append(Figure("fetching a batch", work.fetch, "ns"))
        figures.append(Figure("collating a batch", work.collate, "ns"))
        if work.busy is not None:
            figures.append(Figure.share("workers busy", work.busy))
        if work.batch_bytes:
            figures.append(Figure("tensors of a batch", work.batch_bytes, "B"))
    if p95 is not None:
        figures.append(Figure("95 % of waits are below", p95, "ns"))
    return figures


def loader_in_main(facts: Facts) -> list[Figure]:
    """Figures of a loader without workers: its lines, and where it is made."""
    feeds = training_loader(facts)
    figures = [*worker_figures(facts), *_lines(facts)]
    if feeds and feeds.dataset:
        figures.append(Figure("dataset", feeds.dataset))
    if feeds and feeds.source:
        figures.append(Figure("loader made at", feeds.source, place=facts.at(feeds)))
    return [*figures, *_cores(facts)]


def loader_of_workers(facts: Facts) -> list[Figure]:
    """Figures of a loader with workers: their lines, its queue, and their use of the machine."""
    figures = [*worker_figures(facts), *_lines(facts)]
    ready, host = batches_ready(facts), machine_use(facts)
    if ready is not None:
        figures.append(Figure("batches ready, median", ready, "count"))
    if host.workers_cores is not None:
        figures.append(Figure("cores used by workers", round(host.workers_cores, 1)))
    if host.workers_read is not None:
        figures.append(Figure("read by workers in a second", round(host.workers_read), "B"))
    if host.tree_cores is not None:
        figures.append(Figure("cores used by the training", round(host.tree_cores, 1)))
    return [*figures, *_cores(facts)]


def worker_figures(facts: Facts) -> list[Figure]:
    """The loader's number of workers, if known, at the line that makes the loader."""
    feeds = training_loader(facts)
    if feeds is None or feeds.num_workers is None:
        return []
    return [Figure("num_workers", feeds.num_workers, "count", place=facts.at(feeds))]


def _lines(facts: Facts) -> list[Figure]:
    """The user's lines that take longest in making batches, as shares of that."""
    made = batch_lines(facts)
    if made is None or made.lines.samples < FEWEST_SAMPLES:
        return []
    lines = made.lines
    own = [line for line in lines.listed if line.file][:MOST_LINES]
    return [Figure.share("making batches", lines.share(line), place=facts.at(line)) for line in own]


def _cores(facts: Facts) -> list[Figure]:
    """The cores the training may use, if known."""
    cores = machine_use(facts).cores
    return [] if cores is None else [Figure("cores", cores, "count")]


WAIT = Claim(idle=GapCause.INPUT_WAIT, phase="input_wait")

wait_rule = partial(rule, limits=WAIT_LIMITS, claims=WAIT)
"""Make a rule about the wait for data."""


def waits_for_workers(facts: Facts) -> InputWait | None:
    """The run's wait, if it is worth a warning and caused by a loader with workers."""
    wait, feeds = input_wait.or_none(facts), training_loader(facts)
    if wait is None or feeds is None or not feeds.num_workers or not wait.of.of_run:
        return None
    return wait if wait.wait >= WAIT_LIMITS.warning * wait.of.mean else None


def workers(facts: Facts) -> int:
    """Number of workers of the training loader; 0 if it has none or is unknown."""
    feeds = training_loader(facts)
    return (feeds.num_workers or 0) if feeds else 0


def busy(facts: Facts) -> float | None:
    """Share of time in which the workers make batches; None if unknown."""
    work = loader_work(facts)
    return work.busy if work else None


def lost_to_workers(
    facts: Facts,
    wait: InputWait,
    because: str,
    more: Sequence[Figure] = (),
    fixes: tuple[str, ...] | None = None,
) -> Lost:
    """All of ``wait``, with ``because`` after the colon, and the figures of the loader."""
    return Lost(
        wait.wait,
        wait.of,
        f"{wait.sentence}: {because}.",
        (*wait_figures(wait, facts, WAIT_LIMITS), *more, *loader_of_workers(facts)),
        place=batch_place(facts),
        fixes=data_fixes(wait, facts) if fixes is None else fixes,
        unproven=unproven(wait),
    )


def unproven(wait: InputWait) -> str:
    """Evidence needed to prove that the device waits too."""
    if wait.exposed or not wait.of.of_run:
        return ""
    return "a profiled window that shows whether the GPU idles during the wait"


def data_fixes(wait: InputWait, facts: Facts) -> tuple[str, ...]:
    """Fixes for a wait for data: a run's known loader can be changed, a trace's cannot."""
    feeds = training_loader(facts)
    if feeds is None or not wait.of.of_run:
        return ()
    # Pinning only helps with a GPU.
    pins = has_gpu(facts) and feeds.pin_memory is False
    return ("loader-workers", "loader-pin") if pins else ("loader-workers",)


MOSTLY_WAITS = 0.5
"""CPU use while fetching below which a training thread mostly waits for a disk or a network."""


@rule(
    when="the training thread makes each batch itself, between steps",
    limits=Limits(
        "The TensorBoard plugin reports the data loader from 5 %.", 0.05, WAIT_LIMITS.critical
    ),
    claims=WAIT,
    fixes=("loader-workers", "loader-pin"),
    answer="make batches in worker processes (num_workers)",
)
def input_in_main_thread(facts: Facts) -> Lost | None:
    """With num_workers=0 the training thread fetches and collates each batch while the model waits.
    Workers do that while the step runs."""
    in_main = fetches_in_main_thread(facts)
    if in_main is False:
        return None
    wait, cpu = input_wait(facts), fetch_demand(facts)
    if wait.wait < input_in_main_thread.limits.warning * wait.of.mean:
        return None
    lines = batch_lines(facts)
    where = f", {lines.named}" if lines and lines.named else ""
    blocked = ""
    if cpu is not None and cpu < MOSTLY_WAITS:
        blocked = f" and waits for files or a network for {fmt.percent(1 - cpu)} of that"
    return Lost(
        wait.wait,
        wait.of,
        f"{wait.sentence}: the loader runs in the main thread (num_workers=0){blocked}{where}.",
        (*wait_figures(wait, facts, input_in_main_thread.limits), *loader_in_main(facts)),
        place=batch_place(facts),
        fixes=data_fixes(wait, facts),
        doubt="the loader's num_workers was not recorded" if in_main is None else "",
        unproven=unproven(wait),
    )


_ENDING = "__del__"
"""Method of an iterator that is deleted: it waits for its workers to end."""

MOSTLY = 0.5
"""Share of the script's own code from which the end of a loader is distinguished."""


@fact
def loader_end(facts: Facts) -> int:
    """ns of the mean step spent ending loaders, all of it in ``other``; 0 if it is less than
    ``MOSTLY`` of ``other``, or there are too few samples."""
    (outside, _), step = stack_samples(facts), step_breakdown(facts)
    if step is None or "via" not in outside or not len(outside):
        return 0
    time = steady_held(facts)
    whole = lines_by_time(outside, time)
    if whole.samples < FEWEST_SAMPLES:
        return 0
    ends = np.array([str(via).endswith(_ENDING) for via in outside["via"]], dtype=np.bool_)
    ends &= asks_loader(outside, time)
    ending = round(int(time[ends].sum()) / whole.covered * step.mean)
    own = step.part("other")
    return min(ending, own) if ending >= MOSTLY * own else 0


EACH_STEP = 0.5
"""Starts per step from which the cause is not new epochs."""


@rule(
    when="the data loader restarts for each epoch",
    limits=Limits(),
    claims=Claim(phase="loader_start"),
    fixes=("loader-persistent", "loader-no-workers"),
    answer="pass persistent_workers=True, and create the loader once for all epochs",
)
def loader_start(facts: Facts) -> Lost | None:
    """Each epoch starts new worker processes, which import the script, open the dataset and fill
    their queue before the first batch is ready."""
    # Starts after the first. Not for traces: a window of some steps has no two epochs.
    if facts.run is None:
        return None
    step, feeds = steady_step(facts), training_loader(facts)
    starting, mean, count = loader_starts(facts)
    if not count:
        return None
    ending = loader_end(facts)
    cost = starting + ending
    what = "Starting the loader again" + (", and ending its workers," if ending else "")
    each_step = count >= EACH_STEP * step.count
    none_better = better_without_workers(facts, otherwise=step.mean - cost)
    return Lost(
        cost,
        step,
        f"{what} takes {step.part_of(cost)}{_why_again(feeds, each_step)}{none_better}.",
        (
            Figure("mean start", mean, "ns"),
            Figure("starts after the first", count, "count"),
            *step_figures(step),
            *worker_figures(facts),
        ),
        label="starting the loader again",
        parts=("loader_start", "other") if ending else (),
        place=asking_place(facts) if each_step or not _starts_anew(feeds) else loader_place(facts),
        fixes=(
            *(("loader-no-workers",) if none_better else ()),
            *(("loader-persistent",) if _starts_anew(feeds) and not each_step else ()),
        ),
    )


def _starts_anew(feeds: LoaderFacts | None) -> bool:
    """Whether the loader is known to restart its workers with each epoch."""
    return feeds is not None and bool(feeds.num_workers) and feeds.persistent_workers is False


def _why_again(feeds: LoaderFacts | None, each_step: bool) -> str:
    """The cause, if the loader's arguments are known and show it."""
    if each_step:
        return ": every step starts a new epoch, as next(iter(loader)) in a loop does"
    if feeds is None or not feeds.num_workers:
        return ""
    if feeds.persistent_workers:
        return (
            ": it is created again for each epoch, so its workers cannot stay, or they take long "
            "to start the next epoch"
        )
    if not _starts_anew(feeds):
        return ""
    several = fmt.several(feeds.num_workers, "worker")
    verb = "starts" if feeds.num_workers == 1 else "start"
    return f": {several} {verb} again with each epoch, unless persistent_workers=True keeps them"
