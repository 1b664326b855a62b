"""``loader-start``: each epoch starts the loader, and its workers, anew."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.model import Abstention, Fact, Finding
from perftui.diagnosis.policy import Policy
from perftui.diagnosis.rules.input_wait import workers_fact
from perftui.diagnosis.severity import collected, confidence, more_steps, severity, supported
from perftui.facts.loader import LoaderFacts
from perftui.facts.loader_restarts import Restarts
from perftui.facts.step_breakdown import StepShare

RULE = "loader-start"


def evaluate(evidence: Evidence, policy: Policy) -> Finding | Abstention | None:
    """Find starts after the first that take ``policy.loader_start_warning`` of the mean step.

    A trace is not asked: a window of some steps holds no two epochs.
    """
    if evidence.manifest is None:
        return None
    share = collected(evidence, policy)
    if isinstance(share, str):
        return Abstention(RULE, share)
    again = evidence.restarts
    if again is None:
        return None
    lost = again.per_step / share.mean
    found = severity(lost, policy.loader_start_warning, policy.loader_start_critical)
    if found is None:
        return None
    return Finding(
        RULE,
        supported(found, share.count, policy),
        f"Starting the loader again takes {fmt.part_of_step(again.per_step, share.mean)}"
        f"{_because(evidence)}.",
        _facts(evidence, policy, share, again),
        again.per_step,
        share.mean,
        confidence(share.count, policy),
        _fixes(evidence),
        would_raise_confidence=more_steps(share.count, policy),
        steps=share.count,
    )


def _starts_anew(loader: LoaderFacts | None) -> bool:
    """Whether the loader is known to start its workers anew with each epoch."""
    return loader is not None and bool(loader.num_workers) and loader.persistent_workers is False


def _fixes(evidence: Evidence) -> tuple[str, ...]:
    return ("loader-persistent",) if _starts_anew(evidence.loader) else ()


def _because(evidence: Evidence) -> str:
    """The cause, where the loader's arguments are known and tell it."""
    loader = evidence.loader
    if loader is None or not loader.num_workers or not _starts_anew(loader):
        return ""
    workers = fmt.several(loader.num_workers, "worker")
    verb = "starts" if loader.num_workers == 1 else "start"
    return f": {workers} {verb} anew with each epoch, unless persistent_workers=True keeps them"


def _facts(
    evidence: Evidence, policy: Policy, share: StepShare, again: Restarts
) -> tuple[Fact, ...]:
    lost = round(100 * again.per_step / share.mean, 1)
    return (
        Fact("starting the loader again", lost, "%", 100 * policy.loader_start_warning),
        Fact("mean start", again.mean, "ns"),
        Fact("starts after the first", again.count, "count"),
        Fact("mean step", share.mean, "ns"),
        Fact("steady steps", share.count, "count"),
        *workers_fact(evidence),
    )
