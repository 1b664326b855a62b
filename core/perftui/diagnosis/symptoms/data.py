"""The training waits for data: fetched by itself, or by workers that do not keep up."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.diagnosis.rule import Claim, Limits, Lost, Rule
from perftui.diagnosis.symptoms import data_figures as figures
from perftui.facts.fact import Facts
from perftui.facts.gpu import has_gpu
from perftui.facts.input_wait import InputWait, fetches_in_main_thread, input_wait
from perftui.facts.loader import training_loader
from perftui.facts.loader_work import loader_work
from perftui.facts.main_thread import main_batches
from perftui.facts.steps import wait_p95
from perftui.facts.worker_lines import loader_lines

WORKERS_IDLE = 0.5
"""Share of their time below which workers are idle enough for more of them to be of no use.
Measured: 0.78 with workers that held up the training, 0.44 with workers that kept up."""

RARE = 0.5
"""Where 95 % of the waits are below this part of the mean, few steps hold most of the wait. Workers
that are too slow make most steps wait: then the two are alike."""

_CRITICAL = 0.20
_WAIT = Claim(idle=GapCause.INPUT_WAIT, phase="input_wait")


def _in_main_thread(facts: Facts) -> Lost | None:
    in_main = fetches_in_main_thread(facts)
    if in_main is False:
        return None
    wait = input_wait(facts)
    named = figures.named_line(main_batches(facts))
    at = f", {named}" if named else ""
    return Lost(
        wait.wait,
        wait.of,
        f"{wait.sentence}: the loader runs in the main thread (num_workers=0){at}.",
        (*figures.wait(wait, facts, MAIN_THREAD.limits), *figures.loader_in_main(facts)),
        fixes=_fixes(wait, facts),
        doubt="the loader's num_workers was not recorded" if in_main is None else "",
        unproven=_unproven(wait),
    )


def _bound(facts: Facts) -> Lost | None:
    wait = input_wait(facts)
    return Lost(
        wait.wait,
        wait.of,
        f"{wait.sentence}{_because(facts, wait)}.",
        (*figures.wait(wait, facts, BOUND.limits), *figures.loader_of_workers(facts)),
        fixes=_fixes_of_workers(facts, wait),
        unproven=_unproven(wait),
    )


def _unproven(wait: InputWait) -> str:
    if wait.exposed or not wait.of.of_run:
        return ""
    return "a profiled window that shows whether the GPU idles meanwhile"


def _fixes(wait: InputWait, facts: Facts) -> tuple[str, ...]:
    """What answers a wait for data: a known loader of a run can be changed, a trace's cannot."""
    feeds = training_loader(facts)
    if feeds is None or not wait.of.of_run:
        return ()
    if has_gpu(facts) and feeds.pin_memory is False:
        return ("loader-workers", "loader-pin")
    return ("loader-workers",)


def _fixes_of_workers(facts: Facts, wait: InputWait) -> tuple[str, ...]:
    if _is_rare(facts, wait):
        return ()
    useless = {"loader-workers"} if wait.of.of_run and _are_idle(facts) else set()
    return tuple(fix for fix in _fixes(wait, facts) if fix not in useless)


def _is_rare(facts: Facts, wait: InputWait) -> bool:
    """Whether a few steps do nearly all of the waiting: more workers would not shorten it."""
    p95 = wait_p95(facts)
    return wait.of.of_run and p95 is not None and p95 < RARE * wait.wait


def _are_idle(facts: Facts) -> bool:
    """Whether the workers do nothing for most of the time: more of them would do nothing either."""
    made = loader_work(facts)
    return made is not None and made.busy is not None and made.busy < WORKERS_IDLE


def _because(facts: Facts, wait: InputWait) -> str:
    """The part of the cause that is certain: how many workers could not keep up."""
    feeds = training_loader(facts)
    workers = feeds.num_workers if feeds else None
    if workers and _is_rare(facts, wait):
        return (
            ", nearly all of it in fewer than one step of twenty: workers that start anew with "
            "each epoch make its first step wait, unless persistent_workers=True keeps them"
        )
    if workers is None:
        return ""
    if workers == 0:
        return ": the loader runs in the main thread (num_workers=0)"
    return _how_busy(facts, workers)


def _how_busy(facts: Facts, workers: int) -> str:
    made, several = loader_work(facts), fmt.several(workers, "worker")
    is_one = workers == 1
    if made is not None and made.busy is not None and _are_idle(facts):
        verb = "makes" if is_one else "make"
        return f", though {several} {verb} batches in only {fmt.percent(made.busy)} of the time"
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
        "With num_workers=0 batches are fetched and collated by the thread that trains, so the "
        "model waits meanwhile. Workers do that in processes of their own while the step runs."
    ),
    lost=_in_main_thread,
    limits=Limits(
        0.05,
        _CRITICAL,
        "The wait is certain to be avoidable, so less of it is worth a warning; the TensorBoard "
        "plugin speaks of the data loader from 5 %, TraceML and xprof of 20 %.",
    ),
    claims=_WAIT,
    fixes=("loader-workers", "loader-pin"),
    answer="loader workers",
)

BOUND = Rule(
    id="input-bound",
    when="the training waits for data, whatever the cause",
    explanation=(
        "The next batch is not there when the step needs it. Look at how busy the workers are, at "
        "the lines where they spend their time, and at the disk."
    ),
    lost=_bound,
    limits=Limits(
        0.10,
        _CRITICAL,
        "TraceML warns at 10 %, xprof at 5 %; both call 20 % input-bound.",
    ),
    claims=_WAIT,
    fixes=("loader-workers", "loader-pin"),
    answer="more workers, pinned memory, cheaper transforms",
)
