"""The recorded runs of a directory: as JSON, and each in a line of a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypedDict

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Severity, read_findings
from perftui.experiments.history import History
from perftui.facts.fact import Facts
from perftui.facts.step.steps import step_breakdown, step_count
from perftui.report.output_text import SCHEMA, Schema, filled, said
from perftui.run.files import UnreadableError
from perftui.run.layout import RunLayout
from perftui.run.reader import RunEntry, RunReader


class RunOutput(TypedDict):
    """A recorded run; null is what a damaged one does not tell."""

    run: Annotated[str, said("Its identifier.")]
    path: str
    state: Annotated[str | None, said("running, exited 0, stopped, ...")]
    started_ns: Annotated[int | None, said("Nanoseconds since the epoch.")]
    ended_ns: int | None
    command: list[str] | None
    name: Annotated[str | None, said("The name that was given to it.")]
    host: str | None
    step_ns: Annotated[
        int | None,
        said("Mean step without the extreme tenths; null if not known or not read."),
    ]
    slower: Annotated[
        float | None,
        said(
            "By which share the step is longer than in earlier runs of its command; null if it is "
            "not, or not certainly."
        ),
    ]
    problem: Annotated[str | None, said("Why it cannot be read.")]


class RunsOutput(TypedDict):
    """`perftui runs`: the recorded runs of a directory."""

    schema: Schema
    path: Annotated[str, said("The directory of the runs.")]
    runs: Annotated[list[RunOutput], said("Newest first.")]


def runs_object(
    directory: Path, entries: Iterable[RunEntry], judged: Mapping[Path, History]
) -> RunsOutput:
    """The runs ``entries`` of ``directory``, in their order; those ``judged`` with their step."""
    rows = [_run(entry, judged.get(entry.root)) for entry in entries]
    return {"schema": SCHEMA, "path": str(directory), "runs": rows}


def _run(entry: RunEntry, judged: History | None) -> RunOutput:
    of_manifest = ("state", "started_ns", "ended_ns", "command", "name", "host")
    return filled(
        RunOutput,
        entry.manifest,
        entry,
        run=entry.run_id,
        path=str(entry.root),
        step_ns=judged.now.usual_ns if judged else None,
        slower=judged.slower if judged else None,
        **({} if entry.manifest else dict.fromkeys(of_manifest)),
    )


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
    """Share of a step that it costs, 0 to 1."""


def summarise(root: Path) -> RunSummary:
    """The summary of the run at ``root``. What was concluded at its end is taken where it is there:
    it rests on the profiled windows, too.

    Raises:
        ManifestError: there is no readable run.
        OSError: it cannot be read.
    """
    run = RunReader(root).poll()
    facts = Facts(run)
    concluded = None
    if run.manifest.status.is_over:
        with suppress(UnreadableError, OSError):
            concluded = read_findings(RunLayout(root).findings)
    top = (concluded or diagnosis(facts)).top
    steady = step_breakdown(facts)
    return RunSummary(
        step_count(facts),
        steady.mean if steady else None,
        top.rule if top else "",
        top.severity if top else None,
        top.share if top else 0.0,
    )
