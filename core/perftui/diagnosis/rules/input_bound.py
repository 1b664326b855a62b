"""``input-bound``: the training waits for data."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.model import Abstention, Fact, Finding
from perftui.diagnosis.policy import Policy
from perftui.diagnosis.rules.input_wait import (
    InputWait,
    cores_fact,
    dearest,
    facts,
    fixes,
    input_wait,
    judge,
    line_facts,
    sure,
    workers_fact,
    would_help,
)

RULE = "input-bound"


def evaluate(evidence: Evidence, policy: Policy) -> Finding | Abstention | None:
    """Find waits for data of at least ``policy.input_warning`` of the step, whatever the cause."""
    wait = input_wait(evidence, policy, RULE)
    if isinstance(wait, Abstention):
        return wait
    severity = judge(wait, policy.input_warning, policy)
    if severity is None:
        return None
    return Finding(
        RULE,
        severity,
        f"{wait.words(evidence.subject)}{_because(evidence, wait, policy)}.",
        (*facts(wait, evidence, policy.input_warning), *_loader_facts(evidence)),
        wait.wait,
        wait.step,
        sure(wait, policy),
        _fixes(evidence, wait, policy),
        would_help(wait, policy),
        wait.steps,
    )


RARE = 0.5
"""Where 95 % of the waits are below this part of the mean, few steps hold most of the wait. Workers
that are too slow make most steps wait: then the two are alike."""


def _is_rare(evidence: Evidence, wait: InputWait) -> bool:
    """Whether a few steps do nearly all of the waiting: more workers would not shorten it."""
    p95 = evidence.wait_p95
    return wait.from_run and p95 is not None and p95 < RARE * wait.wait


def _are_idle(evidence: Evidence, policy: Policy) -> bool:
    """Whether the workers do nothing for most of the time: more of them would do nothing either."""
    busy = evidence.work.busy if evidence.work else None
    return busy is not None and busy < policy.workers_idle


def _fixes(evidence: Evidence, wait: InputWait, policy: Policy) -> tuple[str, ...]:
    if _is_rare(evidence, wait):
        return ()
    useless = {"loader-workers"} if wait.from_run and _are_idle(evidence, policy) else set()
    return tuple(fix for fix in fixes(wait, evidence) if fix not in useless)


def _because(evidence: Evidence, wait: InputWait, policy: Policy) -> str:
    """The part of the cause that is certain: how many workers could not keep up."""
    workers = evidence.loader.num_workers if evidence.loader else None
    if workers and _is_rare(evidence, wait):
        return (
            ", nearly all of it in fewer than one step of twenty: workers that start anew with "
            "each epoch make its first step wait, unless persistent_workers=True keeps them"
        )
    if workers is None:
        return ""
    if workers == 0:
        return ": the loader runs in the main thread (num_workers=0)"
    return _how_busy(evidence, policy, workers)


def _how_busy(evidence: Evidence, policy: Policy, workers: int) -> str:
    work, several = evidence.work, fmt.several(workers, "worker")
    is_one = workers == 1
    if work is not None and work.busy is not None and _are_idle(evidence, policy):
        verb = "makes" if is_one else "make"
        return f", though {several} {verb} batches in only {fmt.percent(work.busy)} of the time"
    slow = f": {several} {'does' if is_one else 'do'} not keep up"
    if work is None or work.busy is None:
        return slow
    named = dearest(evidence.worker_lines.making) if evidence.worker_lines else ""
    return f"{slow}, mostly {work.mostly}" + (f" ({named})" if named else "")


def _loader_facts(evidence: Evidence) -> list[Fact]:
    found = workers_fact(evidence)
    if evidence.worker_lines is not None:
        found += line_facts(evidence.worker_lines.making, evidence)
    if evidence.batches_ready is not None:
        found.append(Fact("batches ready, median", evidence.batches_ready, "count"))
    machine = evidence.machine
    if machine.workers_cores is not None:
        found.append(Fact("cores used by workers", round(machine.workers_cores, 1)))
    if machine.workers_read is not None:
        found.append(Fact("read by workers in a second", round(machine.workers_read), "B"))
    if machine.tree_cores is not None:
        found.append(Fact("cores used by the training", round(machine.tree_cores, 1)))
    return [*found, *cores_fact(evidence)]
