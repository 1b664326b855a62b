"""What `check` prints as JSON."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from perftui.experiments.conditions import Difference
from perftui.experiments.history import LeftOut, Place
from perftui.report.check.model import State, Verdict
from perftui.report.outputs.changes import InForce
from perftui.report.outputs.common import Ratio, Schema, Share
from perftui.report.outputs.finding import SeverityName


class CheckRow(TypedDict):
    """One limit, and what was found."""

    name: Annotated[str, Meta(description="The key of a finding, `findings` or `step time`.")]
    found: str
    limit: str
    state: State
    fails: Annotated[
        bool, Meta(description="Whether it fails the whole; `inconclusive` decides if not certain.")
    ]
    message: str
    severity: Annotated[SeverityName | None, Meta(description="Of a finding.")]
    file: Annotated[
        str | None, Meta(description="Relative to the repository, if the file is in there.")
    ]
    line: int | None


class SeriesRun(TypedDict):
    """One run of the command."""

    run: str
    started_ns: Annotated[int, Meta(description="Since the epoch.")]
    step_ns: Annotated[
        int | None, Meta(description="Mean steady step without the slowest and fastest tenth.")
    ]
    commit: Annotated[str | None, Meta(description="With `+` if there were uncommitted changes.")]


class HistoryOutput(TypedDict):
    """All earlier runs of the command that the run was held against."""

    place: Annotated[
        Place | None, Meta(description="Of the run among them; null if its steps say nothing.")
    ]
    usual_ns: Annotated[
        float | None, Meta(description="Median step of the usual runs; null with too few of them.")
    ]
    noise: Annotated[
        float | None,
        Meta(description="By which share a step has to be longer to be slower than usual."),
    ]
    slower_since: Annotated[
        str | None, Meta(description="The first run since which they are slower, if they are.")
    ]
    last_before: Annotated[
        str | None, Meta(description="The run before that one, otherwise the newest earlier run.")
    ]
    runs: Annotated[list[SeriesRun], Meta(description="The earlier runs, the oldest first.")]
    left_out: Annotated[
        list[LeftOut], Meta(description="Earlier runs that cannot be compared, and why.")
    ]


class CheckOutput(TypedDict):
    """`perftui check`: whether a run or trace is within its limits."""

    schema: Schema
    path: str
    against: Annotated[str | None, Meta(description="The baseline; null if there is none.")]
    verdict: Verdict
    fail_on: Annotated[
        SeverityName | None,
        Meta(description="The least severity that fails; null if findings are not checked."),
    ]
    max_regression: Share
    inconclusive: Annotated[
        Literal["pass", "fail"], Meta(description="What a check counts as if it is not certain.")
    ]
    checks: list[CheckRow]
    ratio: Ratio
    differences: Annotated[
        list[Difference],
        Meta(
            description=(
                "What has changed since the baseline, or with a history where it became slower."
            )
        ),
    ]
    changes: InForce
    history: Annotated[HistoryOutput | None, Meta(description="Null without `--against history`.")]
