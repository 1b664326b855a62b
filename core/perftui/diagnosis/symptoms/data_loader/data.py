"""The training waits for data: fetched by itself, or by workers that do not keep up."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Severity
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.data_loader import data_figures as figures
from perftui.diagnosis.symptoms.data_loader.data_waiting import (
    AT_EPOCHS,
    FIRST_READING,
    WAIT,
    WORKERS_IDLE,
    busy,
    data_fixes,
    unproven,
    workers,
)
from perftui.diagnosis.symptoms.data_loader.wait_limits import WAIT_LIMITS
from perftui.facts.cpu.machine import busy_host
from perftui.facts.data_loader.batch_place import batch_lines, batch_place, loader_place
from perftui.facts.data_loader.files_read import is_first_reading
from perftui.facts.data_loader.input_wait import InputWait, fetches_in_main_thread, input_wait
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.data_loader.loader_work import fetch_demand, loader_work
from perftui.facts.data_loader.wait_pattern import wait_pattern
from perftui.facts.data_loader.without_workers import better_without_workers
from perftui.facts.data_loader.worker_lines import loader_lines
from perftui.facts.fact import Facts
from perftui.facts.step.steps import wait_p95

RARE = 0.5
"""Where 95 % of the waits are below this part of the mean, few steps hold most of the wait. Workers
that are too slow make most steps wait: then the two are alike."""

MOSTLY_WAITS = 0.5
"""CPU use while fetching below which a training thread waits for a disk or a network instead."""


def _in_main_thread(facts: Facts) -> Lost | None:
    in_main = fetches_in_main_thread(facts)
    if in_main is False:
        return None
    wait, cpu = input_wait(facts), fetch_demand(facts)
    if wait.wait < MAIN_THREAD.limits.warning * wait.of.mean:
        return None
    lines = batch_lines(facts)
    named = f", {lines.named}" if lines and lines.named else ""
    blocked = ""
    if cpu is not None and cpu < MOSTLY_WAITS:
        blocked = f" and waits for files or a network for {fmt.percent(1 - cpu)} of that"
    return Lost(
        wait.wait,
        wait.of,
        f"{wait.sentence}: the loader runs in the main thread (num_workers=0){blocked}{named}.",
        (*figures.wait(wait, facts, MAIN_THREAD.limits), *figures.loader_in_main(facts)),
        place=batch_place(facts),
        fixes=data_fixes(wait, facts),
        doubt="the loader's num_workers was not recorded" if in_main is None else "",
        unproven=unproven(wait),
    )


def _bound(facts: Facts) -> Lost | None:
    wait = input_wait(facts)
    if wait.wait < WAIT_LIMITS.warning * wait.of.mean:
        return None
    cold = is_first_reading(facts)
    none_better = "" if _is_rare(facts, wait) else better_without_workers(facts)
    return Lost(
        wait.wait,
        wait.of,
        f"{wait.sentence}{_because(facts, wait)}{none_better}.",
        (*figures.wait(wait, facts, WAIT_LIMITS), *figures.loader_of_workers(facts)),
        place=loader_place(facts) if none_better else batch_place(facts),
        fixes=_fixes_of_workers(facts, wait),
        worst=Severity.INFO if _are_idle(facts) and busy_host(facts) else Severity.CRITICAL,
        doubt=FIRST_READING if cold else "",
        unproven=unproven(wait),
    )


def _fixes_of_workers(facts: Facts, wait: InputWait) -> tuple[str, ...]:
    if _is_rare(facts, wait):
        return ()
    if better_without_workers(facts):
        return ("loader-no-workers",)
    useless = {"loader-workers"} if wait.of.of_run and _are_idle(facts) else set()
    return tuple(fix for fix in data_fixes(wait, facts) if fix not in useless)


def _is_rare(facts: Facts, wait: InputWait) -> bool:
    """Whether a few steps do nearly all of the waiting: more workers would not shorten it."""
    p95 = wait_p95(facts)
    return wait.of.of_run and p95 is not None and p95 < RARE * wait.wait


def _are_idle(facts: Facts) -> bool:
    """Whether the workers do nothing for most of the time: more of them would do nothing either."""
    share = busy(facts)
    return share is not None and share < WORKERS_IDLE


def _because(facts: Facts, wait: InputWait) -> str:
    """The part of the cause that is certain: how many workers could not keep up."""
    feeds, count = training_loader(facts), workers(facts)
    if count and _is_rare(facts, wait):
        return f", nearly all of it in fewer than one step in twenty{_when(facts)}"
    if feeds is None or feeds.num_workers is None:
        return ""
    if not count:
        return ": the loader runs in the main thread (num_workers=0)"
    return _how_busy(facts, count)


def _when(facts: Facts) -> str:
    """Which steps wait, to end a sentence; empty if unknown."""
    feeds, pattern = training_loader(facts), wait_pattern(facts)
    if feeds is not None and feeds.persistent_workers is False:
        return (
            ": workers restart with each epoch and its first step waits for them, unless "
            "persistent_workers=True keeps them"
        )
    at_epochs = pattern is not None and pattern.at_epochs >= AT_EPOCHS
    return ": those that begin an epoch, when the queue is empty" if at_epochs else ""


def _how_busy(facts: Facts, count: int) -> str:
    made, several = loader_work(facts), fmt.several(count, "worker")
    is_one = count == 1
    if made is not None and made.busy is not None and _are_idle(facts):
        verb, host = "makes" if is_one else "make", busy_host(facts)
        elsewhere = f", and {host}" if host else ""
        share = fmt.percent(made.busy)
        return f", though {several} {verb} batches in only {share} of the time{elsewhere}"
    slow = f": {several} {'does' if is_one else 'do'} not keep up"
    if made is None or made.busy is None:
        return slow
    lines = loader_lines(facts)
    named = figures.named_line(lines.making) if lines else ""
    return f"{slow}, mostly {made.mostly}" + (f" ({named})" if named else "")


MAIN_THREAD = Rule(
    id="input-in-main-thread",
    when="the training thread makes each batch itself, between steps",
    explanation=(
        "With num_workers=0 the training thread fetches and collates each batch while the model "
        "waits. Workers do that in separate processes while the step runs."
    ),
    lost=_in_main_thread,
    limits=Limits(
        0.05,
        WAIT_LIMITS.critical,
        "The wait is certainly avoidable, hence a low limit; the TensorBoard plugin reports the "
        "data loader from 5 %, TraceML and xprof from 20 %.",
    ),
    claims=WAIT,
    fixes=("loader-workers", "loader-pin"),
    answer="make batches in worker processes (num_workers)",
)

BOUND = Rule(
    id="input-bound",
    when="the training waits for data, whatever the cause",
    explanation=(
        "The next batch is not ready when the step needs it. Check how busy the workers are, the "
        "lines where they spend their time, and the disk."
    ),
    lost=_bound,
    limits=WAIT_LIMITS,
    claims=WAIT,
    fixes=("loader-workers", "loader-pin", "loader-no-workers"),
    answer="more workers, pinned memory, cheaper transforms",
)
