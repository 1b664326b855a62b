"""One run in a line of a list: how far it came, how long a step takes, and the verdict."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Diagnosis, Severity
from perftui.diagnosis.store import read_findings
from perftui.facts.fact import Facts
from perftui.facts.step.steps import step_breakdown, step_count
from perftui.run.files import UnreadableError
from perftui.run.layout import RunLayout
from perftui.run.reader import RunReader


@dataclass(frozen=True)
class RunSummary:
    """What is known of a run without opening it."""

    train_steps: int
    """Steps of the first rank, warm-up included: of training, where anything is trained."""
    mean: int | None
    """Mean steady step, ns; None without steady steps."""
    verdict: str
    """The rule that names the costliest cause, or ``healthy``; empty where nothing could be
    judged."""
    severity: Severity | None
    """Severity of that rule's finding; None where nothing could be judged."""
    share: float
    """What that costs of a step, 0 to 1."""


def summarise(root: Path) -> RunSummary:
    """The summary of the run at ``root``. What was concluded at its end is taken where it is there:
    it rests on the profiled windows, too.

    Raises:
        ManifestError: there is no readable run.
        OSError: it cannot be read.
    """
    run = RunReader(root).poll()
    facts = Facts(run)
    found = _concluded(root) if run.manifest.status.is_over else None
    top = (found or diagnosis(facts)).top
    steady = step_breakdown(facts)
    return RunSummary(
        step_count(facts),
        steady.mean if steady else None,
        top.rule if top else "",
        top.severity if top else None,
        top.share if top else 0.0,
    )


def _concluded(root: Path) -> Diagnosis | None:
    with suppress(UnreadableError, OSError):
        return read_findings(RunLayout(root).findings)
    return None
