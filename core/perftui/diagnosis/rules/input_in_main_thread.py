"""``input-in-main-thread``: batches are fetched and collated between steps, by the main thread."""

from __future__ import annotations

from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.model import Abstention, Fact, Finding
from perftui.diagnosis.policy import Policy
from perftui.diagnosis.rules.input_wait import (
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
from perftui.facts.place import Place

RULE = "input-in-main-thread"

_MAIN_THREAD = "_SingleProcessDataLoaderIter"
_WORKERS = "_MultiProcessingDataLoaderIter"
"""PyTorch's iterators without and with workers; they name the range around each fetch."""


def evaluate(evidence: Evidence, policy: Policy) -> Finding | Abstention | None:
    """Find ``num_workers=0`` where fetching costs ``policy.main_thread_warning`` of the step."""
    in_main = _fetches_in_main_thread(evidence)
    if in_main is False:
        return None
    wait = input_wait(evidence, policy, RULE)
    if isinstance(wait, Abstention):
        return wait
    severity = judge(wait, policy.main_thread_warning, policy)
    if severity is None:
        return None
    if in_main is None:
        return Abstention(RULE, "the loader's num_workers was not recorded")
    return Finding(
        RULE,
        severity,
        f"{wait.words(evidence.subject)}: "
        f"the loader runs in the main thread (num_workers=0){_at(evidence)}.",
        (*facts(wait, evidence, policy.main_thread_warning), *_loader_facts(evidence)),
        wait.wait,
        wait.step,
        sure(wait, policy),
        fixes(wait, evidence),
        would_help(wait, policy),
        wait.steps,
    )


def _fetches_in_main_thread(evidence: Evidence) -> bool | None:
    """By the loader's configuration, else by the iterators that fetch in the steady steps of the
    trace; None where neither tells, or several loaders do."""
    if evidence.loader and evidence.loader.num_workers is not None:
        return evidence.loader.num_workers == 0
    names = evidence.trace.names_within() if evidence.trace else frozenset()
    kinds = {kind for kind in (_MAIN_THREAD, _WORKERS) for name in names if kind in name}
    return kinds == {_MAIN_THREAD} if len(kinds) == 1 else None


def _at(evidence: Evidence) -> str:
    named = dearest(evidence.main_batches)
    return f", {named}" if named else ""


def _loader_facts(evidence: Evidence) -> list[Fact]:
    loader = evidence.loader
    found = [*workers_fact(evidence), *line_facts(evidence.main_batches, evidence)]
    if loader and loader.dataset:
        found.append(Fact("dataset", loader.dataset))
    if loader and loader.source:
        place = Place(rank=evidence.rank, file=loader.file, line=loader.line)
        found.append(Fact("loader made at", loader.source, place=place))
    return [*found, *cores_fact(evidence)]
